"""Conversion of services.json from version 6 to version 7 (services-config.md 5).

In version 6 of ROK4, the shared settings are next to the sections of the services, and the settings
for maps and tiles are inside ``wms`` and ``wmts``. OGC API Tiles is a separate service, ``tiles``,
or ``ogctiles`` in the first releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

_MAPS: Final = ("limits", "formats", "crs", "reprojection")

_TILES: Final = ("enabled", "endpoint_uri", "title", "abstract", "keywords", "metadata")
_SERVICE: Final = (*_TILES, "root_path")
_SHARED: Final = (
    "provider",
    "site",
    "fee",
    "access_constraint",
    "contact",
    "crs_equivalences",
    "default_style",
)
_HOST: Final = re.compile(r"(?:\w+://[^/]*)?")
# Section, or "" for the document itself; place in the new document; keys.
_MOVES: Final = (
    ("", ("global",), _SHARED),
    ("", (), ("admin", "health")),
    ("wms", ("global",), ("inspire",)),
    ("wms", ("global", "map"), _MAPS),
    ("wms", ("wms",), (*_SERVICE, "name", "root_layer")),
    ("wmts", ("global", "tile"), ("reprojection",)),
    ("wmts", ("wmts",), _SERVICE),
    ("tms", ("tms",), _SERVICE),
    ("tiles", ("ogcapi",), _TILES),
)
_SECTIONS: Final = {"wms": "wms", "wmts": "wmts", "tms": "tms", "tiles": "ogcapi"}
_OGCAPI: Final = {"root_path": "/ogcapi", "tiles": True, "maps": True, "default_size": 256}
# Why something is dropped.
_LOST: Final = {
    "common": "the list of services at / needs no section",
    "wmts.inspire": "wms and wmts share global.inspire, which is that of wms",
    "tiles.root_path": "the path of ogcapi is /ogcapi; change the front server",
}


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a conversion.

    Attributes:
        path: JSON path in the old document.
        text: what happened to it.
        is_lost: whether the new document lacks the value.
    """

    path: str
    text: str
    is_lost: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def to_rok4_v7(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[Note]]:
    """Convert a document; absent settings stay absent and get their defaults.

    A value of the wrong type is moved unchanged: validation of the result reports it.

    Args:
        document: a services.json of version 6, without nulls; it is not modified.

    Returns:
        The services.json of version 7, and notes on what was not moved unchanged.
    """
    return _Conversion(document).run()


class _Conversion:
    """One conversion: values are moved out of a copy of the document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._old: dict[str, Any] = {
            key: dict(value) if isinstance(value, Mapping) else value
            for key, value in document.items()
        }
        self.new: dict[str, Any] = {"enabled": True, "global": {"map": {}}}
        self.notes: list[Note] = []

    def run(self) -> tuple[dict[str, Any], list[Note]]:
        """Return the new document and the notes."""
        self._rename("$", self._old, "crs_equivalency", "crs_equivalences")
        is_older = self._rename("$", self._old, "ogctiles", "tiles")
        for name, section in self._old.items():
            if isinstance(section, dict):
                self._rename(f"$.{name}", section, "active", "enabled")
        for old, new in _SECTIONS.items():
            if old in self._old:
                section = self._old[old]
                self.new[new] = {} if isinstance(section, dict) else self._old.pop(old)
        for name, place, keys in _MOVES:
            self._move(self._old.get(name, {}) if name else self._old, place, keys)
        self._complete_maps()
        if isinstance(self._old.get("tiles"), dict):
            self._complete_ogcapi("$.ogctiles" if is_older else "$.tiles")
        self._leave_out()
        return self.new, self.notes

    def _move(self, section: dict[str, Any], place: Iterable[str], keys: Iterable[str]) -> None:
        """Move members of a section; absent ones stay absent."""
        moved = {key: section.pop(key) for key in keys if key in section}
        if moved:
            reduce(lambda node, key: node.setdefault(key, {}), place, self.new).update(moved)

    def _complete_maps(self) -> None:
        maps = self.new["global"]["map"]
        if "reprojection" not in maps:
            # The default is false in version 6, true in version 7.
            maps["reprojection"] = False
            self._note("$.wms.reprojection", "is absent: global.map.reprojection is set to false")
        if maps.get("crs") and maps["reprojection"] is False:
            self._note("$.wms.crs", "has no effect without reprojection")

    def _complete_ogcapi(self, path: str) -> None:
        section = self.new["ogcapi"]
        for key in ("title", "abstract"):
            if isinstance(section.get(key), str):
                section[key] = section[key].replace(" Tiles", "", 1)
        uri = section.get("endpoint_uri")
        if isinstance(uri, str):
            segment = path.removeprefix("$.")
            # Only the end of the path: other parts may also contain the word.
            path_of_uri = uri[_HOST.match(uri).end() :]  # type: ignore[union-attr]
            moved = uri
            if path_of_uri.removesuffix("/").endswith(f"/{segment}"):
                moved = uri.removesuffix("/").removesuffix(segment) + "ogcapi"
            section["endpoint_uri"] = moved
            if moved == uri:
                reason = f"does not end with /{segment}, and stays: {uri}"
                self._note(f"{path}.endpoint_uri", reason)
        section |= _OGCAPI
        self._note(path, "is ogcapi now, which offers tiles and maps")

    def _leave_out(self) -> None:
        """Note what version 7 does not have; sections of newer services stay."""
        for name, value in self._old.items():
            is_service = isinstance(value, dict) and "enabled" in value and name not in _LOST
            if name in _SECTIONS:
                for key in value:
                    self._lose(name, key)
            elif is_service and name not in self.new:
                self.new[name] = value
                self._note(f"$.{name}", "is not a section of version 6, and stays as it is")
            else:
                self._lose(name)

    def _rename(self, path: str, section: dict[str, Any], old: str, new: str) -> bool:
        """Rename a key from older releases; return whether it was present."""
        if old not in section or new in section:
            return False
        section[new] = section.pop(old)
        self._note(f"{path}.{old}", f"is read as {new}")
        return True

    def _note(self, path: str, text: str) -> None:
        self.notes.append(Note(path, text))

    def _lose(self, *path: str) -> None:
        reason = _LOST.get(".".join(path), "does not exist in version 7")
        self.notes.append(Note(f"$.{'.'.join(path)}", f"is dropped: {reason}", is_lost=True))
