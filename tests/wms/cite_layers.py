"""The layers that the dimension groups of the WMS 1.3.0 suite need (docs/conformance.md).

Places and times are those of the test data of the suite; the pictures are drawn here. Run as a
program, it writes an installation for the suite: ``python -m tests.wms.cite_layers FOLDER URL``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from rasterio.features import rasterize

from mastaba_writer.documents import Document
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

CELL = 0.00002
EDGE = 256 * CELL
"""Degrees from the origin to each side of the set of vector layers."""
TERRAIN_CELLS = 600
CITE = synthetic(
    "CITE",
    crs="EPSG:4326",
    origin=(-EDGE, EDGE),
    cell_sizes=[CELL],
    matrix_sizes=[(2, 2)],
    geographic=True,
)
TERRAIN = synthetic(
    "TERRAIN",
    crs="EPSG:4326",
    origin=(-0.5, 0.5),
    cell_sizes=[1 / TERRAIN_CELLS],
    matrix_sizes=[(3, 3)],
    geographic=True,
)
SETS = {"CITE": CITE, "TERRAIN": TERRAIN}
AUTOS: Mapping[str, Sequence[tuple[float, float]]] = {
    "2000-01-01T00:00:00Z": [(-0.0014, 0.0002)],
    "2000-01-01T00:00:05Z": [(-0.0022, 0.0)],
    "2000-01-01T00:00:10Z": [(-0.0029, -0.0002)],
    "2000-01-01T00:00:15Z": [(-0.0032, -0.0004)],
    "2000-01-01T00:00:20Z": [(-0.0032, -0.0008), (-0.0032, 0.0022)],
    "2000-01-01T00:00:25Z": [(-0.0032, -0.0014), (-0.0032, 0.0012)],
    "2000-01-01T00:00:30Z": [(-0.0032, -0.0022), (-0.0032, 0.0002)],
    "2000-01-01T00:00:35Z": [(-0.0032, -0.0008)],
    "2000-01-01T00:00:40Z": [(-0.0032, -0.0018), (-0.0026, -0.0020)],
    "2000-01-01T00:00:45Z": [(-0.0026, -0.0012)],
    "2000-01-01T00:00:50Z": [(-0.0026, -0.0004)],
    "2000-01-01T00:00:55Z": [(-0.0026, 0.0004), (0.0029, 0.0019)],
    "2000-01-01T00:01:00Z": [(-0.0026, 0.0012), (0.0028, 0.0014)],
}
"""Longitudes and latitudes of the cars at each time."""
LAKES: Mapping[str, Sequence[tuple[float, float]]] = {
    "500": [(0.0006, -0.0018), (0.0010, -0.0006), (0.0024, -0.0001), (0.0031, -0.0015)],
    "490": [
        *((0.0010, -0.0016), (0.0012, -0.0006), (0.0016, -0.0005), (0.0016, -0.0012)),
        *((0.0024, -0.0012), (0.0024, -0.0014)),
    ],
    "480": [(0.0011, -0.0015), (0.0013, -0.0007), (0.0015, -0.0007), (0.0015, -0.0013)],
}
"""Corners of the lake at each elevation."""
ISLAND = [(0.0017, -0.0011), (0.0025, -0.0011), (0.0025, -0.0006), (0.0017, -0.0006)]
KEYWORDS = ["elevation", "time"]
RECORD = {"format": "text/xml", "type": "ISO19115:2003", "url": "https://example.org/record.xml"}
OTHERS = ("cite:BasicPolygons", "cite:DividedRoutes", "cite:RoadSegments", "cite:Streams")
CONTACT = {"name": "Mapping agency", "voice": "+33 1 23 45 67 89"}

Paint = Callable[[ImageDraw.ImageDraw], object]


def terrain() -> NDArray[np.float32]:
    """Return heights of 600 x 600 cells, high in the upper left and low in the lower right."""
    row, column = np.mgrid[:TERRAIN_CELLS, :TERRAIN_CELLS]
    heights = (334 - (row + column) * 133 / (2 * TERRAIN_CELLS)).round()
    heights[:150, :150] = 336 + row[:150, :150] * 89 // 149
    heights[450:, 450:] = row[450:, 450:] // 3
    return heights.astype(np.float32)


def _picture(folder: Path, name: str, paint: Paint) -> dict[str, Any]:
    """Write a pyramid with something painted on transparent ground; return its entry."""
    image = Image.new("RGBA", (512, 512))
    paint(ImageDraw.Draw(image))
    return _pyramid(folder, name, np.asarray(image), CITE)


def _pyramid(folder: Path, name: str, pixels: NDArray[Any], grid: Document) -> dict[str, Any]:
    is_bytes = pixels.dtype == np.uint8
    count = grid["tileMatrices"][0]["matrixWidth"]
    size = 256 * count
    whole = np.full((size, size, *pixels.shape[2:]), 0 if is_bytes else -99999, pixels.dtype)
    whole[: len(pixels), : pixels.shape[1]] = pixels

    def tile(_level: str, row: int, col: int) -> Any:
        return whole[256 * row : 256 * row + 256, 256 * col : 256 * col + 256]

    path = write_pyramid(
        folder / "pyramids",
        name,
        tile_matrix_set=grid,
        format="TIFF_PNG_UINT8" if is_bytes else "TIFF_ZIP_FLOAT32",
        channels=4 if is_bytes else 1,
        levels=[LevelPlan("0", 0, count - 1, 0, count - 1)],
        tile=tile,
        tables=(),
    )
    return dict(layer_document(path, tile_matrix_sets=SETS))


def _at(place: tuple[float, float]) -> tuple[float, float]:
    return (place[0] + EDGE) / CELL, (EDGE - place[1]) / CELL


def _cars(places: Sequence[tuple[float, float]]) -> Paint:
    def paint(draw: ImageDraw.ImageDraw) -> None:
        for place in places:
            x, y = _at(place)
            draw.rectangle((x - 3, y - 3, x + 2, y + 2), fill=(200, 0, 0, 255))

    return paint


def _lake(corners: Sequence[tuple[float, float]], *, island: bool) -> Paint:
    # Pixels whose centres are inside; draw.polygon() would paint those on the shore too.
    rings = [[*(_at(one) for one in ring), _at(ring[0])] for ring in (corners, ISLAND)]
    shape = {"type": "Polygon", "coordinates": rings if island else rings[:1]}
    inside = rasterize([shape], (512, 512), dtype="uint8")

    def paint(draw: ImageDraw.ImageDraw) -> None:
        draw.bitmap((0, 0), Image.fromarray(inside * 255), fill=(0, 0, 200, 255))

    return paint


def _series(values: Mapping[str, dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [
        {"at": {name: text}, "pyramids": [{"path": one["pyramids"][0]["path"]}]}
        for text, one in values.items()
    ]


def layers(folder: Path) -> dict[str, dict[str, Any]]:
    """Write the pyramids, and return the descriptors of the layers."""
    autos = {
        time: _picture(folder, f"autos_{number}", _cars(places))
        for number, (time, places) in enumerate(AUTOS.items())
    }
    lakes = {
        text: _picture(folder, f"lakes_{text}", _lake(corners, island=text == "500"))
        for text, corners in LAKES.items()
    }
    heights = terrain()
    ground = _pyramid(folder, "terrain", heights, TERRAIN)
    metres = {"name": "elevation", "units": "CRS:88", "unit_symbol": "m"}
    basic = _picture(folder, "basic", _cars([(0.0, 0.0)]))
    found = {
        "cite:Autos": {
            **list(autos.values())[-1],
            "dimensions": [{"name": "time", "nearest": True}],
            "variants": _series(autos, "time"),
        },
        "cite:Lakes": {
            **lakes["500"],
            "dimensions": [{**metres, "default": "500", "nearest": True, "multiple": False}],
            "variants": _series(lakes, "elevation"),
        },
        "cite:Terrain": {
            **ground,
            "dimensions": [
                {**metres, "of": "pixels", "values": "0/425/1", "default": "0/425"},
            ],
        },
        **{name: dict(basic) for name in OTHERS},
    }
    for name, document in found.items():
        document.update(
            title=name,
            abstract=f"Test data {name}",
            keywords=KEYWORDS,
            metadata=[RECORD],
            resampling="nn",
        )
    return found


def write(folder: Path, url: str | None = None) -> Path:
    """Write an installation, and return its server.json."""
    overrides: dict[str, Any] = {
        "wms": {"keywords": KEYWORDS},
        "global": {
            "contact": CONTACT,
            "map": {
                "reprojection": True,
                "crs": ["EPSG:4326"],
                "limits": {"layers_count": 20, "width": 1024, "height": 1024},
            },
        },
    }
    if url is not None:
        overrides["wms"]["endpoint_uri"] = f"{url}/wms"
    return write_installation(
        folder,
        layers=layers(folder),
        services=("wms",),
        services_overrides=overrides,
        tile_matrix_sets=SETS,
    )


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), sys.argv[2]))
