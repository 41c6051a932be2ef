"""Writing of objects in Swift, for tools that build pyramids; see storage.md section 6."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from swiftclient.client import ClientException, Connection
from urllib3.exceptions import HTTPError

from mastaba.api.writable_storages import WritableStorage
from mastaba.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba_http import Listed, Pages, failure_reason
from mastaba_storage_swift.storage import SwiftStorage

T = TypeVar("T")

_MOST_PARTS: Final = 1000
"""Segments of a large object, by default of servers."""
_TEMPORARY: Final = frozenset((408, 422, 429))
"""With 422, the server reports that the MD5 of what it received is wrong."""


class SwiftWriter(SwiftStorage, WritableStorage):
    """Objects of one container, read and written. The server checks the MD5 of what it receives."""

    def write(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str | None:
        headers = {"If-None-Match": "*"} if only_if_absent else {}
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
        etag: str = self._asked(
            key,
            lambda connection: connection.put_object(
                self.container, key, data, content_length=len(data), etag=md5, headers=headers
            ),
            is_conditional=only_if_absent,
        )
        return etag.strip('"')

    def delete(self, key: str) -> None:
        def delete(connection: Connection) -> None:
            try:
                connection.delete_object(self.container, key)
            except ClientException as error:
                if error.http_status != 404:
                    raise

        self._asked(key, delete)

    def list(self, prefix: str) -> Iterator[str]:
        return (key for key, _ in self.list_versions(prefix))

    def list_versions(self, prefix: str) -> Iterator[Listed]:
        return Pages(
            partial(self._page, prefix),
            lambda: self._error(StorageUnavailableError, prefix, "the list has no end"),
        )

    def _page(self, prefix: str, marker: str) -> tuple[Sequence[Listed], str]:
        page = self._asked(prefix, partial(self._names, prefix, marker))
        return page, page[-1][0] if page else ""

    @property
    def most_parts(self) -> int:
        return _MOST_PARTS

    def begin_parts(self, key: str) -> str:
        return secrets.token_hex(8)

    def write_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        return str(self.write(_segment(key, upload, number), data))

    def complete_parts(self, key: str, upload: str, parts: Sequence[str]) -> str | None:
        manifest = json.dumps(
            [
                {"path": f"/{self.container}/{_segment(key, upload, number)}", "etag": etag}
                for number, etag in enumerate(parts, 1)
            ]
        )
        self._asked(
            key,
            lambda connection: connection.put_object(
                self.container, key, manifest, query_string="multipart-manifest=put"
            ),
        )
        try:
            return self.stat(key).version
        except ObjectNotFoundError:
            # It is there, but not on all servers yet.
            return None

    def abandon_parts(self, key: str, upload: str) -> None:
        for segment in list(self.list(_segment(key, upload))):
            self.delete(segment)

    def _names(self, prefix: str, marker: str, connection: Connection) -> Sequence[Listed]:
        try:
            page = connection.get_container(self.container, prefix=prefix, marker=marker)[1]
            # Objects in segments have an ETag that is not listed.
            return [(str(one["name"]), one.get("hash")) for one in page]
        except (ValueError, LookupError, TypeError) as error:
            reason = "the response is not a list"
            raise self._error(StorageUnavailableError, prefix, reason) from error

    def _asked(self, key: str, question: Callable[[Any], T], *, is_conditional: bool = False) -> T:
        """Return the answer to a question; a refused token is renewed once."""
        token = self._account.token()
        for is_last in (False, True):
            try:
                return question(self._connection(token))
            except ClientException as error:
                status = error.http_status
                if not is_last and (
                    status == 401 or (status == 403 and not self._account.is_fresh(token))
                ):
                    token = self._account.renew(token)
                    continue
                if status == 412 and is_conditional:
                    raise FileExistsError(f"{self.full_name}/{key} exists") from error
                raise self._translated(error, key) from error
            except (OSError, HTTPError) as error:
                reason = f"{self._url} does not answer: {failure_reason(error)}"
                raise self._error(StorageUnavailableError, key, reason) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _translated(self, error: ClientException, key: str) -> StorageError:
        status = error.http_status
        if status is None:
            reason = f"{self._url} does not answer: {error}"
            return self._error(StorageUnavailableError, key, reason)
        kind: type[StorageError] = StorageError
        if status in (401, 403):
            kind = AccessDeniedError
        elif status in _TEMPORARY or status >= 500:
            kind = StorageUnavailableError
        missing = "; does the container exist?" if status == 404 else ""
        return self._error(kind, key, f"the response is {status}{missing}")


def _segment(key: str, upload: str, number: int | None = None) -> str:
    """Return the name of a part of an object, or of its folder."""
    folder = f"{key}.parts/{upload}/"
    return folder if number is None else f"{folder}{number:08d}"
