"""Map requests, read and checked (ogcapi.md sections 9.1 to 9.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mastaba.api.catalogue import CRS, TileLimits
from mastaba.api.web import Request, printable
from mastaba.errors import InvalidParameterError, NoSuchValueError, UnknownPathError
from mastaba_ogcapi import params
from mastaba_ogcapi.dimensions import MOST_VALUES, map_datetime, shown
from mastaba_ogcapi.formats import MapFormat, MapFormats
from mastaba_ogcapi.maparea import Area, level_factor, size_of
from mastaba_ogcapi.mapplace import AreaReader, wanted_size
from mastaba_ogcapi.shown import Shown
from mastaba_ows.crs import offered_crs
from mastaba_render.api.maps import Background, MapLayer

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Style
    from mastaba.api.services import MapSettings
    from mastaba.api.tiles import MatrixTiles
    from mastaba_ogcapi.dataset import Collection, Dataset

_MAX_COLLECTIONS_TEXT: Final = 10000


@dataclass(frozen=True, slots=True)
class Ground:
    """The background where a map has no data.

    Attributes:
        background: inside the valid area of the CRS.
        void: outside this area.
        void_is_asked: whether the request has a void parameter, so the two may differ.
    """

    background: Background
    void: Background
    void_is_asked: bool


@dataclass(frozen=True, slots=True)
class MapQuery:
    """A map to draw, and how to send it. The ETag contains all compared fields.

    Attributes:
        layers: the bottom one first.
        columns, rows: pixels, within the limits.
        resolution_factor: applied to the requested resolution when a level is selected.
        negotiated: whether the format depends on the Accept header.
        limits: of the map, in which all values of a collection count as one layer.
        cached: what is shown, with the Cache-Control of the request.
        headers: that name the time of what is shown.
    """

    layers: tuple[MapLayer, ...]
    area: Area
    columns: int
    rows: int
    resolution_factor: float
    ground: Ground
    format: MapFormat
    negotiated: bool = field(compare=False)
    file_name: str | None = field(compare=False)
    limits: MapSettings = field(compare=False)
    cached: Sequence[Layer] = field(compare=False)
    headers: Sequence[tuple[str, str]] = field(compare=False)


class MapQueries:
    """Reads map requests.

    Args:
        dataset: gives the collections.
        default_size: larger dimension, in pixels, of maps without a requested size.
    """

    def __init__(self, dataset: Dataset, default_size: int) -> None:
        self._dataset = dataset
        self._default_size = default_size

    @property
    def _settings(self) -> MapSettings:
        return self._dataset.site.catalogue.settings.map

    def of_collection(
        self, request: Request, collection: Collection, style: Style | None
    ) -> MapQuery:
        """Return the requested map of one collection.

        Raises:
            RequestError: the request is invalid.
            OutsideError: ``subset`` is outside the collection.
        """
        natural = collection.natural_format(style)
        return self._read(request, ((collection, style),), collection.crs, natural)

    def of_dataset(self, request: Request) -> MapQuery:
        """Return the requested map of several collections.

        Raises:
            RequestError: the request is invalid.
            UnknownPathError: there is nothing to draw.
            OutsideError: ``subset`` is outside the collections.
        """
        chosen = self._collections(request.query.get("collections"))
        shared = [
            code
            for code in dict.fromkeys((*self._dataset.dataset_crs, *chosen[0].crs))
            if all(code in item.crs for item in chosen)
        ]
        if not shared:
            raise InvalidParameterError(
                "the collections are not offered in a common CRS", "collections"
            )
        layers = tuple((item, item.layer.default_style) for item in chosen)
        pictures = (item for item in self._dataset.formats.all if item.name == "png")
        natural = next(pictures, None) or chosen[0].natural_format(layers[0][1])
        return self._read(request, layers, shared, natural)

    def of_tile(
        self,
        request: Request,
        collection: Collection,
        style: Style | None,
        in_matrix: MatrixTiles,
        tile_row: int,
        tile_col: int,
        found: Shown,
    ) -> MapQuery:
        """Return the map of the area of a tile inside the limits.

        Args:
            found: what the request means by the collection.

        Raises:
            RequestError: the request is invalid.
        """
        matrix, limits = in_matrix.matrix, self._settings
        place = TileLimits(tile_row, tile_row, tile_col, tile_col)
        area = Area(matrix.bbox_of(place), crs=in_matrix.link.tile_matrix_set.crs)
        formats = self._dataset.tile_formats
        natural = formats.natural(collection.layer, style)
        map_format, negotiated = self._format(request, formats, natural)
        size = wanted_size(request.query, limits)
        size.check_alone()
        columns, rows = matrix.tile_width, matrix.tile_height
        if (size.width, size.height, size.scale) != (None, None, None):
            columns, rows = size_of(area, size.width, size.height, size.pixel, columns, limits)
        return MapQuery(
            (MapLayer(found.layers[0], style),),
            area,
            columns,
            rows,
            level_factor(size.millimetres),
            ground(request.query),
            map_format,
            negotiated,
            request.query.get("filename"),
            limits,
            found.cached,
            map_datetime(found.layers),
        )

    def _format(
        self, request: Request, formats: MapFormats, natural: MapFormat | None
    ) -> tuple[MapFormat, bool]:
        """Return the requested format, and whether it depends on the Accept header.

        Raises:
            UnsupportedFormatError: ``f`` names a format that is not offered.
            UnknownPathError: no format is offered.
            NotAcceptableError: the client accepts none of the offered formats.
        """
        wanted = request.query.get("f")
        if wanted is not None:
            return formats.named(wanted), False
        if natural is None:
            raise UnknownPathError("maps are not offered in any format")
        header = request.header("Accept")
        return formats.negotiated(header, natural), True

    def _collections(self, text: str | None) -> Sequence[Collection]:
        dataset = self._dataset
        if text is None:
            if not dataset.default_collections:
                raise UnknownPathError("there is no collection of images to draw")
            return dataset.default_collections
        limit = self._settings.max_layers
        # Counted before the split: the text may be as long as a request can be.
        if len(text) > _MAX_COLLECTIONS_TEXT or text.count(",") >= limit:
            raise InvalidParameterError(
                f"collections may name at most {limit} collections", "collections"
            )
        return [self._collection(item.strip()) for item in text.split(",")]

    def _collection(self, name: str) -> Collection:
        # Requests contain no credentials, so addresses in them contain no mark.
        uri = self._dataset.uri.removesuffix(self._dataset.site.catalogue.mark)
        prefix = f"{uri}/collections/"
        if name.startswith(prefix):
            name = unquote(name[len(prefix) :].partition("?")[0].rstrip("/"))
        found = self._dataset.find(name)
        if found is None or found.layer.is_vector or not found.offers("maps"):
            raise InvalidParameterError(
                f"there is no collection of maps {printable(name)}", "collections"
            )
        return found

    def _read(
        self,
        request: Request,
        layers: tuple[tuple[Collection, Style | None], ...],
        offered: Sequence[str],
        natural: MapFormat | None,
    ) -> MapQuery:
        parameters, limits = request.query, self._settings
        crs = CRS.from_code(offered[0])
        if "crs" in parameters:
            crs = offered_crs(parameters["crs"], offered, "crs")
        map_format, negotiated = self._format(request, self._dataset.formats, natural)
        size = wanted_size(parameters, limits)
        place = AreaReader(self._dataset, [item for item, _ in layers], crs, offered)
        default = min(self._default_size, limits.max_width, limits.max_height)
        area, columns, rows = place.find(request, size, default, limits)
        drawn, cached = self._values(request, layers)
        newest = [layer for _, found in drawn for layer in found.layers]
        newest.sort(key=lambda layer: layer.interval or ("", ""), reverse=True)
        further = len(newest) - len(drawn)
        if further:
            limits = replace(limits, max_layers=limits.max_layers + further)
        return MapQuery(
            tuple(
                MapLayer(layer, style, found.ranges)
                for style, found in drawn
                for layer in reversed(found.layers)
            ),
            area,
            columns,
            rows,
            level_factor(size.millimetres),
            ground(parameters),
            map_format,
            negotiated,
            parameters.get("filename"),
            limits,
            cached,
            map_datetime(newest),
        )

    def _values(
        self, request: Request, layers: Sequence[tuple[Collection, Style | None]]
    ) -> tuple[list[tuple[Style | None, Shown]], list[Layer]]:
        """Return what a map shows of each collection, and how it is cached.

        Collections without the requested values are left out.

        Raises:
            NoSuchValueError: none of them has the values.
        """
        found = []
        missing: NoSuchValueError | None = None
        for item, style in layers:
            try:
                found.append((style, shown(self._dataset, item, request, MOST_VALUES)))
            except NoSuchValueError as error:
                missing = error
        if missing is not None and not found:
            raise missing
        return found, [layer for _, one in found for layer in one.cached]


def ground(parameters: Mapping[str, str]) -> Ground:
    """Return the requested background where a map has no data.

    Raises:
        InvalidParameterError: a parameter is invalid.
    """
    colour = params.colour(parameters, "bgcolor")
    transparent = params.flag(parameters, "transparent")
    background = Background(colour, colour is None if transparent is None else transparent)
    void_colour = params.colour(parameters, "void-color")
    void_transparent = params.flag(parameters, "void-transparent")
    asked = void_colour is not None or void_transparent is not None
    if void_transparent is None:
        void_transparent = background.transparent if void_colour is None else False
    void = Background(colour if void_colour is None else void_colour, void_transparent)
    return Ground(background, void, asked)
