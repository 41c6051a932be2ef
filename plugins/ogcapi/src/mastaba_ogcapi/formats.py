"""Formats for maps and for tiles drawn as maps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from mastaba.api.web import printable
from mastaba.errors import NotAcceptableError, UnsupportedFormatError
from mastaba_ogcapi.negotiation import ANYTHING, normalized, preferred

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Style
    from mastaba.api.services import Site
    from mastaba_render.api.encoders import Encoder

GEOTIFF: Final = "image/tiff; application=geotiff"
_TIFFS: Final = ("image/tiff", "image/geotiff")
_JPEG: Final = ("jpg", "jpeg")
_ELEVATION: Final = ("image/x-bil;bits=32", "image/x-bil")


@dataclass(frozen=True, slots=True, eq=False)
class MapFormat:
    """One format of maps.

    Attributes:
        name: short name, for ``f``.
        media_type: Content-Type.
        encoder: writes the format.
        names: all values of ``f`` for this format, as returned by `negotiation.normalized`.
        accepted: all media types for this format in an Accept header.
    """

    name: str
    media_type: str
    encoder: Encoder
    names: frozenset[str]
    accepted: tuple[str, ...]

    @property
    def is_picture(self) -> bool:
        """Whether the format is meant for viewing."""
        return self.encoder.is_picture


class MapFormats:
    """The formats of ``global.map.formats`` that can be written, in the same order.

    Args:
        site: of the service.
        of_tiles: whether to offer the pictures of ``global.tile.formats`` instead of those of
            maps, after the other formats.
    """

    def __init__(self, site: Site, *, of_tiles: bool = False) -> None:
        self._site = site
        self._of_tiles = of_tiles

    @cached_property
    def all(self) -> tuple[MapFormat, ...]:
        found: dict[str, MapFormat] = {}
        settings = self._site.catalogue.settings
        pictures = settings.tile_formats if self._of_tiles else ()
        for media_type in (*settings.map.formats, *pictures):
            lowered = media_type.lower()
            # A TIFF without georeferencing would be useless here.
            encoder = self._site.encoders.get("image/geotiff" if lowered in _TIFFS else lowered)
            if encoder is None:
                continue
            if self._of_tiles and encoder.is_picture and media_type not in pictures:
                continue
            map_format = _map_format(encoder)
            found.setdefault(map_format.name, map_format)
        return tuple(found.values())

    @cached_property
    def _by_name(self) -> dict[str, MapFormat]:
        return {name: map_format for map_format in self.all for name in map_format.names}

    def named(self, name: str) -> MapFormat:
        """Return the format that ``f`` requests.

        Raises:
            UnsupportedFormatError: the format is not offered.
        """
        found = self._by_name.get(normalized(name))
        if found is None:
            raise UnsupportedFormatError(f"there is no format {printable(name)}", "f")
        return found

    def negotiated(self, header: str | None, natural: MapFormat) -> MapFormat:
        """Return the format that an Accept header requests.

        Args:
            natural: the format for clients that accept anything or send no header.

        Raises:
            NotAcceptableError: the client accepts none of the offered formats.
        """
        if not header or header == ANYTHING:
            return natural
        choices = (natural, *(item for item in self.all if item is not natural))
        media_types = tuple(item.accepted for item in choices)
        position = preferred(header, media_types, anything_is_first=True)
        if position is None:
            raise NotAcceptableError("maps are " + ", ".join(item.media_type for item in choices))
        return choices[position]

    def natural(self, layer: Layer, style: Style | None) -> MapFormat | None:
        """Return the default format of a map.

        This is the format of the stored tiles if it can hold the pixels. Otherwise it is PNG for
        8-bit images or TIFF for values, otherwise any offered format; None without any.
        """
        # Loaded on first use, like the renderer.
        from mastaba_render.api.maps import is_bytes

        pictures = is_bytes(layer, style)
        stored = layer.pyramid.format
        names = ["png" if pictures else "tiff"]
        if pictures == (stored.sample == "uint8"):
            names.insert(0, stored.media_type.lower())
        wanted = (self._by_name.get(name) for name in names)
        fitting = (item for item in self.all if pictures or not item.encoder.is_picture)
        return next((item for item in (*wanted, *fitting, *self.all) if item is not None), None)


def _map_format(encoder: Encoder) -> MapFormat:
    lowered = encoder.media_type.lower()
    if lowered == "image/geotiff":
        accepted = ("image/tiff", GEOTIFF, "image/geotiff")
        names = frozenset(("tiff", "tif", "geotiff", *_TIFFS, normalized(GEOTIFF)))
        return MapFormat("tiff", GEOTIFF, encoder, names, accepted)
    short = frozenset((encoder.name, encoder.extension))
    name = encoder.name
    if name in _JPEG:
        name, short = "jpg", short | set(_JPEG)
    aliases = _ELEVATION if lowered in _ELEVATION else (lowered,)
    return MapFormat(name, encoder.media_type, encoder, short | set(aliases), aliases)
