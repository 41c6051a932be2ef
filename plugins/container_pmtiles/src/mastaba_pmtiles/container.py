"""Opening of archives: what a layer needs to know of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final

from mastaba.api.containers import (
    AVIF,
    JPEG_GRAY,
    MLT,
    TILE_FORMATS,
    WEBP,
    Container,
    Context,
    Level,
    MakeReader,
    OpenedContainer,
    Pyramid,
    RasterSpecification,
    Source,
    TileFormat,
    TileLimits,
    digest_of,
)
from mastaba.api.storages import ByteRange
from mastaba.errors import ContainerFormatError
from mastaba_containers.heads import head, require_complete
from mastaba_containers.inflating import can_inflate
from mastaba_containers.metadata import (
    MAX_METADATA,
    TABLES_SCHEMA,
    VectorTable,
    link_of,
    parsed_metadata,
    plain_text,
    tables_at,
    vector_tables,
    with_tables,
)
from mastaba_containers.payloads import Payload, sniffed
from mastaba_containers.replacement import LoadedFacts
from mastaba_containers.sets import (
    Match,
    published,
    stem_of,
    web_mercator_box,
    web_mercator_set,
)
from mastaba_pmtiles.header import HEAD_LENGTH, SIGNATURE, Header
from mastaba_pmtiles.index import Archive
from mastaba_pmtiles.reader import PMTilesReader, block_of

_VECTOR: Final = {"mvt": TILE_FORMATS["TIFF_PBF_MVT"], "mlt": MLT}
_RASTER: Final = {
    "png": TILE_FORMATS["TIFF_PNG_UINT8"],
    "jpeg": TILE_FORMATS["TIFF_JPG_UINT8"],
    "webp": WEBP,
    "avif": AVIF,
}
_FINEST: Final = 24
"""The finest zoom of WebMercatorQuad."""
_EDGE: Final = 85.0511287798066
"""Degrees; the northern edge of Web Mercator."""
_TILE_SIZES: Final = (256, 512, 1024)
_LARGE_LEAF: Final = 1024 * 1024
"""Bytes of a leaf directory from which a tile takes long."""


class PMTiles(Container):
    """Archives of PMTiles version 3."""

    name = "pmtiles"
    suffixes = (".pmtiles",)
    signatures = (SIGNATURE, b"PM\1", b"PM\2")
    options_schema: ClassVar[Mapping[str, Any]] = {
        "tile_matrix_set": {"type": "string", "minLength": 1},
        "nodata": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 4},
        "tables": TABLES_SCHEMA,
    }
    cannot = frozenset(("symbolic", "history", "float"))

    @classmethod
    def open(cls, source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
        data = head(source, HEAD_LENGTH, cls.signatures)
        try:
            archive = Archive(source.storage, source.key, context.indices, data)
            header = archive.header
            sections = (header.root, header.metadata, header.leaves, header.tiles)
            require_complete(source, max(section.end for section in sections if section.length))
            return _Opening(archive, source, options, context, data.data).opened()
        except ContainerFormatError as error:
            text = str(error)
            name = str(source)
            raise ContainerFormatError(
                text if name in text else f"{name}: {text}",
                error.remedy or "write the archive again",
            ) from error


class _Opening:
    """What is found out about one archive."""

    def __init__(
        self,
        archive: Archive,
        source: Source,
        options: Mapping[str, Any],
        context: Context,
        start: bytes,
    ) -> None:
        self._archive = archive
        self._header = archive.header
        self._source = source
        self._options = options
        self._context = context
        self._start = start
        self._loaded = LoadedFacts(str(source), archive.header.limits)

    def opened(self) -> OpenedContainer:
        header, archive = self._header, self._archive
        if archive.reads > 1:
            self._context.warning(
                f"its root directory is not in the first {HEAD_LENGTH} bytes",
                "write it with a root directory that follows the header",
            )
        root = archive.root
        leaves = (size for run, size in zip(root.runs, root.lengths, strict=True) if not run)
        if max(leaves, default=0) > _LARGE_LEAF:
            self._context.warning(
                "it has leaf directories of more than 1 MiB, so first tiles take long",
                "write it again with smaller ones",
            )
        metadata = self._metadata()
        first = self._first_tile()
        tile_format, raster, size = self._format(first)
        match, zooms = self._match(size)
        tables = vector_tables(with_tables(metadata, self._options)) if raster is None else []
        bounds = self._bounds()
        levels = self._levels(match, zooms, tables, bounds)
        generation = digest_of(
            PMTiles.name, dict(self._options), archive.version or self._start.hex()
        )
        pyramid = Pyramid(
            stem_of(self._source),
            match.tile_matrix_set,
            tile_format,
            raster,
            MappingProxyType({level.matrix.id: level for _, level in levels}),
            generation,
            bbox=web_mercator_box(*bounds),
        )
        readers = {
            level.matrix.id: self._maker(zoom, match, raster is None) for zoom, level in levels
        }
        # Workers inherit what has been read.
        self._context.indices.put(block_of(self._source.storage, self._source.key), archive)
        return OpenedContainer(
            pyramid,
            MappingProxyType(readers),
            title=plain_text(metadata.get("name")),
            abstract=plain_text(metadata.get("description")),
            attribution=plain_text(metadata.get("attribution")),
            attribution_url=link_of(metadata.get("attribution")),
            report=self._report(header, tile_format, raster, match, zooms, tables),
        )

    def _metadata(self) -> dict[str, Any]:
        section = self._header.metadata
        if not section.length:
            return {}
        try:
            data = self._start[section.offset : section.end]
            if len(data) < section.length:
                data = self._archive.section(section)
            return parsed_metadata(self._archive.plain(data, MAX_METADATA))
        except ContainerFormatError as error:
            self._context.warning(
                f"{error}: it has no title, attribution and descriptions of tables",
                "write them in the layer descriptor, or write the archive again",
            )
            return {}

    def _first_tile(self) -> Payload | None:
        """Return what the first tile shows; None for a vector tile that is not recognized."""
        if self._header.tile_type in _VECTOR:
            return None
        archive, directory = self._archive, self._archive.root
        place = archive.tile(directory.ids[0])
        if place is None:
            raise ContainerFormatError("the first entry of its root directory leads to no tile")
        read = archive.storage.read(archive.key, ByteRange(*place), archive.version)
        found = sniffed(read.data)
        if found is None:
            raise ContainerFormatError(
                "its first tile is neither PNG, JPEG, WebP or AVIF nor a vector tile"
            )
        return found

    def _format(self, first: Payload | None) -> tuple[TileFormat, RasterSpecification | None, int]:
        """Return the format of tiles, their pixels, and the width of the grid's tiles."""
        declared = self._header.tile_type
        kind = first.kind if first else declared or ""
        if kind in _VECTOR and declared not in (None, kind):
            raise ContainerFormatError(
                f"its header says {declared}, but its first tile is {kind}", "correct the header"
            )
        if kind in _VECTOR:
            coding = self._header.tile_coding
            if coding and not can_inflate(coding):
                self._context.warning(
                    f"its tiles are compressed with {coding}, for which nothing is installed: only "
                    "clients that accept it get them",
                    "pip install 'mastaba-pmtiles[codecs]'",
                )
            return _VECTOR[kind], None, 256
        if first is not None and first.coding:
            raise ContainerFormatError(
                f"its images are compressed once more with {first.coding}",
                "write it with tile compression none",
            )
        if kind not in _RASTER or first is None:
            raise ContainerFormatError(f"its tiles are of the kind {kind}, which is not published")
        if declared not in (None, kind):
            self._context.warning(
                f"its header says {declared}, but its first tile is {kind}",
                "correct the header",
            )
        if first.width != first.height or first.width not in _TILE_SIZES:
            raise ContainerFormatError(
                f"its first tile has {first.width} × {first.height} pixels; possible are squares "
                "of 256, 512 or 1024"
            )
        if first.bits not in (8, 1, 2, 4) or first.is_animated:
            raise ContainerFormatError("its tiles are animated, or do not have 8 bits a channel")
        # Of tiles with palettes, some may have transparent colours.
        channels = 4 if first.has_palette else first.channels
        tile_format = _RASTER[kind]
        if kind == "jpeg" and channels == 1:
            tile_format = JPEG_GRAY
        if channels not in tile_format.channels:
            raise ContainerFormatError(f"its tiles are {kind} with {channels} channels")
        nodata = self._options.get("nodata")
        if nodata is None:
            # Transparent where there is alpha, else white, as slab pyramids have it.
            nodata = [0.0] * channels if channels in (2, 4) else [255.0] * channels
        if len(nodata) != channels:
            raise ContainerFormatError(
                f"the option nodata has {len(nodata)} values for {channels} channels",
                "write one value for each channel",
            )
        photometric = "gray" if channels < 3 else "rgb"
        values = tuple(float(value) for value in nodata)
        return tile_format, RasterSpecification(channels, values, photometric), first.width

    def _match(self, size: int) -> tuple[Match, range]:
        """Return the tile matrix set, and the zooms that are in it."""
        header = self._header
        low, high = header.min_zoom, min(header.max_zoom, _FINEST)
        if low > high:
            raise ContainerFormatError(f"its zooms begin at {low}; the last published one is 24")
        if header.max_zoom > high:
            self._context.warning(
                f"its zooms {high + 1} to {header.max_zoom} are not published",
                f"nothing has to be done if {high} is enough",
            )
        zooms = range(low, high + 1)
        own = web_mercator_set(size)
        wanted = replace(
            own, matrices=MappingProxyType({str(zoom): own.matrices[str(zoom)] for zoom in zooms})
        )
        match = published(self._context, wanted, None, self._options.get("tile_matrix_set"))
        if match.tile_matrix_set is wanted:
            # All zooms: other archives share the set.
            match = replace(match, tile_matrix_set=own)
        return match, zooms

    def _levels(
        self,
        match: Match,
        zooms: range,
        tables: list[VectorTable],
        bounds: tuple[float, float, float, float],
    ) -> list[tuple[int, Level]]:
        """Return the zooms and their levels, coarse to fine."""
        found = []
        for zoom in zooms:
            place = match.places[str(zoom)]
            limits = place.limits(_limits(zoom, bounds))
            level = Level(
                place.matrix,
                # The block of an archive is the level.
                place.matrix.matrix_width,
                place.matrix.matrix_height,
                limits,
                tables_at(tables, zoom),
                f"{self._source}: bounds of the header",
            )
            found.append((zoom, level))
        return found

    def _bounds(self) -> tuple[float, float, float, float]:
        west, south, east, north = self._header.bounds
        if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
            self._context.warning(
                "its bounds are empty or outside the world, the whole world is published",
                "write the bounds of its tiles in the header",
            )
            return -180.0, -90.0, 180.0, 90.0
        return self._header.bounds

    def _maker(self, zoom: int, match: Match, is_vector: bool) -> MakeReader:
        place = match.places[str(zoom)]
        coding = self._header.tile_coding
        # Tiles in gzip are sent as they are.
        return partial(
            PMTilesReader,
            storage=self._source.storage,
            indices=self._context.indices,
            key=self._source.key,
            kind=self._header.kind,
            loaded=self._loaded,
            zoom=zoom,
            shift=(place.rows, place.columns),
            coding=coding if is_vector and coding in ("br", "zstd") else "",
        )

    def _report(
        self,
        header: Header,
        tile_format: TileFormat,
        raster: RasterSpecification | None,
        match: Match,
        zooms: range,
        tables: list[VectorTable],
    ) -> tuple[str, ...]:
        content = (
            f"tables {', '.join(one.table.name for one in tables) or 'unknown'}"
            if raster is None
            else f"{raster.channels} channels"
        )
        return (
            f"PMTiles 3, {tile_format.media_type}, {content}",
            f"zooms {zooms[0]} to {zooms[-1]} in {match.tile_matrix_set.id}",
            "tiles are sent as they are stored",
        )


def _limits(zoom: int, bounds: tuple[float, float, float, float]) -> TileLimits:
    """Return the tiles of a zoom that meet a box in degrees, as writers of archives do."""
    west, south, east, north = bounds
    count = 1 << zoom

    def column(longitude: float) -> float:
        return (longitude + 180.0) / 360.0 * count

    def row(latitude: float) -> float:
        radians = math.radians(max(-_EDGE, min(_EDGE, latitude)))
        return (1.0 - math.asinh(math.tan(radians)) / math.pi) / 2.0 * count

    def within(value: float) -> int:
        return max(0, min(count - 1, math.floor(value)))

    # Bounds are rounded to 7 decimals: tiles whose edge they touch belong to them.
    slack = count * 1e-7 / 360.0
    return TileLimits(
        within(row(north) - slack),
        within(row(south) + slack),
        within(column(west) - slack),
        within(column(east) + slack),
    )
