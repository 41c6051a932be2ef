"""Credentials in addresses: how they are taken out, and addresses that can be read in two ways."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2s
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

from mastaba_server.body import SpooledBody, spooled
from mastaba_server.web.response import Document, Response, is_text
from mastaba_server.web.text import decode

_CACHED: Final = 8 * 1024**2
"""Bytes of written documents that a process keeps."""


def without_segment(path: str, roots: Container[str]) -> tuple[str, str]:
    """Return the credential in a path, empty if there is none, and the path without it.

    Args:
        path: decoded.
        roots: paths directly behind which a segment that begins with ``~`` is a credential.
    """
    at = path.find("/~")
    if at < 0 or path[:at] not in roots:
        return "", path
    end = path.find("/", at + 2)
    if end < 0:
        end = len(path)
    return path[at + 2 : end], path[:at] + path[end:]


def without_parameters(query: str, names: Container[str]) -> tuple[list[str], str]:
    """Return the different values of some parameters, and the query without them.

    Args:
        query: still percent-encoded.
        names: in lower case.
    """
    kept, values = [], []
    for item in query.split("&"):
        name, _, value = item.partition("=")
        if decode(name).lower() in names:
            values.append(decode(value))
        else:
            kept.append(item)
    return list(dict.fromkeys(filter(None, values))), "&".join(kept)


def is_ambiguous(path: str, sent: str) -> bool:
    """Return whether a front server may read a path in another way.

    Args:
        path: decoded.
        sent: as sent, with the query; empty if it is unknown.
    """
    segments = path.split("/")[1:]
    raw = sent.partition("?")[0].lower()
    return (
        "" in segments[:-1]
        or not {".", ".."}.isdisjoint(segments)
        or "\0" in path
        or "%2f" in raw
        or "%00" in raw
        or path.count("/~") > 1
    )


def without_credential(query: str, credential: str) -> str:
    """Return a query whose addresses do not contain a credential.

    Clients send back addresses from documents, which contain it as a segment.

    Args:
        query: still percent-encoded.
        credential: text of the segment.
    """
    for text in dict.fromkeys((quote(credential, safe=""), quote(quote(credential, safe="")))):
        for slash in ("/~", "%2F~", "%2f~", "%2F%7E", "%2f%7e", "/%7E"):
            query = query.replace(slash + text, "")
    return query


class Addresses:
    """What the addresses in an answer contain in place of a mark.

    The mark is a segment ``~MARK`` in all addresses that services write. It is replaced by the
    credential of the request, or removed.

    Args:
        mark: letters and digits, which no quoting changes.
        credential: text of the segment; empty to remove it.
        key: for the ETags of documents: they differ by credential, and do not reveal it.
        written: keeps documents; shared.
    """

    __slots__ = ("_credential", "_mark", "_pairs", "_suffix", "_written")

    def __init__(self, mark: str, credential: str, key: bytes, written: Written) -> None:
        self._credential = quote(credential, safe="")
        self._mark = mark.encode()
        self._written = written
        digest = blake2s(credential.encode("utf-8", "replace"), key=key[:32], digest_size=4)
        self._suffix = f"-{digest.hexdigest()}" if credential else ""
        segment = self._credential.encode()
        # Inside quoted addresses and JSON, the slash may be written otherwise.
        slashes = (b"/~", b"%2F~", b"%2f~", b"%2F%7E", b"\\/~")
        self._pairs = [(one + self._mark, segment and one + segment) for one in slashes]

    def document(self, document: Document) -> Document:
        """Return a document with the addresses written."""
        plain = vars(document).get("without_mark")
        if plain is None:
            plain = document
            if self._mark in document.body:
                body = document.body
                for marked, _ in self._pairs:
                    body = body.replace(marked, b"")
                plain = Document(body, document.media_type, document.file_name)
            vars(document)["without_mark"] = plain
        if plain is document or not self._credential:
            return plain
        found = self._written.get(document, self._credential)
        if found is None:
            body = self.text(document.body)
            found = Document(body, document.media_type, document.file_name)
            # The mark differs from process to process.
            vars(found)["_hash"] = plain.hash + self._suffix
            self._written.keep(document, self._credential, found)
        return found

    def text(self, body: bytes) -> bytes:
        """Return a text with the addresses written."""
        if self._mark in body:
            for marked, segment in self._pairs:
                body = body.replace(marked, segment)
        return body

    def write(self, response: Response) -> None:
        """Write the addresses in a response, except in compressed and binary bodies."""
        headers, body = response.headers, response.body
        mark = self._mark.decode()
        for position, (name, value) in enumerate(headers):
            if mark in value:
                headers[position] = name, self.text(value.encode("latin-1")).decode("latin-1")
        fields = dict(headers)
        if "Content-Encoding" in fields or not is_text(fields.get("Content-Type", "")):
            return
        if isinstance(body, bytes):
            response.body = self.text(body)
        elif isinstance(body, SpooledBody) and any(self._mark in part for part in _joined(body)):
            with suppress(OSError):
                response.body = spooled(self.pieces(body))
            body.close()

    def pieces(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the parts of a text with the addresses written."""
        size, rest = len(self._mark), b""
        for piece in body:
            data = rest + piece
            end = max(0, len(data) - size - 8)
            # Not within a mark, nor between a mark and its slash.
            found = data.find(self._mark, max(0, end - size), end + size + 8)
            if found >= 0:
                end = found + size
            yield self.text(data[:end])
            rest = data[end:]
        yield self.text(rest)


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces, each with the end of the one before it."""
    last = b""
    for piece in pieces:
        yield last + piece
        last = piece[-64:]


class Written:
    """Documents with the credentials of their requests, the last ones used."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._size = 0
        self._documents: dict[tuple[Document, str], tuple[Document, int]] = {}

    def get(self, document: Document, credential: str) -> Document | None:
        """Return a document as it was written for a credential, or None."""
        with self._lock:
            found = self._documents.pop((document, credential), None)
            if found is not None:
                self._documents[document, credential] = found
            return None if found is None else found[0]

    def keep(self, document: Document, credential: str, written: Document) -> None:
        """Keep a document for further requests with the credential."""
        with self._lock:
            if (document, credential) in self._documents:
                return
            size = len(written.body)
            self._documents[document, credential] = written, size
            self._size += size
            while self._size > _CACHED:
                oldest: Any = next(iter(self._documents))
                self._size -= self._documents.pop(oldest)[1]
