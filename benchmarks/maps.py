"""Requests for maps, with random extents in the finest level of a layer.

Maps of most classes share tiles, which stay decoded. Those of a cold class are spread over a larger
pyramid, so that nearly every tile has to be read and decoded.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from benchmarks.classes import RequestClass, load
from benchmarks.servers import Missing
from mastaba.catalogue import Catalogue
from mastaba.containers.reader import TileReader
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, transform_points
from mastaba.model.format import Codec
from mastaba.model.layer import Layer
from mastaba.model.tile_matrix_set import TileLimits
from mastaba_documents.faults import Faults
from mastaba_documents.reading import parse_document
from mastaba_writer.documents import write_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid

RESAMPLINGS = ("linear", "lanczos_2")
WGS84 = "EPSG:4326"
_NATIVE = "EPSG:3857"
_UTM = "UTM"
_STRETCH = 1.3
"""Ground size of a pixel of the map, in pixels of the finest level."""
_REGION = 16
"""Tiles on a side of the region of all maps in a class, so that maps share tiles."""
_SPREAD = 64
"""Tiles on a side of the pyramid of cold classes; the decoded tiles would take 805 MB."""
_SPREAD_SLAB = 16


@dataclass(frozen=True)
class _Kind:
    """Maps of one size, format and CRS."""

    title: str
    width: int
    height: int
    format: str
    crs: str = _NATIVE
    of_elevation: bool = False
    is_cold: bool = False


_KINDS: Mapping[str, _Kind] = {
    "jpeg-256": _Kind("256x256 JPEG", 256, 256, "image/jpeg"),
    "jpeg-512": _Kind("512x512 JPEG", 512, 512, "image/jpeg"),
    "jpeg-256-cold": _Kind("256x256 JPEG, cold", 256, 256, "image/jpeg", is_cold=True),
    "jpeg-512-cold": _Kind("512x512 JPEG, cold", 512, 512, "image/jpeg", is_cold=True),
    "png-512": _Kind("512x512 PNG", 512, 512, "image/png"),
    "jpeg-4326": _Kind("512x512 JPEG 4326", 512, 512, "image/jpeg", WGS84),
    "png-4326": _Kind("512x512 PNG 4326", 512, 512, "image/png", WGS84),
    "png-utm": _Kind("1024x768 PNG UTM", 1024, 768, "image/png", _UTM),
    "elevation": _Kind("512x512 PNG palette", 512, 512, "image/png", of_elevation=True),
}
MAP_CLASSES = tuple(_KINDS)


@dataclass(frozen=True)
class Source:
    """Source pixels of maps, at the finest level.

    Attributes:
        layers: identifier of the layer added for each resampling.
        style: requested style.
        limits: tiles of the region.
    """

    layer: Layer
    layers: Mapping[str, str]
    style: str
    reader: TileReader
    limits: TileLimits

    @property
    def crs(self) -> CRS:
        return self.layer.pyramid.tile_matrix_set.crs

    @property
    def region(self) -> BoundingBox:
        return self.layer.pyramid.finest.matrix.bbox_of(self.limits)

    @property
    def cell_size(self) -> float:
        return self.layer.pyramid.finest.matrix.cell_size


@dataclass(frozen=True)
class MapInstallation:
    """An installation with added layers for maps.

    Attributes:
        root: path of the WMS.
        spread: the tiles of ``pictures``, repeated over a larger area.
        utm: CRS code of the UTM zone of the region.
    """

    server_json: Path
    root: str
    pictures: Source
    elevation: Source | None
    spread: Source
    utm: str

    def sources(self) -> Iterator[Source]:
        yield self.pictures
        if self.elevation is not None:
            yield self.elevation


def with_map_layers(server_json: Path, folder: Path) -> MapInstallation:
    """Write an installation with additional layers over the same pyramids, one per resampling.

    Raises:
        Missing: there is no WMS, or no layer of JPEG tiles in Web Mercator.
    """
    catalogue = load(server_json)
    if "wms" not in catalogue.services:
        raise Missing(f"{server_json} enables no WMS")
    picture = _first(catalogue, codec=Codec.JPEG, sample="uint8")
    if picture is None:
        raise Missing(f"{server_json} has no layer of JPEG tiles in {_NATIVE}")
    pictures = _source(catalogue, picture, "")
    utm = _utm_of(pictures)
    crs = [WGS84, utm]
    folder.mkdir(parents=True, exist_ok=True)
    server = json.loads(server_json.read_text(encoding="utf-8"))
    listed = Path(server["configurations"]["layers"]).read_text(encoding="utf-8").split("\n")
    listed += _add(folder, listed, pictures, extra_crs=crs)
    elevation = None
    layer = _first(catalogue, codec=None, sample="float32")
    if layer is not None:
        style = next(style.identifier for style in layer.styles if style.palette)
        elevation = _source(catalogue, layer, style)
        listed += _add(folder, listed, elevation, extra_crs=crs)
    spread, pyramid = _spread(folder, pictures)
    listed += _add(folder, listed, spread, pyramids=[pyramid])
    layers_txt = folder / "layers.txt"
    layers_txt.write_text("\n".join(line for line in listed if line) + "\n", encoding="utf-8")
    server["configurations"]["layers"] = str(layers_txt)
    written = write_document(folder / "server.json", server)
    root = catalogue.services["wms"].root_path
    return MapInstallation(written, root, pictures, elevation, spread, utm)


def map_classes(
    installation: MapInstallation, *, names: Sequence[str], count: int, seed: int
) -> list[RequestClass]:
    """Return the classes with these names, each kind of map once per resampling."""
    classes: list[RequestClass] = []
    for name in names:
        kind = _KINDS[name]
        source = installation.elevation if kind.of_elevation else installation.pictures
        if kind.is_cold:
            source = installation.spread
        if source is None:
            continue
        crs = CRS.from_code(installation.utm if kind.crs == _UTM else kind.crs)
        for resampling in RESAMPLINGS:
            layer = source.layers[resampling]
            # Each resampling gets the same extents.
            boxes = _extents(source, crs, kind, count, random.Random(seed))
            paths = [
                f"{installation.root}?"
                + get_map(layer, source.style, crs, box, kind.width, kind.height, kind.format)
                for box in boxes
            ]
            title = f"{kind.title} {resampling}"
            classes.append(RequestClass(title, paths, layer=layer, media_type=kind.format))
    return classes


def get_map(
    layer: str, style: str, crs: CRS, box: BoundingBox, width: int, height: int, format: str
) -> str:
    """Return the query of a GetMap request of WMS 1.3.0."""
    corners = (box.xmin, box.ymin, box.xmax, box.ymax)
    if crs.northing_first:
        corners = (box.ymin, box.xmin, box.ymax, box.xmax)
    return (
        f"SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={quote(layer)}&STYLES={quote(style)}"
        f"&CRS={crs.code}&BBOX={','.join(f'{corner:.9g}' for corner in corners)}"
        f"&WIDTH={width}&HEIGHT={height}&FORMAT={quote(format, safe='/;')}"
    )


def box_around(
    source: CRS, x: float, y: float, crs: CRS, width: float, height: float
) -> BoundingBox:
    """Return a box of the given size in ``crs`` around a point in ``source``."""
    tx, ty = transform_points(source, crs, np.array([x]), np.array([y]))
    cx, cy = float(tx[0]), float(ty[0])
    return BoundingBox(cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2)


def units_of(source: CRS, target: CRS) -> float:
    """Return the length of one unit of ``source`` in units of ``target``, on the equator."""
    return source.metres_per_unit / target.metres_per_unit


def _extents(
    source: Source, crs: CRS, kind: _Kind, count: int, generator: random.Random
) -> Iterator[BoundingBox]:
    # Degrees are measured on the equator, like those of a client that draws square degrees. Away
    # from it, such pixels are higher than wide in Web Mercator.
    size = _STRETCH * source.cell_size * units_of(source.crs, crs)
    if not crs.is_geographic and crs != source.crs:
        size *= math.cos(math.radians(_middle(source)[1]))
    width, height = kind.width * size, kind.height * size
    region = source.region
    middle_x, middle_y = (region.xmin + region.xmax) / 2, (region.ymin + region.ymax) / 2
    # The area of the pyramid that a map covers, to keep maps inside the region.
    footprint = box_around(source.crs, middle_x, middle_y, crs, width, height)
    footprint = crs.transform_bbox(footprint, source.crs)
    room_x = max(0.0, region.xmax - region.xmin - (footprint.xmax - footprint.xmin)) / 2
    room_y = max(0.0, region.ymax - region.ymin - (footprint.ymax - footprint.ymin)) / 2
    for _ in range(count):
        x = middle_x + generator.uniform(-room_x, room_x)
        y = middle_y + generator.uniform(-room_y, room_y)
        yield box_around(source.crs, x, y, crs, width, height)


def _first(catalogue: Catalogue, *, codec: Codec | None, sample: str) -> Layer | None:
    """Return the layer of this kind (three channels or one) with most tiles at its finest level."""
    found = [
        layer
        for layer in catalogue.layers.values()
        if layer.pyramid.tile_matrix_set.crs.code == _NATIVE
        and layer.pyramid.raster is not None
        and layer.pyramid.format.sample == sample
        and layer.pyramid.format.codec is (codec or layer.pyramid.format.codec)
        and layer.pyramid.raster.channels == (1 if codec is None else 3)
        and (codec is not None or any(style.palette for style in layer.styles))
    ]
    return max(found, key=lambda layer: _count(layer.pyramid.finest.limits), default=None)


def _count(limits: TileLimits) -> int:
    return (limits.max_row - limits.min_row + 1) * (limits.max_col - limits.min_col + 1)


def _source(catalogue: Catalogue, layer: Layer, style: str) -> Source:
    level = layer.pyramid.finest
    limits = level.limits
    around = _around(limits, _REGION)
    names = {name: f"{layer.id}-{name}" for name in RESAMPLINGS}
    reader = catalogue.readers[layer.id][level.matrix.id]
    return Source(layer, names, style, reader, around.intersection(limits) or limits)


def _spread(folder: Path, source: Source) -> tuple[Source, Mapping[str, str]]:
    """Write a pyramid that repeats the finest level of a source, byte for byte.

    Returns:
        the pyramid as a source, and its entry in a layer document.
    """
    level, limits = source.layer.pyramid.finest, source.reader.level.limits
    matrix, tile_matrix_set = level.matrix, source.layer.pyramid.tile_matrix_set
    height, width = limits.max_row - limits.min_row + 1, limits.max_col - limits.min_col + 1

    def tile(_level: str, row: int, col: int) -> bytes | None:
        found = source.reader.locate(limits.min_row + row % height, limits.min_col + col % width)
        return None if found is None else found.read()

    name = f"{source.layer.id}-spread"
    area = _around(limits, _SPREAD)
    plan = LevelPlan(matrix.id, area.min_row, area.max_row, area.min_col, area.max_col)
    size = {"id": matrix.id, "tileWidth": matrix.tile_width, "tileHeight": matrix.tile_height}
    path = write_pyramid(
        folder,
        name,
        tile_matrix_set={"id": tile_matrix_set.id, "tileMatrices": [size]},
        format=source.layer.pyramid.format.name,
        levels=[plan],
        tile=tile,
        tiles_per_width=_SPREAD_SLAB,
        tiles_per_height=_SPREAD_SLAB,
    )
    names = {resampling: f"{name}-{resampling}" for resampling in RESAMPLINGS}
    entry = {"path": str(path), "bottom_level": matrix.id, "top_level": matrix.id}
    return Source(source.layer, names, source.style, source.reader, area), entry


def _around(limits: TileLimits, size: int) -> TileLimits:
    """Return the limits of some tiles on each side around the middle of others."""
    row = (limits.min_row + limits.max_row + 1) // 2 - size // 2
    col = (limits.min_col + limits.max_col + 1) // 2 - size // 2
    return TileLimits(row, row + size - 1, col, col + size - 1)


def _middle(source: Source) -> tuple[float, float]:
    """Return the longitude and latitude of the middle of the region."""
    region = source.region
    middle = (region.xmin + region.xmax) / 2, (region.ymin + region.ymax) / 2
    box = box_around(source.crs, *middle, CRS.from_code("CRS:84"), 0, 0)
    return box.xmin, box.ymin


def _utm_of(source: Source) -> str:
    longitude, latitude = _middle(source)
    zone = min(60, int((longitude + 180) // 6) + 1)
    return f"EPSG:{(32600 if latitude >= 0 else 32700) + zone}"


def _add(folder: Path, listed: Sequence[str], source: Source, **fields: Any) -> list[str]:
    """Write a layer for each resampling; return their paths."""
    original = next((line for line in listed if Path(line.strip()).stem == source.layer.id), None)
    if original is None:
        raise Missing(f"the layer {source.layer.id} is not in the list of layers")
    text = Path(original.strip()).read_text(encoding="utf-8")
    document = parse_document(text, original.strip(), Faults())
    # One pyramid, whatever the time.
    document = {key: document[key] for key in document.keys() - {"dimensions", "variants"}}
    return [
        str(
            write_document(
                folder / "layers" / f"{name}.json",
                {**document, **fields, "resampling": resampling},
            )
        )
        for resampling, name in source.layers.items()
    ]
