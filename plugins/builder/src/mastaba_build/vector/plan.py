"""The plan of a vector pyramid: the slabs of an archive, and the tables in its tiles."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mastaba.api.catalogue import TileLimits, TileMatrix
from mastaba_build.config.configuration import AUTO, Configuration, SourceOptions
from mastaba_build.errors import PlanError, SourceError
from mastaba_build.plan.levels import Level
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.plan.software import VECTOR, installed
from mastaba_build.samples import PixelType
from mastaba_build.sources.identity import Origin, identity_of_files
from mastaba_build.sources.sets import load_set
from mastaba_build.vector.archives import Block, Metadata, check_format
from mastaba_build.vector.formats import open_archive
from mastaba_build.vector.tables import needs_survey, survey, tables_of
from mastaba_server.web.parameters import whole_number

FORMAT = "TIFF_PBF_MVT"
_ENDS = (".mbtiles", ".pmtiles")
_WORLD = 40075016.685578488
_SAMPLED = 200
"""Tiles that are read to learn what the metadata do not say."""
_RASTER_ONLY = ("channels", "nodata", "interpolation", "masks", "empty_tiles")
_RASTER_SOURCE = ("order", "nodata", "tolerance", "bands", "scale", "crs")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VectorPlan(Plan):
    """A build that imports tiles.

    Attributes:
        archive: path of the archive.
        blocks: by slab.
        level_tables: tables by level id.
        description: abstract of the layer.
        attribution: title and URL of the source of the data, if known.
        dropped: zooms at which tippecanoe has dropped features.
    """

    archive: str
    blocks: dict[SlabKey, Block]
    level_tables: dict[str, list[dict[str, Any]]]
    description: str
    attribution: dict[str, str] | None
    dropped: tuple[int, ...]

    @property
    def is_vector(self) -> bool:
        return True

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.dropped:
            return ()
        zooms = ", ".join(map(str, self.dropped))
        return (f"tippecanoe has dropped features at zoom {zooms}, to keep tiles small",)

    def layer_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"abstract": self.description}
        if self.attribution is not None:
            fields["attribution"] = self.attribution
        return fields

    def slabs(self, level: int) -> Iterator[SlabKey]:
        yield from sorted(slab for slab in self.blocks if slab.level == level)

    def described(self, slab: SlabKey) -> list[Any]:
        return [asdict(origin) for origin in self.origins]

    def tables(self, level: str) -> list[dict[str, Any]]:
        return self.level_tables[level]


def make_vector_plan(configuration: Configuration) -> VectorPlan:
    """Return the plan of a configuration whose source is an archive of vector tiles.

    Raises:
        PlanError: the archive, the tile matrix set or an option does not fit.
    """
    check_options(configuration)
    if len(configuration.sources) != 1:
        raise PlanError("vector tiles: name one archive; tile-join merges several")
    path = str(Path(configuration.sources[0].path).absolute())
    origins = (Origin(path, archive_identity(path)),)
    return plan_of_archive(configuration, path, origins)


def plan_of_archive(
    configuration: Configuration, path: str, origins: tuple[Origin, ...]
) -> VectorPlan:
    """Return the plan that imports an archive.

    Args:
        origins: on which the identity of the plan depends, instead of on the archive.

    Raises:
        PlanError: as in `make_vector_plan`.
    """
    tile_matrix_set, document = load_set(
        configuration.tile_matrix_set,
        configuration.tile_matrix_sets,
        configuration.access.plugins,
    )
    archive = open_archive(path)
    try:
        found = list(archive.blocks(*configuration.slab))
        first, last = _zooms(configuration, found, path)
        metadata = archive.metadata()
        check_format(metadata, path)
        scanned = configuration.scan_attributes
        tiles = archive.all_tiles()
        if not scanned:
            tiles = islice(tiles, _SAMPLED if needs_survey(metadata) else 0)
        tables = tables_of(metadata, (first, last), survey(tiles), counted=scanned)
    except SourceError as error:
        raise PlanError(_named(path, error)) from None
    finally:
        archive.close()
    levels: list[Level] = []
    blocks: dict[SlabKey, Block] = {}
    for zoom in range(last, first - 1, -1):
        inside = [block for block in found if block.zoom == zoom]
        if not inside:
            continue
        matrix = tile_matrix_set.matrices.get(str(zoom))
        if matrix is None or not _is_web_mercator(matrix, zoom):
            raise PlanError(
                f"zoom {zoom} of {path} is not a level of {tile_matrix_set.id}; use a set of the "
                "Web Mercator quad tree whose levels have the names 0, 1, 2..., such as PM"
            )
        limits = TileLimits(
            min(block.rows[0] for block in inside),
            max(block.rows[1] for block in inside),
            min(block.columns[0] for block in inside),
            max(block.columns[1] for block in inside),
        )
        blocks |= {SlabKey(len(levels), block.column, block.row): block for block in inside}
        levels.append(Level(matrix, limits, factor=0))
    level_tables = {
        level.matrix.id: [
            table.document
            for table in tables
            if table.zooms[0] <= int(level.matrix.id) <= table.zooms[1]
        ]
        for level in levels
    }
    software = installed(VECTOR)
    described = {
        "version": 1,
        "name": configuration.name,
        "slab": configuration.slab,
        "path_depth": configuration.path_depth,
        "tile_matrix_set": document,
        "levels": [(level.matrix.id, asdict(level.limits)) for level in levels],
        "tables": level_tables,
        "sources": [asdict(origin) for origin in origins],
        "software": software,
    }
    text = json.dumps(described, sort_keys=True)
    return VectorPlan(
        configuration,
        tile_matrix_set.crs,
        document,
        PixelType(FORMAT, 0, ()),
        PixelType(FORMAT, 0, ()),
        None,
        "none",
        tuple(levels),
        (),
        (),
        software,
        hashlib.sha256(text.encode()).hexdigest(),
        configuration.name,
        archive=path,
        origins=origins,
        blocks=blocks,
        level_tables=level_tables,
        description=_description(metadata),
        attribution=_attribution(metadata),
        dropped=_dropped(metadata),
    )


def archive_identity(path: str) -> str:
    """Return a text that changes with the size or the time of an archive, or of a file in it.

    Raises:
        PlanError: it does not exist.
    """
    place = Path(path)
    if not place.exists():
        raise PlanError(f"{path}: does not exist")
    return identity_of_files([path, *(str(file) for file in place.rglob("*"))])


def check_options(configuration: Configuration) -> None:
    """Check that no option is given that only fits images.

    Raises:
        PlanError: one is.
    """
    if configuration.format.upper() not in ("AUTO", "MVT", FORMAT):
        raise PlanError(f"format {configuration.format!r}: vector tiles cannot be converted")
    defaults = Configuration("", configuration.output, ())
    for name in _RASTER_ONLY:
        if getattr(configuration, name) != getattr(defaults, name):
            raise PlanError(f"{name}: has no meaning for vector tiles; remove it")
    for source in configuration.sources:
        for name in _RASTER_SOURCE:
            if getattr(source, name) != getattr(SourceOptions(source.path), name):
                raise PlanError(f"{source.path}: {name} has no meaning for vector tiles; remove it")


def _zooms(configuration: Configuration, found: list[Block], path: str) -> tuple[int, int]:
    """Return the first and the last zoom to import."""
    if not found:
        raise PlanError(f"{path}: contains no tiles")
    for block in found:
        last = (1 << block.zoom) - 1
        if min(block.rows[0], block.columns[0]) < 0 or max(block.rows[1], block.columns[1]) > last:
            raise PlanError(
                f"{path}: has tiles outside zoom {block.zoom}: rows {block.rows[0]} to "
                f"{block.rows[1]}, columns {block.columns[0]} to {block.columns[1]}"
            )
    zooms = [block.zoom for block in found]
    edges = []
    for name, default in (("top", min(zooms)), ("bottom", max(zooms))):
        value = getattr(configuration, name)
        zoom = default if value == AUTO else whole_number(value)
        if zoom is None:
            raise PlanError(f"{name} {value!r} is not a zoom")
        edges.append(zoom)
    first, last = edges
    if not any(first <= zoom <= last for zoom in zooms):
        raise PlanError(f"{path}: has zooms {min(zooms)} to {max(zooms)}, not {first} to {last}")
    return max(first, min(zooms)), min(last, max(zooms))


def _description(metadata: Metadata) -> str:
    """Return the description, unless it is a path: tippecanoe writes that of its output."""
    text = str(metadata.get("description") or "").strip()
    is_path = text.lower().endswith(_ENDS) or (text == metadata.get("name") and os.sep in text)
    return "" if is_path or os.path.isabs(text) else text


def _attribution(metadata: Metadata) -> dict[str, str] | None:
    """Return the attribution, which is HTML, if it contains a link."""
    text = str(metadata.get("attribution") or "")
    link = re.search(r"""href\s*=\s*["']?(https?://[^"'\s>]+)""", text)
    title = html.unescape(re.sub(r"<[^<>]*>", "", text)).strip()
    return {"title": title, "url": html.unescape(link[1])} if link and title else None


def _dropped(metadata: Metadata) -> tuple[int, ...]:
    """Return the zooms at which features were dropped, from the metadata of tippecanoe."""
    found = metadata.get("strategies")
    if isinstance(found, str):
        with suppress(ValueError, RecursionError):
            found = json.loads(found)
    if not isinstance(found, list):
        return ()
    return tuple(
        zoom
        for zoom, strategy in enumerate(found)
        if isinstance(strategy, dict) and any(name.startswith("dropped") for name in strategy)
    )


def _is_web_mercator(matrix: TileMatrix, zoom: int) -> bool:
    width = _WORLD / (1 << zoom)
    return (
        abs(matrix.cell_size * matrix.tile_width - width) < 1e-6 * width
        and abs(matrix.cell_size * matrix.tile_height - width) < 1e-6 * width
        and abs(matrix.origin_x + _WORLD / 2) < 1e-6 * _WORLD
        and abs(matrix.origin_y - _WORLD / 2) < 1e-6 * _WORLD
    )


def _named(path: str, error: SourceError) -> str:
    text = str(error)
    return text if text.startswith(path) else f"{path}: {text}"
