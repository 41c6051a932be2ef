"""Files that the pages load."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from mastaba.api.web import Document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_FOLDERS: Final = ("static", "bundle")
"""The bundle is made when the distribution is built: see hatch_build.py."""


@cache
def assets() -> dict[str, Document]:
    """Return every file by its path below the root path of the service.

    All files are kept in memory, so a request can never open any other file.
    """
    return {
        f"/static/{path}": _document(path, file.read_bytes())
        for folder in _FOLDERS
        for path, file in _walk(files("mastaba_viewer").joinpath(folder), "")
    }


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _walk(item, f"{prefix}{item.name}/")
        elif PurePosixPath(item.name).suffix in _MEDIA_TYPES:
            yield f"{prefix}{item.name}", item


def _document(path: str, content: bytes) -> Document:
    media_type = _MEDIA_TYPES[PurePosixPath(path).suffix]
    return Document(content, media_type)
