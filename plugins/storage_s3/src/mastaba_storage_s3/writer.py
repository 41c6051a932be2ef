"""Writing of objects in S3, for tools that build pyramids; see storage.md section 5."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError
from botocore.parsers import ResponseParserError

from mastaba.api.writable_storages import WritableStorage
from mastaba.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba_http import Listed, Pages, failure_reason
from mastaba_storage_s3.storage import S3Storage

T = TypeVar("T")

_PART: Final = 64 * 1024 * 1024
"""Bytes of an upload in one request; larger objects are uploaded in parts of this size."""
_MOST_PARTS: Final = 10_000

_TEMPORARY: Final = frozenset((408, 409, 429))
_EXISTS: Final = frozenset((409, 412))
"""Answers to a write on condition that the object does not exist."""
_CONFLICTS: Final = frozenset(
    ("ConcurrentModification", "ConditionalRequestConflict", "OperationAborted")
)
"""Codes of status 409 that say nothing of the object: another request was in progress."""
_NO_UPLOAD: Final = "NoSuchUpload"


class S3Writer(S3Storage, WritableStorage):
    """Objects of one bucket, read and written. The server checks the MD5 of what it receives."""

    def write(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str | None:
        condition = {"IfNoneMatch": "*"} if only_if_absent else {}
        if len(data) > _PART:
            return self._write_in_parts(key, data, condition)
        answer = self._call(
            "put_object",
            key,
            Body=data,
            ContentMD5=_md5(data),
            ContentLength=len(data),
            **condition,
        )
        return self._named(answer, "ETag", key).strip('"')

    def delete(self, key: str) -> None:
        self._call("delete_object", key)

    def list(self, prefix: str) -> Iterator[str]:
        return (key for key, _ in self.list_versions(prefix))

    def list_versions(self, prefix: str) -> Iterator[Listed]:
        return Pages(
            partial(self._page, prefix),
            lambda: self._error(StorageUnavailableError, prefix, "the list has no end"),
        )

    def _page(self, prefix: str, token: str) -> tuple[Sequence[Listed], str]:
        start = {"ContinuationToken": token} if token else {}
        page = self._asked(
            prefix,
            lambda client: client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **start),
        )
        if "IsTruncated" not in page:
            raise self._error(StorageUnavailableError, prefix, "the response is not a list")
        found = [
            (self._named(one, "Key", prefix), one.get("ETag", "").strip('"') or None)
            for one in page.get("Contents", ())
        ]
        is_last = not page["IsTruncated"]
        return found, "" if is_last else self._named(page, "NextContinuationToken", prefix)

    @property
    def most_parts(self) -> int:
        return _MOST_PARTS

    def begin_parts(self, key: str) -> str:
        return self._named(self._call("create_multipart_upload", key), "UploadId", key)

    def write_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        answer = self._call(
            "upload_part",
            key,
            Body=data,
            ContentMD5=_md5(data),
            PartNumber=number,
            UploadId=upload,
        )
        return self._named(answer, "ETag", key)

    def complete_parts(self, key: str, upload: str, parts: Sequence[str]) -> str | None:
        return self._complete(key, upload, parts, {})

    def abandon_parts(self, key: str, upload: str) -> None:
        # As when it was completed, or the store itself removed what was left for long.
        with suppress(ObjectNotFoundError):
            self._call("abort_multipart_upload", key, UploadId=upload)

    def _complete(
        self, key: str, upload: str, parts: Sequence[str], condition: dict[str, str]
    ) -> str | None:
        listed = [{"ETag": tag, "PartNumber": number} for number, tag in enumerate(parts, 1)]
        answer = self._call(
            "complete_multipart_upload",
            key,
            MultipartUpload={"Parts": listed},
            UploadId=upload,
            **condition,
        )
        # The RADOS gateway leaves it out.
        return str(answer.get("ETag", "")).strip('"') or None

    def _write_in_parts(self, key: str, data: bytes, condition: dict[str, str]) -> str | None:
        upload = self.begin_parts(key)
        try:
            starts = enumerate(range(0, len(data), _PART), 1)
            parts = [
                self.write_part(key, upload, number, data[start : start + _PART])
                for number, start in starts
            ]
            return self._complete(key, upload, parts, condition)
        except BaseException:
            with suppress(StorageError):
                self.abandon_parts(key, upload)
            raise

    def _call(self, operation: str, key: str, **arguments: Any) -> Any:
        return self._asked(
            key,
            lambda client: getattr(client, operation)(Bucket=self._bucket, Key=key, **arguments),
            is_conditional="IfNoneMatch" in arguments,
        )

    def _named(self, answer: Any, name: str, key: str) -> str:
        """Return what a response must contain."""
        value = answer.get(name)
        if not value:
            raise self._error(StorageUnavailableError, key, f"the response has no {name}")
        return str(value)

    def _asked(self, key: str, question: Callable[[Any], T], *, is_conditional: bool = False) -> T:
        """Return the answer to a question to the client of this cluster."""
        try:
            return question(self._cluster.client.get())
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            code = error.response["Error"].get("Code") or ""
            reason = f"the response is {status} {code}"
            if is_conditional and status in _EXISTS and code not in _CONFLICTS:
                raise FileExistsError(f"{self.full_name}/{key} exists") from error
            kind: type[StorageError] = StorageError
            if code == _NO_UPLOAD:
                kind = ObjectNotFoundError
            elif status in (401, 403):
                kind = AccessDeniedError
            elif status in _TEMPORARY or (status >= 500 and status != 501):
                kind = StorageUnavailableError
            raise self._error(kind, key, reason.rstrip()) from error
        except (ConnectionError, HTTPClientError, ResponseParserError) as error:
            reason = f"{self._cluster.url} does not answer: {failure_reason(error)}"
            raise self._error(StorageUnavailableError, key, reason) from error
        except BotoCoreError as error:
            raise self._error(StorageError, key, f"boto3 cannot send it: {error}") from error


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
