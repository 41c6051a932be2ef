"""Objects over HTTP: common code of the drivers for S3, Swift and similar stores."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote

from mastaba_http.client import HTTPAnswer, HTTPClient
from mastaba_server.errors import NoResponseError
from mastaba_storage.base import MAX_WHOLE, ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)

_OVERLOADED: Final = (408, 429, 502, 503, 504)
"""Statuses with which a server, or a gateway in front of it, reports overload."""

# Longer numbers are not sizes, and Python refuses to convert very long ones.
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)")
_WEAK: Final = "W/"
_VERSION: Final = re.compile(r"[ !#-~]{1,256}")
"""What an ETag may contain in ASCII (RFC 9110, 8.8.3), and spaces, which some have."""
_SIZE: Final = re.compile(r"[0-9]{1,19}")
_DOTS: Final = re.compile(r"/\.{1,2}(?=/|$)")


class HTTPStorage(Storage):
    """Base class of storages whose objects are read by GET, with ranges and ETags.

    Args:
        container: name of the container.
        client: HTTP client for the URL of the container.

    Attributes:
        client: as given.
    """

    def __init__(self, container: str, client: HTTPClient) -> None:
        super().__init__(container)
        self.client = client
        self._has_weak_etags = False

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        """Send one request for an object. Subclasses add their authentication.

        Args:
            method: GET or HEAD.
            headers: additional headers.
            limit: maximum bytes of the body; a body that announces more is not read.

        Raises:
            AccessDeniedError: authentication failed.
            NoResponseError: the response is missing or incomplete.
        """
        return self.client.request(method, self.client.path + quoted_key(key), headers, limit)

    def refusal_reason(self, answer: HTTPAnswer) -> str:
        """Return the reason in the body of an error response, for messages; empty if none."""
        return ""

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        # A weak ETag never matches (RFC 9110); it is compared with that of the response only.
        is_matched = version is not None and not self._has_weak_etags
        headers = {"If-Match": f'"{version}"'} if is_matched else {}
        if byte_range is not None and byte_range.length <= 0:
            # HTTP has no empty range.
            answer = self._ask("HEAD", key, headers)
            return ObjectRead(b"", self._version(answer, key, version), _modified(answer))
        limit = MAX_WHOLE + 1
        if byte_range is not None:
            headers["Range"] = _range_header(byte_range)
            limit = byte_range.length + 1
        answer = self._ask("GET", key, headers, limit)
        if answer.status == 416:
            self._check_beyond(answer, byte_range, key)
            return ObjectRead(b"")
        found = self._version(answer, key, version)
        if byte_range is not None:
            self._check_range(answer, byte_range, key)
        elif answer.size > MAX_WHOLE:
            raise self._error(StorageError, key, "the object is too large to be read as a whole")
        elif answer.size > len(answer.body):
            raise self._error(StorageUnavailableError, key, "the response is truncated")
        return ObjectRead(answer.body, found, _modified(answer))

    def stat(self, key: str) -> ObjectStat:
        answer = self._ask("HEAD", key, {})
        size = answer.announced_size
        if size is None:
            # As Apache answers for an empty file, and for one that it compresses.
            answer = self._ask("GET", key, {"Range": "bytes=0-0"}, 1)
            size = _total(answer)
        if size is None:
            raise self._error(StorageUnavailableError, key, "the response does not report the size")
        return ObjectStat(size, self._version(answer, key, None), _modified(answer))

    def close(self) -> None:
        self.client.close()

    def _ask(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        try:
            answer = self.send(method, key, headers, limit)
        except (NoResponseError, StorageError) as error:
            kind = type(error) if isinstance(error, StorageError) else StorageUnavailableError
            raise self._error(kind, key, str(error)) from error
        status = answer.status
        # Without Range, a part would be taken for the whole object.
        if status == 200 or ("Range" in headers and status in (206, 416)):
            return answer
        reason = f"the response is {status} {self.refusal_reason(answer)}".rstrip()
        if status == 404:
            raise self._error(ObjectNotFoundError, key, reason)
        if status == 412:
            raise self._error(ObjectChangedError, key, "the object was replaced")
        if status in (401, 403):
            raise self._error(AccessDeniedError, key, reason)
        if status in _OVERLOADED:
            raise self._error(StorageUnavailableError, key, reason)
        if status >= 500:
            raise StorageUnavailableError(
                f"{self.full_name}/{key}: {reason}", storage=self.full_name, key=key, answered=True
            )
        raise self._error(StorageError, key, reason)

    def _version(self, answer: HTTPAnswer, key: str, required: str | None) -> str | None:
        etag = answer.headers.get("ETag", "").strip()
        if etag.startswith(_WEAK):
            # So do file servers for files that have just been changed; a strong one with the same
            # text follows. As no content coding is accepted, a text has one body, unless a file is
            # replaced twice before the clock of its file system moves on.
            self._has_weak_etags = True
        version: str | None = etag.removeprefix(_WEAK).strip('"')
        if _VERSION.fullmatch(version or "") is None:
            # It would be part of each ETag that is sent.
            version = None
        # Some servers ignore If-Match.
        if required is not None and version != required:
            raise self._error(ObjectChangedError, key, "the object was replaced")
        return version

    def _check_range(self, answer: HTTPAnswer, byte_range: ByteRange, key: str) -> None:
        """Check that the body of a response is the requested range.

        Raises:
            StorageError: the server ignores ranges. Reading each object up to the range would
                read large objects whole for each tile.
            StorageUnavailableError: the range differs from the request, or from the body.
        """
        size, end = len(answer.body), byte_range.offset + byte_range.length
        requested = _range_header(byte_range)
        if answer.status == 200:
            # The whole object is correct if the range begins at 0 and extends beyond its end.
            if byte_range.offset or answer.size > byte_range.length:
                reason = f"the server ignores ranges: it answers {requested} with the whole object"
                raise self._error(StorageError, key, reason)
            if size == answer.size:
                return
        content_range = answer.headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(content_range.strip())
        if match is not None:
            first, stop, total = int(match[1]), int(match[2]) + 1, match[3]
            is_whole = stop <= end if total == "*" else stop == min(end, int(total))
            if first == byte_range.offset and stop == first + size and is_whole:
                return
        reason = f"the server answers {requested} with {answer.size} bytes of {content_range!r}"
        raise self._error(StorageUnavailableError, key, reason)

    def _check_beyond(self, answer: HTTPAnswer, byte_range: ByteRange | None, key: str) -> None:
        """Check that a range to which a server has no bytes is beyond the object.

        Raises:
            StorageUnavailableError: it is not.
        """
        size = _total(answer)
        if byte_range is not None and size is not None and byte_range.offset < size:
            reason = f"the server refuses {_range_header(byte_range)} of {size} bytes"
            raise self._error(StorageUnavailableError, key, reason)

    def _error(self, kind: type[StorageError], key: str, reason: str) -> StorageError:
        return kind(f"{self.full_name}/{key}: {reason}", storage=self.full_name, key=key)


def quoted_key(key: str) -> str:
    """Return a slash and the name of an object, as a URL path that no one normalises."""
    # Segments of dots have a meaning in a path, but not in a name.
    return _DOTS.sub(lambda part: part[0].replace(".", "%2E"), f"/{quote(key)}")


def _range_header(byte_range: ByteRange) -> str:
    return f"bytes={byte_range.offset}-{byte_range.offset + byte_range.length - 1}"


def _total(answer: HTTPAnswer) -> int | None:
    """Return the size of an object from the response to a request for its first byte.

    A response that refuses a range also has it.
    """
    if answer.status == 200:
        # Also if the server ignores ranges. A body of unknown length is read for one byte only.
        return answer.announced_size if answer.announced_size or answer.body else 0
    total = answer.headers.get("Content-Range", "").rpartition("/")[2].strip()
    return int(total) if _SIZE.fullmatch(total) else None


def _modified(answer: HTTPAnswer) -> float | None:
    try:
        return parsedate_to_datetime(answer.headers.get("Last-Modified", "")).timestamp()
    except (ValueError, OverflowError):
        return None
