"""Fonts: folders of ready ranges, font files, and the family of the extra ``fonts``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError, StorageError, UnknownPathError
from mastaba_ows.parameters import whole_number
from mastaba_styles.files import content_of, version_of, versioned_response
from mastaba_styles.glyphs import LAST_CODE, RANGE, composed, encoded_range

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response

logger = logging.getLogger(__name__)

FAMILY: Final = "fontpkg_noto_sans"
"""Package with the files of Noto Sans (SIL Open Font License 1.1)."""

_FAMILY_NAME: Final = "noto-sans"
_FONT_FACE: Final = (
    '@font-face {{ font-family: "{family}"; font-style: {style}; font-weight: 100 900; '
    'src: url("../{file}"); }}'
)
_SUFFIXES: Final = (".ttf", ".otf")
_MEDIA_TYPE: Final = "application/x-protobuf"
_MOST_FONTS: Final = 1000
_MOST_IN_STACK: Final = 8
_MOST_TEXT: Final = 1000
_MOST_BYTES: Final = 32 * 1024 * 1024
"""Of all ranges that a process keeps."""


class Fonts:
    """The fonts that styles may name.

    Args:
        directory: of the operator: folders ``FONT/0-255.pbf``, and font files; empty for none.
        default: font that is used if a style names none; by default the first regular one.

    Attributes:
        names: of the fonts.
        default: as given, or found; empty without fonts.
        problems: what cannot be used.
    """

    def __init__(self, directory: str, default: str = "") -> None:
        self.problems: list[str] = []
        self._folders: dict[str, tuple[Path, Path]] = {}
        self._faces: dict[str, Any] = {}
        self._web: dict[str, Path] = {}
        self._made = _Made()
        if directory:
            self._find(directory)
        if find_spec("fontTools") is not None:
            self._find_family()
        self.names = frozenset((*self._folders, *self._faces))
        regular = [name for name in (*self._folders, *self._faces) if name.endswith("Regular")]
        first = next(iter((*regular, *sorted(self.names))), "")
        self.default = default if default in self.names else first
        if default and default not in self.names:
            self.problems.append(f"there is no font {default!r}")

    def respond(
        self, request: Request, stack: str, file: str, headers: list[tuple[str, str]]
    ) -> Response:
        """Return a range of the glyphs of a list of fonts.

        Each glyph is from the first font that has it. Of a list without a known font, the default
        one is used, so that labels appear. A range that no font has is empty: to clients, an error
        means that they try again, and do not draw the labels of a tile.

        Args:
            request: with its conditions.
            stack: names of fonts with commas between them.
            file: ``0-255.pbf``.
            headers: further ones.

        Raises:
            UnknownPathError: there are no fonts.
            InvalidParameterError: it is not the name of a range, or there are too many fonts.
            StorageError: a font cannot be read.
        """
        first = _first(file)
        if len(stack) > _MOST_TEXT or stack.count(",") >= _MOST_IN_STACK:
            text = f"a list has at most {_MOST_IN_STACK} fonts"
            raise InvalidParameterError(text, "fontstack")
        wanted = [name.strip() for name in stack.split(",")]
        names = [name for name in dict.fromkeys(wanted) if name in self.names]
        names = names or [self.default]
        if not names[0]:
            raise UnknownPathError("there are no fonts")
        versions = [self._version(name, first) for name in names]
        return versioned_response(
            request,
            [*names, str(first), *versions],
            _MEDIA_TYPE,
            lambda: self._range(names, first),
            headers,
        )

    def respond_web(
        self, request: Request, parts: list[str], headers: list[tuple[str, str]]
    ) -> Response:
        """Return a font for OpenLayers, which writes labels with fonts of the browser.

        Only the family with a free licence is sent as a file. Of others, the style sheet is empty,
        and the browser takes its own font.

        Args:
            request: with its conditions.
            parts: ``noto-sans``, ``400-italic.css``; or ``noto-sans-italic.ttf``.
            headers: further ones.

        Raises:
            UnknownPathError: there is no such file.
            StorageError: it cannot be read.
        """
        if len(parts) == 2 and parts[1].endswith(".css"):
            ending = "-italic" if parts[1].endswith("-italic.css") else ""
            file = f"{parts[0]}{ending}.ttf"
            text = _FONT_FACE if file in self._web else ""
            family = parts[0].replace("-", " ").title()
            text = text.format(family=family, style=ending[1:] or "normal", file=file)
            return versioned_response(request, [text], "text/css", text.encode, headers)
        path = self._web.get(parts[0]) if len(parts) == 1 else None
        version = version_of(path, path.resolve().parent) if path else None
        if path is None or version is None:
            raise UnknownPathError("there is no such font")
        return versioned_response(request, [version], "font/ttf", lambda: content_of(path), headers)

    def _version(self, name: str, first: int) -> str:
        if name in self._folders:
            folder, root = self._folders[name]
            return version_of(folder / _file(first), root) or "absent"
        path = self._faces[name].path
        return version_of(path, path.resolve().parent) or "absent"

    def _range(self, names: list[str], first: int) -> bytes:
        ranges = [found for name in names if (found := self._one(name, first))]
        if len(ranges) < 2:
            return b"".join(ranges)
        try:
            return composed(", ".join(names), first, ranges)
        except ValueError as error:
            raise StorageError(f"a range of {', '.join(names)} is invalid: {error}") from error

    def _one(self, name: str, first: int) -> bytes:
        """Return a range of one font; empty if it has none of the characters."""
        if name not in self._folders:
            return self._made.range(self._faces[name], first, self._version(name, first))
        folder, root = self._folders[name]
        path = folder / _file(first)
        return content_of(path) if version_of(path, root) else b""

    def _find(self, directory: str) -> None:
        """Add what is in the directory; symbolic links may not lead out of it."""
        try:
            root = Path(directory).resolve(strict=True)
            entries = sorted(root.iterdir())[:_MOST_FONTS]
        except OSError as error:
            self._report(f"the directory {directory} cannot be read: {error.strerror}")
            return
        for entry in entries:
            if not entry.resolve().is_relative_to(root):
                self._report(f"{entry} leads out of the directory")
            elif entry.is_dir():
                if (entry / _file(0)).is_file():
                    self._folders[entry.name] = entry, root
            elif entry.suffix.lower() in _SUFFIXES:
                if find_spec("fontTools") is None:
                    self._report(f"{entry.name} needs mastaba-styles[fonts]")
                else:
                    self._add_faces(entry)

    def _find_family(self) -> None:
        spec = find_spec(FAMILY)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path in sorted(Path(folder, "files").glob("*.ttf"), reverse=True):
                self._add_faces(path)
                ending = "-italic" if "Italic" in path.name else ""
                self._web[f"{_FAMILY_NAME}{ending}.ttf"] = path

    def _add_faces(self, path: Path) -> None:
        # Loaded for font files only.
        from mastaba_styles.outlines import faces_of

        try:
            for face in faces_of(path):
                self._faces.setdefault(face.name, face)
        except ValueError as error:
            self._report(str(error))

    def _report(self, problem: str) -> None:
        self.problems.append(problem)
        logger.error("fonts: %s", problem)


class _Made:
    """Ranges that a process has made from font files: the last 32 MiB."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, str], bytes] = {}
        self._size = 0
        # One at a time: making a range takes up to half a second of processor time.
        self._lock = threading.Lock()

    def range(self, face: Any, first: int, version: str) -> bytes:
        key = face.name, first, version
        found = self._kept.get(key)
        if found is None:
            with self._lock:
                found = self._kept.get(key)
                if found is None:
                    found = self._add(key, _made(face, first))
        return found

    def _add(self, key: tuple[str, int, str], data: bytes) -> bytes:
        self._kept[key] = data
        self._size += len(data) + 100
        while self._size > _MOST_BYTES and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._size -= len(self._kept.pop(oldest)) + 100
        return data


def made_ranges(path: Path) -> Mapping[str, Mapping[int, bytes]]:
    """Return the ranges of all fonts of a file that are not empty: by font, by first code point.

    Raises:
        ValueError: it is not a font file.
    """
    from mastaba_styles.outlines import faces_of

    return {
        face.name: {first: data for first in range(0, 65536, RANGE) if (data := _made(face, first))}
        for face in faces_of(path)
    }


def _made(face: Any, first: int) -> bytes:
    from mastaba_styles.outlines import glyphs_of

    try:
        glyphs = glyphs_of(face, first)
    except ValueError as error:
        raise StorageError(str(error)) from error
    return encoded_range(face.name, first, glyphs) if glyphs else b""


def _file(first: int) -> str:
    return f"{first}-{first + RANGE - 1}.pbf"


def _first(file: str) -> int:
    """Return the first code point of a range."""
    text = file.partition("-")[0]
    first = whole_number(text)
    if first is None or first % RANGE or first > LAST_CODE or file != _file(first):
        expected = "a range is 0-255.pbf, 256-511.pbf, …"
        raise InvalidParameterError(f"{expected}, not {printable(file)}", "range")
    return first
