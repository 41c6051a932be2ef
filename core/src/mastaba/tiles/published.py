"""The tiles of one service: from the names in a request to what answers a tile.

This is the hot path of all tile protocols: a few look-ups in dictionaries find the publisher of a
tile. Stored tiles need neither encoders nor rendering, which are imported for the others only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    RendererMissingError,
    RequestError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    UnsupportedFormatError,
)
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix
from mastaba.model.tile_matrix_set_link import TileMatrixSetLink, all_links, links
from mastaba.services import drawing
from mastaba.services.base import Site
from mastaba.tiles.stored import TilePublisher
from mastaba.variants import NOTHING
from mastaba_server.threads.recent import Recent
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response
from mastaba_server.web.text import printable

if TYPE_CHECKING:
    import numpy.typing as npt


DEFAULT_STYLE: Final = ""
"""Name of the style for requests without one."""

# Longer numbers are outside every matrix. They are not passed to int(), whose cost grows with
# the square of the length.
_MAX_DIGITS: Final = 18


def tile_index(text: str | None, name: str) -> int:
    """Return a tile or pixel index: ASCII digits after an optional minus sign.

    Negative indices and indices of any length are valid numbers, but outside every matrix.

    Args:
        name: the parameter to report.

    Raises:
        MissingParameterError: absent or empty.
        InvalidParameterError: not an integer.
    """
    if not text:
        raise MissingParameterError(f"the parameter {name} is missing", name)
    if text.isdigit() and text.isascii():
        if len(text) <= _MAX_DIGITS:
            return int(text)
        return int(text.lstrip("0")[: _MAX_DIGITS + 1] or "0")
    if text[0] == "-" and text[1:].isdigit() and text.isascii():
        return -1 if text.strip("-0") else 0
    raise InvalidParameterError(f"{name} must be an integer, not {printable(text)}", name)


def picture_formats(layer: Layer, site: Site) -> dict[str, str]:
    """Return the media types of pictures of a layer's tiles by extension, but the stored one.

    No code of an encoder is loaded.
    """
    if layer.is_vector:
        return {}
    stored, extensions = layer.pyramid.format.media_type, site.plugins.encoder_extensions()
    return {
        extension: media_type
        for media_type in map(str.lower, site.catalogue.settings.tile_formats)
        if media_type in site.encoders and media_type != stored
        for extension in extensions[media_type]
    }


def drawn_links(layer: Layer) -> list[TileMatrixSetLink]:
    """Return the sets in which tiles of a layer are drawn: none without mastaba-render."""
    return links(layer) if drawing.can_draw() else []


class Publisher(Protocol):
    """What answers the tiles of one matrix in one style.

    A `TilePublisher` for stored tiles, a `DerivedTilePublisher` for tiles drawn on request.

    Attributes:
        layer: whose tiles these are.
    """

    layer: Layer

    def respond(self, request: Request, tile_row: int, tile_col: int) -> Response:
        """Return a tile, 304 if the client already has it, or the status for missing tiles.

        Raises:
            TileOutOfRangeError: outside the limits; ``parameters`` names ``row`` and/or ``col``.
            TileNotFoundError: there is no such tile, and that is an error for this layer.
            SlabFormatError, StorageError: the slabs cannot be read.
        """

    def pixel_value(
        self, site: Site, tile_row: int, tile_col: int, row: int, column: int
    ) -> npt.NDArray[Any]:
        """Return the value of one pixel of a tile inside the limits, without style.

        Args:
            site: of the service.
            row, column: position in the tile, from the upper left corner.

        Returns:
            shape (channels,), uint8 or float32; the nodata value where there is no data.

        Raises:
            TileNotFoundError: there is no such tile.
            SlabFormatError, StorageError: the slabs cannot be read.
        """


class _OfStyles(Mapping[str, Publisher]):
    """Publishers by style; there may be many, so those of styles without a palette are one.

    Args:
        styles: identifiers.
        default: of `DEFAULT_STYLE`.
        plain: of all styles but those in ``coloured``.
        coloured: by identifier.
    """

    __slots__ = ("_coloured", "_default", "_plain", "_styles")

    def __init__(
        self,
        styles: Collection[str],
        default: Publisher,
        plain: Publisher,
        coloured: Mapping[str, Publisher],
    ) -> None:
        self._styles, self._default, self._plain = styles, default, plain
        self._coloured = coloured

    def __getitem__(self, style: str) -> Publisher:
        if style == DEFAULT_STYLE:
            return self._default
        if style not in self._styles:
            raise KeyError(style)
        return self._coloured.get(style, self._plain)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._styles, DEFAULT_STYLE)))

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass(frozen=True, slots=True, eq=False)
class MatrixTiles:
    """The tiles of one layer in one tile matrix.

    Attributes:
        layer: the layer.
        link: the set that contains the matrix.
        matrix: the tile matrix.
        limits: limits of the tiles offered.
        publishers: of tiles in the stored format, by style identifier and `DEFAULT_STYLE`.
        tiles: the tiles of all layers.
    """

    layer: Layer
    link: TileMatrixSetLink
    matrix: TileMatrix
    limits: TileLimits
    publishers: Mapping[str, Publisher]
    tiles: Tiles

    def publisher(self, style: str) -> Publisher:
        """Return what answers the tiles in the stored format.

        Args:
            style: identifier or `DEFAULT_STYLE`. Only palettes change stored tiles.

        Raises:
            UnknownNameError: the layer has no such style.
        """
        try:
            return self.publishers[style]
        except KeyError:
            reason = f"the {self.tiles.noun} has no style {printable(style)}"
            raise UnknownNameError(reason, "style") from None

    def stored(self, style: str) -> TilePublisher | None:
        """Return the publisher of a style if the tiles are stored; None for any other.

        Args:
            style: identifier or `DEFAULT_STYLE`.
        """
        found = self.publishers.get(style)
        return found if isinstance(found, TilePublisher) else None

    def picture(self, style: str, media_type: str) -> Publisher:
        """Return what answers the tiles as pictures drawn in a style.

        Args:
            style: identifier or `DEFAULT_STYLE`.
            media_type: one of `LayerTiles.pictures`.

        Raises:
            UnknownNameError: the layer has no such style.
        """
        self.publisher(style)  # raises
        layer, tiles = self.layer, self.tiles
        found = layer.style(style) if style else tiles.default_style(layer)
        matrix, missing = self.matrix.id, tiles.missing_status
        publisher: Publisher = drawing.load("tiles.pictures").PictureTilePublisher(
            tiles.site, layer, self.link, matrix, found, media_type, missing
        )
        return publisher


class LayerTiles:
    """The tiles of one layer; made by `Tiles.layer`.

    Attributes:
        layer: the layer.
        is_vector: whether the tiles contain features instead of pixels.
        media_type: of the stored tiles, in lower case.
        extensions: file name extensions of the tiles in paths.
        pictures: media types of the picture formats in which the tiles can also be drawn, by file
            name extension; empty for vector tiles.
    """

    def __init__(self, layer: Layer, service: Tiles) -> None:
        self.layer = layer
        tile_format = layer.pyramid.format
        self.is_vector = layer.is_vector
        self.media_type = tile_format.media_type.lower()
        self.extensions = frozenset((tile_format.extension, *tile_format.extension_aliases))
        self.pictures = picture_formats(layer, service.site)
        self._service = service
        # Filled for each set on its first request: stored tiles need no rendering.
        self._sets: dict[str | None, dict[str, MatrixTiles]] = {}

    def matrix(self, tile_matrix_set: str | None, tile_matrix: str) -> MatrixTiles:
        """Return the tiles of one tile matrix.

        Args:
            tile_matrix_set: any name of a set; None for the set in which the layer is stored.

        Raises:
            UnknownNameError: the layer is not offered in the set, or there is no such matrix.
            TileOutOfRangeError: the layer has no tiles in this matrix of the set.
        """
        in_set = self._sets.get(tile_matrix_set) or self._open(tile_matrix_set)
        found = in_set.get(tile_matrix)
        if found is not None:
            return found
        name = printable(tile_matrix)
        if tile_matrix in self.layer.tile_limits and self.link(tile_matrix_set) is self.links[None]:
            raise TileNotFoundError("no tile is stored here", self.layer.missing_headers)
        if tile_matrix in self.links[tile_matrix_set].tile_matrix_set.matrices:
            raise TileOutOfRangeError(
                f"the {self._service.noun} has no tiles in the tile matrix {name}", ["tile_matrix"]
            )
        raise UnknownNameError(f"there is no tile matrix {name}", "tile_matrix")

    @cached_property
    def links(self) -> dict[str | None, TileMatrixSetLink]:
        """The offered sets by all their names; None is the set in which the layer is stored."""
        offered = all_links(self.layer)
        found: dict[str | None, TileMatrixSetLink] = {None: offered[0]}
        # An identifier takes precedence over another name of another set.
        for link in offered:
            found.setdefault(link.tile_matrix_set.id, link)
        for link in offered:
            found.setdefault(link.levels_id, link)
            found.setdefault(self._service.aliases.get(link.tile_matrix_set.id), link)
        return found

    def link(self, name: str | None) -> TileMatrixSetLink:
        """Return an offered set by one of its names.

        Raises:
            UnknownNameError: the layer is not offered in it.
            RendererMissingError: its tiles are drawn, and mastaba-render is not installed.
        """
        link = self.links.get(name)
        if link is None:
            unknown = f"is not offered in a tile matrix set {printable(name or '')}"
            raise UnknownNameError(f"the {self._service.noun} {unknown}", "tile_matrix_set")
        if link is not self.links[None] and not drawing.can_draw():
            raise RendererMissingError
        return link

    def unsupported(self, requested: str, message: str, parameter: str) -> RequestError:
        """Return the error for a format in which the tiles are not offered.

        Args:
            requested: media type in lower case, or file name extension.
            message, parameter: of the error if drawing would not help.
        """
        # Without mastaba-render, there may be no encoder that knows its extension.
        name = "jpeg" if requested == "jpg" else requested.removeprefix("image/")
        is_picture = f"image/{name}" in self._service.site.catalogue.settings.tile_formats
        if is_picture and not self.is_vector and not drawing.can_draw():
            return RendererMissingError()
        return UnsupportedFormatError(message, parameter)

    def _open(self, name: str | None) -> dict[str, MatrixTiles]:
        link = self.link(name)
        matrices = link.tile_matrix_set.matrices
        styles = tuple(style.identifier for style in self.layer.styles)
        opened = self._sets[name] = {
            matrix: MatrixTiles(
                self.layer,
                link,
                matrices[matrix],
                limits,
                _OfStyles(styles, *self._publishers(link, matrix)),
                self._service,
            )
            for matrix, limits in link.limits.items()
            # Variants of the layer may have more levels.
            if link is not self.links[None] or matrix in self.layer.pyramid.levels
        }
        return opened

    def _publishers(
        self, link: TileMatrixSetLink, matrix: str
    ) -> tuple[Publisher, Publisher, Mapping[str, Publisher]]:
        """Return the publishers of one matrix: default, plain and coloured."""
        layer, site, missing = self.layer, self._service.site, self._service.missing_status
        create: Callable[[Style | None], Publisher]
        if link is self.links[None]:
            reader = site.catalogue.readers_of(layer)[matrix]
            table = site.catalogue.variants.get(layer.id)
            kind: Callable[..., TilePublisher] = TilePublisher
            if table is not None and table.tile_publisher is not None:
                kind = partial(table.tile_publisher, service=self._service)
            create = partial(kind, layer, reader, missing_status=missing)
        else:
            derived = drawing.load("tiles.derived").DerivedTilePublisher
            create = partial(derived, site, layer, link, matrix, missing_status=missing)
        plain = create(None)
        if not layer.pyramid.takes_palettes:
            return plain, plain, NOTHING
        # The first of duplicate identifiers counts.
        styles = {style.identifier: style for style in reversed(layer.styles)}
        coloured = {name: create(style) for name, style in styles.items() if style.palette}
        default = self._service.default_style(layer)
        return coloured.get(default.identifier, plain) if default else plain, plain, coloured


class Tiles:
    """The tiles of all layers of one service.

    Errors name the parameters ``layer``, ``tile_matrix_set``, ``tile_matrix``, ``style``, ``row``
    and ``col``; each protocol spells them in its own way.

    Args:
        site: of the service.
        layers: the published layers.
        default_style: returns the style of a layer for requests without one.
        missing_status: HTTP status for a tile inside the limits that is not stored or cannot be
            produced, unless the layer sets another.
        aliases: further names of tile matrix sets, by identifier.
        noun: what the protocol calls a layer, for error messages.
    """

    def __init__(
        self,
        site: Site,
        layers: Iterable[Layer],
        default_style: Callable[[Layer], Style | None] = attrgetter("default_style"),
        *,
        missing_status: int = 404,
        aliases: Mapping[str, str] = MappingProxyType({}),
        noun: str = "layer",
    ) -> None:
        self.site = site
        self.default_style = default_style
        self.missing_status = missing_status
        self.aliases = aliases
        self.noun = noun
        self._layers = {layer.id: layer for layer in layers}
        # Filled for each layer on its first request, so startup does not prepare the palettes
        # and headers of a thousand unused layers.
        self._tiles: dict[str, LayerTiles] = {}
        self._variants: Recent[LayerTiles] = Recent(site.catalogue.opened.most)

    def layer(
        self, identifier: str, values: Mapping[str, str] = NOTHING, *, lasting: bool = False
    ) -> LayerTiles:
        """Return the tiles of a layer, or of one of its variants: of several, the newest.

        Args:
            identifier: also a qualified name; see `mastaba.api.catalogue.Catalogue.resolve`.
            values: of dimensions, by their names.
            lasting: for `Service.tile_addresses`: refuse what the clock decides, and nearest
                values, of which there are too many.

        Raises:
            UnknownNameError: there is no such layer.
            MissingDimensionError, InvalidDimensionError, NoSuchValueError: the values are refused.
            OverloadedError: a variant cannot be opened at the moment.
        """
        tiles = self._tiles.get(identifier)
        if tiles is None or values:
            tiles = self._resolved(identifier, values, lasting)
        return tiles

    def _resolved(self, identifier: str, values: Mapping[str, str], lasting: bool) -> LayerTiles:
        layer = self._layers.get(identifier)
        if layer is None or layer.dimensions:
            found = self.site.catalogue.resolve(identifier, values)
            layer = found.layer
            if layer.id not in self._layers or (lasting and not found.is_lasting):
                layer = None
        if layer is None:
            raise UnknownNameError(f"there is no {self.noun} {printable(identifier)}", "layer")
        return self.of(layer)

    def of(self, layer: Layer) -> LayerTiles:
        """Return the tiles of a layer or of an open variant."""
        if layer.readers is not None:
            key = layer.key, layer.cache_control
            tiles = self._variants.get(key)
            if tiles is None or tiles.layer is not layer:
                tiles = self._variants.add(key, LayerTiles(layer, self))
            return tiles
        # What the name alone means, unless the clock decides.
        return self._tiles.setdefault(layer.id, LayerTiles(layer, self))
