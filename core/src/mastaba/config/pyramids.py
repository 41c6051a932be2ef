"""Pyramid descriptors (pyramid.md section 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

from mastaba.config.documents import DocumentReader
from mastaba.config.resources import LoadedOnce, ResourceLoader
from mastaba.containers.base import MakeReader, OpenedContainer
from mastaba.containers.index_cache import IndexCache
from mastaba.errors import MastabaError
from mastaba.model.bbox import BoundingBox
from mastaba.model.digest import digest_of
from mastaba.model.format import MASK_FORMAT, TILE_FORMATS, TileFormat
from mastaba.model.pyramid import Attribute, Level, Pyramid, RasterSpecification, Table, Update
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet
from mastaba.slab.layout import PathLayout, PrefixLayout
from mastaba.slab.reader import LevelReader
from mastaba_documents.faults import FileFaults, UnusableError
from mastaba_storage.path import ResourcePath

_shared_limits = lru_cache(maxsize=4096)(TileLimits)


class PyramidLoader(LoadedOnce[ResourcePath, OpenedContainer]):
    """Loader of descriptors; each is loaded once, however many layers use it."""

    def __init__(
        self,
        tile_matrix_sets: ResourceLoader[TileMatrixSet],
        reader: DocumentReader,
        indices: IndexCache,
    ) -> None:
        super().__init__()
        self._tile_matrix_sets = tile_matrix_sets
        self._reader = reader
        self._indices = indices

    def _load(self, key: ResourcePath, named_by: str) -> OpenedContainer:
        document, file = self._reader.document(key, named_by), str(key)
        generation = digest_of(document)
        if isinstance(document, dict) and document.get("format") == "TIFF_PBF_MVT":
            document.pop("raster_specifications", None)  # ignored there, valid or not
        document = self._reader.validated(document, "pyramid", file)
        faults = FileFaults(self._reader.faults, file)
        tile_format = TILE_FORMATS[document["format"]]
        named_by = f"tile_matrix_set of {file}"
        tile_matrix_set = self._tile_matrix_sets.get(document["tile_matrix_set"], named_by)
        raster = None
        if not tile_format.is_vector:
            raster = _raster(document["raster_specifications"], tile_format, faults)
        levels: dict[str, Level] = {}
        readers: dict[str, MakeReader] = {}
        for position, entry in enumerate(document["levels"]):
            identifier, at = entry["id"], f"$.levels[{position}]"
            if identifier in levels:
                faults.error(f"{at}.id", f"duplicate level {identifier!r}", "remove one of them")
                continue
            with faults.attempt():
                levels[identifier] = _level(entry, tile_matrix_set, at, faults)
            with faults.attempt():
                place = entry["storage"]
                if document.get("mask_format") != MASK_FORMAT:
                    place = {name: place[name] for name in place if not name.startswith("mask_")}
                readers[identifier] = self._slabs(place, key, f"{at}.storage", faults)
        update = document.get("update", {})
        area = BoundingBox(*update["bbox"]) if update else None
        if area and (area.xmin > area.xmax or area.ymin > area.ymax):
            faults.error("$.update.bbox", "a minimum is above its maximum", "correct the box")
        faults.require_usable()
        pyramid = Pyramid(
            key.stem,
            tile_matrix_set,
            tile_format,
            raster,
            coarse_to_fine(levels),
            generation,
            Update(update["since"], area) if area else None,
        )
        return OpenedContainer(pyramid, readers)

    def _slabs(
        self, document: dict[str, Any], descriptor: ResourcePath, at: str, faults: FileFaults
    ) -> MakeReader:
        name = document["type"].lower()
        pool = self._reader.pool
        try:
            driver = pool.driver(name)
        except MastabaError as error:
            faults.refuse(f"{at}.type", str(error), "install it")
        field = driver.container_field
        required = ("image_directory", "path_depth") if field is None else (field, "image_prefix")
        missing = [key for key in required if key not in document]
        for key in missing:
            faults.error(f"{at}.{key}", f"is missing for storage {document['type']}", "add it")
        if missing:
            raise UnusableError
        beside = descriptor.container if descriptor.storage == name else None
        try:
            storage = pool.open_beside(name, document[field] if field else "", beside)
        except (MastabaError, ValueError) as error:
            faults.refuse(at, str(error), "see the documentation of this storage")
        if field is None:

            def in_directory(text: str) -> partial[LevelReader]:
                directory = _image_directory(text, descriptor)
                return partial(
                    LevelReader,
                    layout=PathLayout(directory, int(document["path_depth"])),
                    storage=pool.at(directory, storage),
                    indices=self._indices,
                )

            masks = document.get("mask_directory")
            readers = in_directory(document["image_directory"])
            return partial(readers, masks=in_directory(masks)) if masks else readers
        objects = partial(
            LevelReader,
            storage=storage,
            indices=self._indices,
            # Symbolic objects name other containers; links of files are left to the system.
            open_container=lambda other: pool.open_beside(name, other, storage.container),
        )
        masks = document.get("mask_prefix")
        return partial(
            objects,
            layout=PrefixLayout(document["image_prefix"]),
            packs=PrefixLayout(document["index_prefix"]) if "index_prefix" in document else None,
            masks=partial(objects, layout=PrefixLayout(masks)) if masks else None,
        )


def coarse_to_fine(levels: Mapping[str, Level]) -> Mapping[str, Level]:
    """Return levels by tile matrix identifier, the one with the largest cells first."""
    ordered = sorted(levels.values(), key=lambda level: -level.matrix.cell_size)
    return MappingProxyType({level.matrix.id: level for level in ordered})


def _image_directory(text: str, descriptor: ResourcePath) -> str:
    """Return the directory of slabs; a relative one starts at the descriptor's directory."""
    text = text.removesuffix("/") or "/"
    if text.startswith("/"):
        return text
    return f"{descriptor.directory}/{text.removeprefix('./')}"


