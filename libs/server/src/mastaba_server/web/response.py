"""One HTTP response, and documents that are built once and sent many times."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from threading import RLock
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode
from weakref import ref

from werkzeug.datastructures import LanguageAccept, MIMEAccept
from werkzeug.http import parse_accept_header

from mastaba_server.body import Body
from mastaba_server.messages import Headers as Headers
from mastaba_server.web.conditional import is_known
from mastaba_server.web.request import Request

DOCUMENT: Final = "mastaba.document"
"""Key in the WSGI environment, present if the response is a `Document`: what answers further GET
requests for the same path and query from their headers, or None if other things matter."""

ADDRESSES: Final = "mastaba.addresses"
"""Key in the WSGI environment for the `mastaba_server.web.credentials.Addresses` of the answer;
absent if addresses are sent as services write them."""

_FILE_NAMES: Final = {
    "image/tiff": "image.tif",
    "image/jpeg": "image.jpg",
    "image/png": "image.png",
    "image/x-bil;bits=32": "image.bil",
    "text/plain": "message.txt",
    "text/xml": "message.xml",
    "application/xml": "file.xml",
    "application/json": "file.json",
    "application/x-protobuf": "file.pbf",
}
_SAFE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._ -")
_UNRESERVED: Final = "/~:;@,"
_GZIP_FROM: Final = 512
"""Bytes; smaller documents are not worth compressing."""
_LARGE: Final = 16 * 1024
_MOST_UNPACKED: Final = 32 * 1024**2
"""Bytes of large documents that a process keeps uncompressed."""
_USUAL_HEADER: Final = 200


class Response:
    """One HTTP response.

    Content-Length and the headers of CORS are added by the application.

    Attributes:
        status: HTTP status.
        headers: as in `Headers`.
        body: bytes, or a `SizedBody` if it is large (see `spooled`, `addressable_response`).
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Headers, body: Body = b"") -> None:
        self.status = status
        self.headers = headers
        self.body = body


def content_disposition(
    media_type: str, file_name: str | None = None, extension: str | None = None
) -> str:
    """Return the header value: inline, or attachment if the client gives a file name.

    Args:
        extension: of the encoder that writes the media type, if one does.

    Unsafe characters of the client's name appear only in the encoded form of RFC 6266.
    """
    if not file_name:
        usual = _FILE_NAMES.get(media_type, "file")
        if extension is not None:
            usual = f"{'image' if media_type.startswith('image/') else 'file'}.{extension}"
        return f'inline; filename="{usual}"'
    file_name = "".join(c for c in file_name[:200] if c.isprintable() and c not in '/\\"')
    plain = "".join(c if c in _SAFE else "_" for c in file_name) or "file"
    header = f'attachment; filename="{plain}"'
    if plain != file_name:
        header += f"; filename*=UTF-8''{quote(file_name, safe='', errors='replace')}"
    return header


class _Unpacked:
    """The large documents of a process that are not only kept compressed.

    Attributes:
        size: bytes of all of them.
    """

    def __init__(self) -> None:
        self.size = 0
        # A document may be freed while this thread holds the lock.
        self._lock = RLock()
        self._sizes: dict[ref[Document], int] = {}

    def add(self, document: Document, size: int) -> None:
        """Add a document, and compress others that were not used lately if all are too large."""
        with self._lock:
            self._sizes[ref(document, self._forget)] = size
            self.size += size
            while self.size > _MOST_UNPACKED and len(self._sizes) > 1:
                one = next(iter(self._sizes))
                found, itself = one(), one
                if found is not None and found._was_used and found is not document:
                    found._was_used = False
                    self._sizes[itself] = self._sizes.pop(itself)
                    continue
                self._forget(one)
                if found is not None:
                    found._pack()

    def _forget(self, one: ref[Document]) -> None:
        with self._lock:
            self.size -= self._sizes.pop(one, 0)


_unpacked: Final = _Unpacked()


