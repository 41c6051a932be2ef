"""Sprites: images of icons in one file, and where each is (MapLibre Style Specification)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mastaba.api.web import printable
from mastaba.errors import UnknownPathError
from mastaba_styles.files import content_of, version_of, versioned_response

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response

logger = logging.getLogger(__name__)

_TYPES: Final = {".json": "application/json", ".png": "image/png"}
_TWICE: Final = "@2x"
_MOST: Final = 1000


class Sprites:
    """The sprites of a directory: files ``NAME.json`` and ``NAME.png``, and with ``@2x``.

    Args:
        directory: of the operator; empty for none.

    Attributes:
        names: of the sprites.
        problem: why the directory cannot be used; empty if it can.
    """

    def __init__(self, directory: str) -> None:
        self.names: frozenset[str] = frozenset()
        self.problem = ""
        if not directory:
            return
        try:
            self._root = Path(directory).resolve(strict=True)
            files = {path.name for path in self._root.iterdir()}
        except OSError as error:
            self.problem = f"cannot be read: {error.strerror}"
            logger.error("the directory of sprites %s %s", directory, self.problem)
            return
        names = (name.removesuffix(".json") for name in sorted(files) if name.endswith(".json"))
        found = [name for name in names if f"{name}.png" in files and not name.endswith(_TWICE)]
        self.names = frozenset(found[:_MOST])

    def has(self, file: str) -> bool:
        """Return whether a name is that of a file of a sprite."""
        stem, dot, suffix = file.rpartition(".")
        return dot + suffix in _TYPES and stem.removesuffix(_TWICE) in self.names

    def respond(self, request: Request, file: str, headers: list[tuple[str, str]]) -> Response:
        """Return a file of a sprite.

        Without one for fine screens, the usual one is sent: its description says its scale.

        Raises:
            UnknownPathError: there is no such sprite.
            StorageError: it cannot be read.
        """
        stem, dot, suffix = file.rpartition(".")
        name, ending = stem.removesuffix(_TWICE), dot + suffix
        # Both files of a sprite for fine screens, or none.
        pair = [self._root / f"{name}{_TWICE}{each}" for each in _TYPES]
        is_fine = stem != name and all(version_of(path, self._root) for path in pair)
        path = self._root / (file if is_fine else f"{name}{ending}")
        version = version_of(path, self._root) if self.has(file) else None
        if version is None:
            raise UnknownPathError(f"there is no sprite {printable(name)}")
        return versioned_response(
            request, [version], _TYPES[ending], lambda: content_of(path), headers
        )
