"""Files of an operator's directory: their versions, their contents, and responses."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mastaba.api.web import Response, content_disposition
from mastaba.errors import StorageError
from mastaba_server.web.conditional import etag_matches

if TYPE_CHECKING:
    from mastaba.api.web import Request

MOST_BYTES: Final = 8 * 1024 * 1024
"""Of one file that is sent."""


def version_of(path: Path, root: Path) -> str | None:
    """Return what changes with a file; None if it does not exist, or is not below a directory.

    The file is not read. On nodes with copies of other ages, versions differ.
    """
    try:
        real = path.resolve(strict=True)
        found = real.stat()
    except (OSError, ValueError):
        return None
    if not real.is_relative_to(root) or not real.is_file():
        return None
    return f"{found.st_mtime_ns:x}.{found.st_size:x}.{found.st_ino:x}"


def content_of(path: Path) -> bytes:
    """Return a file.

    Raises:
        StorageError: it cannot be read, or is too large.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error
    if len(data) > MOST_BYTES:
        raise StorageError(f"{path} has more than {MOST_BYTES // 1024**2} MiB")
    return data


def versioned_response(
    request: Request,
    versions: Sequence[str],
    media_type: str,
    content: Callable[[], bytes],
    headers: Sequence[tuple[str, str]],
) -> Response:
    """Return a response, or 304 before anything is read.

    Args:
        request: with its conditions.
        versions: of all that the content is made of.
        media_type: of the content.
        content: returns it.
        headers: further ones.
    """
    etag = f'"{blake2b(" ".join(versions).encode(), digest_size=9).hexdigest()}"'
    found = [("ETag", etag), *headers]
    if etag_matches(request.header("If-None-Match"), etag):
        return Response(304, found)
    found.append(("Content-Type", media_type))
    found.append(("Content-Disposition", content_disposition(media_type)))
    return Response(200, found, content())
