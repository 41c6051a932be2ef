"""A coverage in two parts: GML without values, and the file (OGC 09-146r2 clause 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import Final

from mastaba.api.web import Body, Response, SizedBody
from mastaba_wcs.descriptions201 import CONTENT_ID
from mastaba_wcs.formats import GEOTIFF

_GML: Final = "application/gml+xml"
_DESCRIPTION: Final = "description"


class _Related(SizedBody):
    """A file between two texts."""

    def __init__(self, head: bytes, file: Body, tail: bytes) -> None:
        self._head, self._file, self._tail = head, file, tail
        self._sent = 0
        self._ended: list[Callable[[int], None]] = []

    def __len__(self) -> int:
        return len(self._head) + len(self._file) + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        file = (self._file,) if isinstance(self._file, bytes) else self._file
        for piece in chain((self._head,), file, (self._tail,)):
            yield piece
            self._sent += len(piece)

    def report(self, ended: Callable[[int], None]) -> bool:
        if isinstance(self._file, bytes) or not self._file.report(lambda _: None):
            return False
        self._ended.append(ended)
        return True

    def close(self) -> None:
        if not isinstance(self._file, bytes):
            self._file.close()
        while self._ended:
            self._ended.pop()(self._sent)


def related_response(
    headers: list[tuple[str, str]], description: bytes, file: Body, disposition: str
) -> Response:
    """Return a response of type multipart/related.

    Args:
        headers: without those about the content.
        description: XML that refers to the file.
        file: a GeoTIFF.
        disposition: header with its name.
    """
    # Equal requests have equal answers, and no file contains the boundary by chance.
    boundary = blake2b(description, digest_size=18).hexdigest()
    head = (
        f"--{boundary}\r\nContent-Type: {_GML}\r\nContent-ID: <{_DESCRIPTION}>\r\n\r\n"
    ).encode() + description
    file_head = (
        f"\r\n--{boundary}\r\nContent-Type: {GEOTIFF}\r\nContent-ID: <{CONTENT_ID}>\r\n"
        f"Content-Transfer-Encoding: binary\r\nContent-Disposition: {disposition}\r\n\r\n"
    ).encode()
    media_type = f'multipart/related; boundary={boundary}; type="{_GML}"; start="<{_DESCRIPTION}>"'
    tail = f"\r\n--{boundary}--\r\n".encode()
    body = _Related(head + file_head, file, tail)
    return Response(200, [*headers, ("Content-Type", media_type)], body)