class Document:
    """A text response: XML, JSON, HTML.

    Sent with an ETag, as 304 if the client already has it, and compressed if the client accepts
    gzip. Build one per configuration for documents that do not change. A process keeps 32 MiB of
    all large documents as they are, and those that were not used lately only compressed.

    Args:
        text: whole document; a string is sent as UTF-8.
        media_type: Content-Type.
        file_name: name under which browsers save it; None to show it.

    Attributes:
        media_type: as given.
        file_name: as given.
    """

    def __init__(self, text: str | bytes, media_type: str, file_name: str | None = None) -> None:
        self._body: bytes | None = text.encode() if isinstance(text, str) else text
        self.media_type = media_type
        self.file_name = file_name
        self._is_worth_compressing = is_text(media_type) and len(self._body) >= _GZIP_FROM
        self._was_used = True
        if len(self._body) >= _LARGE and self._is_worth_compressing:
            _unpacked.add(self, len(self._body))

    @property
    def body(self) -> bytes:
        """The whole document."""
        body = self._body
        self._was_used = True
        return gzip.decompress(self._compressed) if body is None else body

    @property
    def hash(self) -> str:
        """Digest of the document, for its ETag."""
        return self._hash

    @cached_property
    def _hash(self) -> str:
        # Equal on all nodes whose configurations give the same document, and only on those.
        return blake2b(self.body, digest_size=9).hexdigest()

    @cached_property
    def _compressed(self) -> bytes:
        return gzip.compress(self.body, 6, mtime=0)

    def _pack(self) -> None:
        _ = self._compressed
        self._body = None

    def respond(
        self, request: Request, media_type: str | None = None, *, is_constant: bool = False
    ) -> Response:
        """Return the response to a request for this document.

        Args:
            request: with its headers.
            media_type: Content-Type instead of that of the document.
            is_constant: promises this document and media type for all GET requests with the same
                path and query, whatever their headers, as long as the service exists. The server
                may then answer them without the service, and keeps the document.
        """
        answer = partial(self._answer, media_type or self.media_type)
        request.environ[DOCUMENT] = answer if is_constant and request.method == "GET" else None
        return answer(request.environ)

    def _answer(self, media_type: str, sent: Mapping[str, Any]) -> Response:
        document = self
        if ADDRESSES in sent:
            document = sent[ADDRESSES].document(self)
        compress = document._is_worth_compressing and accepts_coding(sent, "gzip")
        etag = f'"{document._hash}-gz"' if compress else f'"{document._hash}"'
        headers = [("ETag", etag), ("Vary", "Accept-Encoding, Accept")]
        if is_known(sent, etag):
            return Response(304, headers)
        headers.append(("Content-Type", media_type))
        headers.append(("Content-Disposition", content_disposition(media_type, document.file_name)))
        if compress:
            document._was_used = True
            headers.append(("Content-Encoding", "gzip"))
        return Response(200, headers, document._compressed if compress else document.body)


def is_text(media_type: str) -> bool:
    """Return whether a media type is one of texts: XML, JSON, HTML and others."""
    kind = media_type.partition(";")[0]
    return kind.startswith("text/") or kind.endswith(("xml", "json", "javascript", "yaml"))


def message(status: int, text: str | bytes, media_type: str) -> Response:
    """Return a short response that is never cached: an error report."""
    body = text.encode() if isinstance(text, str) else text
    headers = [
        ("Content-Type", media_type),
        ("Content-Disposition", content_disposition(media_type)),
    ]
    return Response(status, headers, body)


def plain_error(status: int, error: str, description: str) -> Response:
    """Return the report of an error that concerns no protocol."""
    text = json.dumps({"error": error, "error_description": description})
    return message(status, text, "application/json")


def moved(request: Request, endpoint_uri: str, before: str, after: str) -> Response | None:
    """Return a redirect, for a minute, to the address with a name replaced.

    Args:
        endpoint_uri: public address of the service.
        before, after: the name, decoded.

    Returns:
        None if the name is no segment of the path, and in no list of the query: a redirect would
        lead to the same address, for example if the body of the request contains the name.
    """
    path, query = _renamed(request.path, before, after), request.query_string
    address = endpoint_uri + quote(path, safe=_UNRESERVED)
    is_same = path == request.path
    if query:
        pairs = parse_qsl(query, keep_blank_values=True, errors="replace")
        found = [(name, _renamed(value, before, after)) for name, value in pairs]
        address += f"?{urlencode(found, safe=_UNRESERVED, quote_via=quote)}"
        is_same = is_same and found == pairs
    if is_same:
        return None
    return Response(307, [("Location", address), ("Cache-Control", "max-age=60")])


def _renamed(text: str, before: str, after: str) -> str:
    """Return a path, or a list of names, with a name replaced.

    Other names may begin or end with it. In a path, it may be followed by an extension.
    """
    return "/".join(
        ",".join(_name(one, before, after) for one in segment.split(","))
        for segment in text.split("/")
    )


def _name(text: str, before: str, after: str) -> str:
    name, point, extension = text.rpartition(".")
    if name == before and extension.isalpha():
        return f"{after}{point}{extension}"
    return after if text == before else text


def accepts_coding(headers: Mapping[str, Any], coding: str) -> bool:
    """Return whether Accept-Encoding names a content coding (RFC 9110, 12.5.3).

    Args:
        headers: of the request, by their keys in the WSGI environment.
    """
    header: str = headers.get("HTTP_ACCEPT_ENCODING") or ""
    # Clients must not be able to fill memory with long headers.
    weigh = _weight if len(header) <= _USUAL_HEADER else _weight.__wrapped__
    return weigh(header, coding) > 0


@lru_cache(maxsize=256)
def _weight(header: str, coding: str) -> float:
    return float(parse_accept_header(header)[coding])


def preferred_media_type(request: Request, offered: Iterable[str]) -> str | None:
    """Return the offered media type that the Accept header prefers.

    Without the header, the first offered; None if the client accepts none of them.
    """
    choices = list(offered)
    header = request.environ.get("HTTP_ACCEPT")
    if not header:
        return choices[0]
    return parse_accept_header(header, MIMEAccept).best_match(choices)


def preferred_language(request: Request, offered: Sequence[str]) -> str:
    """Return the offered language that a browser prefers; the first one if it prefers none.

    Args:
        offered: codes of two letters, in lower case.
    """
    wanted = parse_accept_header(request.header("Accept-Language"), LanguageAccept)
    # "fr-FR, en;q=0.5" prefers French.
    names = (tag.partition("-")[0].lower() for tag in wanted.values())
    return next((name for name in names if name in offered), offered[0])