def _raster(
    document: dict[str, Any], tile_format: TileFormat, faults: FileFaults
) -> RasterSpecification:
    channels, at = int(document["channels"]), "$.raster_specifications"
    if channels not in tile_format.channels:
        remedy = f"use one of {', '.join(map(str, tile_format.channels))}"
        reason = f"{tile_format.name} cannot have {channels} channels"
        faults.refuse(f"{at}.channels", reason, remedy)
    text, at = document["nodata"], f"{at}.nodata"
    values = [value.strip() for value in text.split(",")]
    if len(values) < channels:
        remedy = "write one value for each channel, separated by commas"
        faults.refuse(at, f"{len(values)} values for {channels} channels", remedy)
    try:
        nodata = tuple(float(value) if value else 255.0 for value in values[:channels])
    except ValueError:
        nodata = (math.nan,)
    if not all(map(math.isfinite, nodata)):
        faults.refuse(at, f"{text!r} are not numbers", "write numbers")
    if tile_format.sample == "uint8" and not all(value in range(256) for value in nodata):
        reason = f"{text!r} has values that do not fit into 8 bits, the nearest ones are used"
        faults.warning(at, reason, "write integers from 0 to 255")
        nodata = tuple(min(255.0, max(0.0, round(value))) for value in nodata)
    registration = document.get("registration", "area")
    return RasterSpecification(channels, nodata, document["photometric"].lower(), registration)


def _level(
    document: dict[str, Any], tile_matrix_set: TileMatrixSet, at: str, faults: FileFaults
) -> Level:
    matrix = tile_matrix_set.matrices.get(document["id"])
    if matrix is None:
        reason = f"{document['id']!r} is not a matrix of {tile_matrix_set.id}"
        faults.refuse(f"{at}.id", reason, "correct the id, or the tile matrix set")
    limits = _limits(document["tile_limits"], matrix)
    if limits.min_row > limits.max_row or limits.min_col > limits.max_col:
        faults.refuse(f"{at}.tile_limits", "a minimum is above its maximum", "correct the limits")
    return Level(
        matrix=matrix,
        tiles_per_width=int(document["tiles_per_width"]),
        tiles_per_height=int(document["tiles_per_height"]),
        limits=limits,
        tables=tuple(_table(table) for table in document.get("tables", ())),
        limits_from=f"{faults.file}: {at}.tile_limits",
    )


def _limits(document: dict[str, int], matrix: TileMatrix) -> TileLimits:
    """Return the limits; a minimum or maximum outside the matrix becomes the matrix edge."""

    def inside(key: str, size: int, edge: int) -> int:
        index = int(document[key])
        return index if 0 <= index < size else edge

    width, height = matrix.matrix_width, matrix.matrix_height
    # Most variants of a layer have the same.
    return _shared_limits(
        inside("min_row", height, 0),
        inside("max_row", height, height - 1),
        inside("min_col", width, 0),
        inside("max_col", width, width - 1),
    )


def _table(document: dict[str, Any]) -> Table:
    return Table(
        document["name"],
        document["geometry"],
        tuple(
            Attribute(
                name=attribute["name"],
                type=attribute["type"],
                count=attribute.get("count"),
                values=tuple(attribute.get("values", ())),
                minimum=attribute.get("min"),
                maximum=attribute.get("max"),
            )
            for attribute in document["attributes"]
        ),
    )
