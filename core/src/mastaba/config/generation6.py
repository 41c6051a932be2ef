"""Conversion of services.json from generation 6 to generation 7 (services-config.md 5).

In generation 6, the shared settings are next to the sections of the services, and the settings
for maps and tiles are inside ``wms`` and ``wmts``. OGC API Tiles is a separate service, ``tiles``,
or ``ogctiles`` in the first releases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastaba.config.schema import json_path

_SIGNS: Final = ("contact", "provider", "tiles", "ogctiles", "common")
_WMS_SIGNS: Final = ("limits", "formats", "crs")
_SHARED: Final = (
    "provider",
    "site",
    "fee",
    "access_constraint",
    "contact",
    "crs_equivalences",
    "default_style",
)
_SERVICE: Final = (
    "enabled",
    "endpoint_uri",
    "root_path",
    "title",
    "abstract",
    "keywords",
    "metadata",
)
_WMS: Final = (*_SERVICE, "name", "root_layer")
_MAP: Final = ("limits", "formats", "crs", "reprojection")
_TILES: Final = ("enabled", "endpoint_uri", "title", "abstract", "keywords", "metadata")
_OGCAPI: Final = {"root_path": "/ogcapi", "tiles": True, "maps": True, "default_size": 256}


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


def is_generation6(document: object) -> bool:
    """Return whether a document, without nulls, is a services.json of generation 6."""
    if not isinstance(document, Mapping) or "global" in document:
        return False
    wms = document.get("wms")
    return any(key in document for key in _SIGNS) or (
        isinstance(wms, Mapping) and any(key in wms for key in _WMS_SIGNS)
    )


def to_generation7(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[Note]]:
    """Convert a document; absent settings stay absent and get their defaults.

    A value of the wrong type is moved unchanged: validation of the result reports it.

    Args:
        document: a services.json of generation 6, without nulls; it is not modified.

    Returns:
        The services.json of generation 7, and notes on what was not moved unchanged.
    """
    return _Conversion(document).run()


class _Conversion:
    """One conversion: values are moved out of a copy of the document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._old: dict[str, Any] = {
            key: dict(value) if isinstance(value, Mapping) else value
            for key, value in document.items()
        }
        self._notes: list[Note] = []

    def run(self) -> tuple[dict[str, Any], list[Note]]:
        self._rename("$", self._old, "crs_equivalency", "crs_equivalences")
        is_older = self._rename("$", self._old, "ogctiles", "tiles")
        prefix = "ogctiles" if is_older else "tiles"
        for name, section in self._old.items():
            if isinstance(section, dict):
                self._rename(f"$.{name}", section, "active", "enabled")
        new: dict[str, Any] = {"enabled": True, "global": self._shared()}
        for name in ("admin", "health"):
            if name in self._old:
                new[name] = self._old.pop(name)
        for name, keys in (("wms", _WMS), ("wmts", _SERVICE), ("tms", _SERVICE)):
            if name in self._old:
                new[name] = self._service(name, keys)
        if "tiles" in self._old:
            new["ogcapi"] = self._ogcapi(prefix)
        self._left_over(new)
        return new, self._notes

    def _shared(self) -> dict[str, Any]:
        shared = _taken(self._old, _SHARED)
        wms, wmts = self._section("wms"), self._section("wmts")
        shared.update(_taken(wms, ("inspire",)))
        if "inspire" in wmts:
            shared_value = shared.get("inspire", False)
            self._lose(
                "$.wmts.inspire", f"wms and wmts share global.inspire, which is {shared_value}"
            )
            del wmts["inspire"]
        maps = _taken(wms, _MAP)
        if "reprojection" not in maps:
            # The default is false in generation 6, true in generation 7.
            maps["reprojection"] = False
            self._note("$.wms.reprojection", "is absent: global.map.reprojection is set to false")
        if maps.get("crs") and maps["reprojection"] is False:
            self._note("$.wms.crs", "has no effect without reprojection")
        shared["map"] = maps
        if "reprojection" in wmts:
            shared["tile"] = {"reprojection": wmts.pop("reprojection")}
        return shared

    def _service(self, name: str, keys: Iterable[str]) -> Any:
        section = self._old[name]
        if not isinstance(section, dict):
            return self._old.pop(name)
        return _taken(section, keys)

    def _ogcapi(self, prefix: str) -> Any:
        section = self._old["tiles"]
        if not isinstance(section, dict):
            return self._old.pop("tiles")
        new = _taken(section, _TILES)
        uri = new.get("endpoint_uri")
        if isinstance(uri, str):
            new["endpoint_uri"] = self._moved_uri(uri, prefix)
        for key in ("title", "abstract"):
            if isinstance(new.get(key), str):
                new[key] = new[key].replace(" Tiles", "", 1)
        if "root_path" in section:
            self._lose(
                f"$.{prefix}.root_path", "the path of ogcapi is /ogcapi; change the front server"
            )
            del section["root_path"]
        self._note(f"$.{prefix}", "is ogcapi now, which offers tiles and maps")
        return {**new, **_OGCAPI}

    def _moved_uri(self, uri: str, prefix: str) -> str:
        # Only in the path: the first "/tiles" of http://tiles.example.org/tiles is in the host.
        scheme, separator, rest = uri.partition("://")
        host, slash, path = rest.partition("/") if separator else ("", "", uri)
        moved = (slash + path).replace(f"/{prefix}", "/ogcapi", 1)
        if moved == slash + path:
            self._note(
                f"$.{prefix}.endpoint_uri", f"has no /{prefix} in its path, and stays: {uri}"
            )
        return f"{scheme}{separator}{host}{moved}" if separator else moved

    def _left_over(self, new: dict[str, Any]) -> None:
        """Note what generation 7 does not have; sections of newer services stay."""
        moved = {"wms", "wmts", "tms", "tiles"}
        for name, value in self._old.items():
            if name in moved:
                for key in value:
                    self._lose(json_path([name, key]), "has no place in generation 7")
            elif name == "common":
                self._lose("$.common", "the list of services at / needs no section")
            elif isinstance(value, dict) and "enabled" in value and name not in new:
                new[name] = value
                self._note(f"$.{name}", "is not a section of generation 6, and stays as it is")
            else:
                self._lose(f"$.{name}", "has no place in generation 7")

    def _section(self, name: str) -> dict[str, Any]:
        section = self._old.get(name)
        return section if isinstance(section, dict) else {}

    def _rename(self, path: str, section: dict[str, Any], old: str, new: str) -> bool:
        """Rename a key from older releases; return whether it was present."""
        if old not in section or new in section:
            return False
        section[new] = section.pop(old)
        self._note(f"{path}.{old}", f"is read as {new}")
        return True

    def _note(self, path: str, text: str) -> None:
        self._notes.append(Note(path, text))

    def _lose(self, path: str, text: str) -> None:
        self._notes.append(Note(path, f"is dropped: {text}", is_lost=True))


def _taken(section: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Move members out of a section; absent ones stay absent."""
    return {key: section.pop(key) for key in keys if key in section}
