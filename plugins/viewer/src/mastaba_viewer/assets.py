"""Files that the pages load, from this package and from the map library."""

from __future__ import annotations

from functools import cache
from importlib.metadata import distribution
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
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_LEAFLET: Final = (
    "leaflet.js",
    "leaflet.css",
    "images/layers.png",
    "images/layers-2x.png",
    "images/marker-icon.png",
)
"""Files served from the map library: the script, the style sheet and its images."""


@cache
def assets() -> dict[str, Document]:
    """Return every file by its path below the root path of the service.

    All files are kept in memory, so a request can never open any other file.

    Raises:
        FileNotFoundError: a file of the map library is not where it is expected.
    """
    found = {
        f"/static/{path}": _document(path, file.read_bytes())
        for path, file in _walk(files("mastaba_viewer").joinpath("static"), "")
    }
    # Located by its metadata: the package contains no code to import.
    library = distribution("XStatic-Leaflet")
    for name in _LEAFLET:
        file = library.locate_file(f"xstatic/pkg/leaflet/data/{name}")
        with open(str(file), "rb") as stream:
            found[f"/static/leaflet/{name}"] = _document(name, stream.read())
    return found


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _walk(item, f"{prefix}{item.name}/")
        elif PurePosixPath(item.name).suffix in _MEDIA_TYPES:
            yield f"{prefix}{item.name}", item


def _document(path: str, content: bytes) -> Document:
    media_type = _MEDIA_TYPES[PurePosixPath(path).suffix]
    return Document(content, media_type)
