"""An installation whose layer shows an area, twice: the second has other pixels outside of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from tests.render.areas.truth import Polygons, certain, geojson
from werkzeug.test import Client, TestResponse

from mastaba.site.application import Application
from mastaba.wsgi import create_application
from mastaba_render.api.areas import Area, Cut, masked_readers, narrowed
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

Pixels = npt.NDArray[Any]

TILE = 64
HALF = 20037508.342789244
SET = synthetic(
    "SMALL",
    crs="EPSG:3857",
    origin=(-HALF, HALF),
    cell_sizes=[2 * HALF / TILE / 2**level for level in range(11)],
    matrix_sizes=[(2**level, 2**level) for level in range(11)],
    tile_size=(TILE, TILE),
)
LAMBERT = synthetic(
    "LAMB",
    crs="EPSG:2154",
    origin=(450000, 6900000),
    cell_sizes=[1600, 800, 400],
    matrix_sizes=[(4, 4), (8, 8), (16, 16)],
    tile_size=(TILE, TILE),
)
LEVELS = (
    LevelPlan("8", 88, 90, 128, 130),
    LevelPlan("9", 177, 180, 256, 259),
    LevelPlan("10", 354, 361, 512, 519),
)
FORMATS = {
    "TIFF_RAW_FLOAT32": 1,
    "TIFF_ZIP_FLOAT32": 1,
    "TIFF_LZW_UINT8": 3,
    "TIFF_PNG_UINT8": 4,
    "TIFF_JPG_UINT8": 3,
    "TIFF_PKB_UINT8": 1,
}
"""And numbers of channels."""
KINDS = {
    "RAW_FLOAT32": ("bil", "image/x-bil;bits=32"),
    "ZIP_FLOAT32": ("zbil", "image/x-bil;bits=32"),
    "LZW_UINT8": ("tif", "image/tiff"),
    "PNG_UINT8": ("png", "image/png"),
    "JPG_UINT8": ("jpg", "image/jpeg"),
    "PKB_UINT8": ("tif", "image/tiff"),
}
"""File name extensions and media types of tiles."""
STYLES = {
    name: {"identifier": name, "title": name, "abstract": "", "keywords": [], **processing}
    for name, processing in {
        "normal": {},
        "slope": {"pente": {}},
        "aspect": {"exposition": {}},
        "shade": {"estompage": {}},
    }.items()
}
BOXES = {
    "EPSG:3857": "20000,5900000,290000,6200000",
    "EPSG:2154": "460000,6640000,650000,6830000",
    "EPSG:3035": "3480000,2700000,3700000,2930000",
    "CRS:84": "0.1,46.5,2.7,48.6",
    # With the latitude first, and as seen from elsewhere.
    "EPSG:4326": "46.5,0.1,48.6,2.7",
    "EPSG:27700": "500000,-360000,760000,-70000",
    "EPSG:3995": "-100000,-4900000,200000,-4600000",
}
EPSG = "http://www.opengis.net/def/crs/EPSG/0"
WHOLE = [[0.1, 46.6], [2.6, 46.6], [2.6, 48.5], [0.1, 48.5]]
SERVICES = ("wms", "wmts", "tms", "ogcapi", "wcs", "viewer")
OF_HEIGHTS = ("elevation", "terrain")
FACADES = {
    "edr": True,
    "ign": True,
    "google": {"dataset": "ground"},
    "swisstopo": {"dataset": "ground"},
    "tileserver": True,
}


def cell_size(level: str) -> float:
    return float(2 * HALF / TILE / 2 ** int(level))


def centres(level: str, row: int, col: int) -> tuple[Any, Any]:
    """Return x and y of the centres of the pixels of a tile, EPSG:3857."""
    cell = cell_size(level)
    x = -HALF + (col * TILE + np.arange(TILE) + 0.5) * cell
    y = HALF - (row * TILE + np.arange(TILE) + 0.5) * cell
    return np.meshgrid(x, y)


def made(name: str, seed: int, level: str, row: int, col: int) -> Pixels:
    """Return the pixels of a tile; smooth ones of a JPEG, which changes others."""
    source = np.random.default_rng([seed, int(level), row, col])
    if name.endswith("FLOAT32"):
        return source.uniform(0, 3000, (TILE, TILE, 1)).astype(np.float32)
    channels = FORMATS[name]
    if "JPG" in name:
        corner = source.integers(40, 160, 3)
        slope = np.add.outer(np.arange(TILE), np.arange(TILE))[:, :, np.newaxis] // 2
        return np.asarray(corner + slope, np.uint8)
    pixels = source.integers(0, 255, (TILE, TILE, channels)).astype(np.uint8)
    if channels == 4:
        pixels[:, :, 3] |= 1
    return pixels


class World:
    """An installation with one layer, of which a view shows an area.

    Args:
        directory: where it is written.
        name: format of the pyramid.
        polygons: the area.
        seed: of the pixels that are certainly outside; None for those of `made` with seed 1.
        kernel: of the maps.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        polygons: Polygons,
        seed: int | None = None,
        kernel: str = "lanczos_3",
    ) -> None:
        self.name = name
        self.polygons = polygons
        self._seed = seed
        sets = {"SMALL": SET, "LAMB": LAMBERT}
        pyramid = write_pyramid(
            directory / "pyramids",
            "ground",
            tile_matrix_set=SET,
            format=name,
            channels=FORMATS[name],
            levels=LEVELS,
            tile=self.tile,
            tiles_per_width=4,
            tiles_per_height=4,
        )
        is_float = name.endswith("FLOAT32")
        heights = {"elevation": {"enabled": True, "facades": FACADES}} if is_float else {}
        document = layer_document(
            pyramid,
            tile_matrix_sets=sets,
            extra_tilematrixsets=["LAMB", "4326"],
            coverages=True,
            wcs={"enabled": True},
            resampling=kernel,
            styles=[*STYLES] if is_float else ["normal"],
            get_feature_info={"type": "PYRAMID"},
        )
        path = write_installation(
            directory,
            layers={"ground": document},
            tile_matrix_sets=sets,
            styles=STYLES,
            services=[*SERVICES, *(OF_HEIGHTS if is_float else ())],
            public_url="http://maps.example",
            services_overrides={
                "ogcapi": {"coverages": True},
                "global": {
                    "map": {"reprojection": True, "crs": [*BOXES]},
                    "tile": {"reprojection": True, "formats": ["image/png", "image/jpeg"]},
                },
                **heights,
            },
        )
        self.application = create_application(str(path))
        # Some documents say since when they are valid.
        self.application.site.started = 1_795_600_000.0

    def tile(self, level: str, row: int, col: int) -> Pixels:
        pixels = made(self.name, 1, level, row, col)
        if self._seed is None:
            return pixels
        x, y = centres(level, row, col)
        # The pixels of a block of a JPEG depend on each other, and on its neighbours.
        _, outside = certain(self.polygons, x, y, 0.3)
        if "JPG" in self.name:
            outside = far(outside)
        other = made(self.name, self._seed, level, row, col)
        return np.where(outside[:, :, np.newaxis], other, pixels)

    @cached_property
    def area(self) -> Area:
        return Area.from_geojson(geojson(self.polygons))

    def view(self, cut: Cut = Cut.MASK, area: Area | None = None) -> Client | None:
        """Return a client of what an area shows; None if it shows nothing."""
        site = self.application.site
        area = area or self.area
        shown = narrowed(site.catalogue.layers["ground"], area, cut)
        if shown is None:
            return None
        readers = masked_readers(shown, site.catalogue.readers["ground"], area, cut)
        catalogue = replace(
            site.catalogue,
            layers=MappingProxyType({"ground": shown}),
            readers=MappingProxyType({"ground": readers}),
        )
        return Client(Application(site.changed(catalogue)))

    def close(self) -> None:
        self.application.site.close_services()


def far(outside: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the pixels in blocks of 16 x 16 that have nothing inside, nor next to them."""
    blocks = ~outside.reshape(4, 16, 4, 16).all(axis=(1, 3))
    near = np.pad(blocks, 1)
    touched = np.zeros((4, 4), np.bool_)
    for down in range(3):
        for across in range(3):
            touched |= near[down : down + 4, across : across + 4]
    return ~np.kron(touched, np.ones((16, 16), np.bool_))


def addresses(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield paths of requests for everything that is computed from pixels, and bodies of POSTs."""
    extension, media_type = KINDS[name.removeprefix("TIFF_")]
    stored = f"FORMAT={quote(media_type)}"
    wmts = "/wmts?SERVICE=WMTS&VERSION=1.0.0&LAYER=ground&STYLE=normal"
    tile = f"{wmts}&REQUEST=GetTile&{stored}"
    info = f"{wmts}&REQUEST=GetFeatureInfo&{stored}&INFOFORMAT=text/plain&I=30&J=20"
    for plan in LEVELS:
        for row in range(plan.min_row, plan.max_row + 1, 1 if plan.id != "10" else 2):
            for col in range(plan.min_col, plan.max_col + 1, 1 if plan.id != "10" else 3):
                place = f"TILEMATRIX={plan.id}&TILEROW={row}&TILECOL={col}"
                yield f"{tile}&TILEMATRIXSET=SMALL_8_10&{place}", {}
                yield f"/tms/1.0.0/ground/{plan.id}/{col}/{row}.{extension}", {}
    place = "TILEMATRIX=9&TILEROW=178&TILECOL=257"
    yield f"{info}&TILEMATRIXSET=SMALL_8_10&{place}", {}
    for level, row, col in (("1", 2, 3), ("1", 3, 4), ("2", 5, 6)):
        place = f"TILEMATRIX={level}&TILEROW={row}&TILECOL={col}"
        yield f"{tile}&TILEMATRIXSET=LAMB_0_2&{place}", {}
    for row, col in ((177, 257), (178, 257), (179, 258)):
        yield f"/tms/1.0.0/ground/9/{col}/{row}.png", {}
        yield f"/ogcapi/collections/ground/map/tiles/SMALL/9/{row}/{col}?f=png", {}
    wms = "/wms?SERVICE=WMS&VERSION=1.3.0&LAYERS=ground&STYLES="
    for crs, bbox in BOXES.items():
        for size in (37, 160):
            part = f"&CRS={crs}&BBOX={bbox}&WIDTH={size}&HEIGHT={size}"
            yield f"{wms}&REQUEST=GetMap{part}&FORMAT=image/png&TRANSPARENT=TRUE", {}
            yield f"{wms}&REQUEST=GetMap{part}&FORMAT=image/geotiff", {}
        for i, j in ((20, 30), (80, 70), (120, 40)):
            yield (
                f"{wms}&REQUEST=GetFeatureInfo&QUERY_LAYERS=ground{part}&I={i}&J={j}&INFO_FORMAT=text/plain&FORMAT=image/png",
                {},
            )
    yield (
        f"{wms}&REQUEST=GetMap&CRS=CRS:84&BBOX=-170,-60,170,75&WIDTH=300&HEIGHT=150&FORMAT=image/png",
        {},
    )
    yield (
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&LAYER=ground&STYLE=normal&FORMAT=image/png",
        {},
    )
    yield "/ogcapi/collections/ground/map?f=png&width=100", {}
    for form in ("", "&scale-factor=2", "&scale-factor=3.7"):
        yield f"/ogcapi/collections/ground/coverage?f=tiff{form}", {}
    yield "/ogcapi/collections/ground/coverage?f=tiff&bbox=0.9,47.2,1.9,48.0&crs=[EPSG:2154]", {}
    wcs = "/wcs?service=WCS&version=2.0.1&request=GetCoverage&coverageId=ground"
    yield wcs, {}
    yield f"{wcs}&subset=X(60000,200000)&subset=Y(6000000,6130000)", {}
    yield f"{wcs}&scaleFactor=0.4", {}
    yield f"{wcs}&scaleFactor=1.7&subset=X(60000,120000)&subset=Y(6000000,6060000)", {}
    yield f"{wcs}&subset=X(60000,200000)&subset=Y(6000000,6130000)&outputCrs={EPSG}/2154", {}
    yield "/viewer/data/stored/ground/9/44/64", {}
    yield from documents()
    if name.endswith("FLOAT32"):
        yield from of_heights()


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield paths of documents, which say where data are."""
    for path in (
        "/wms?SERVICE=WMS&REQUEST=GetCapabilities",
        "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
        "/tms/1.0.0/ground",
        "/tms/1.0.0/ground/metadata.json",
        "/ogcapi/collections/ground?f=json",
        "/ogcapi/collections/ground/map/tiles/SMALL?f=json",
        "/ogcapi/collections/ground/map/tiles/SMALL?f=tilejson",
        "/ogcapi/collections/ground/schema?f=json",
        "/ogcapi/api?f=json",
        "/wcs?service=WCS&version=2.0.1&request=DescribeCoverage&coverageId=ground",
        "/viewer/ground",
    ):
        yield path, {}


def of_heights() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield requests to layers of heights: styles, and the services of heights."""
    for style in STYLES:
        legend = "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&LAYER=ground"
        yield f"{legend}&STYLE={style}&FORMAT=image/png", {}
        for crs, bbox in BOXES.items():
            part = f"&CRS={crs}&BBOX={bbox}&WIDTH=90&HEIGHT=80&FORMAT=image/png"
            yield (
                f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=ground&STYLES={style}{part}",
                {},
            )
    places = [(0.5 + 0.13 * n, 47 + 0.09 * n) for n in range(12)]
    points = ",".join(f"({x} {y})" for x, y in places)
    yield f"/elevation/points?dataset=ground&crs=CRS:84&coords=MULTIPOINT({points})", {}
    line = ",".join(f"{x} {y}" for x, y in places)
    ring = [[0.8, 47.1], [2.0, 47.2], [1.6, 48.1], [0.9, 47.9], [0.8, 47.1]]
    around = ",".join(f"{x} {y}" for x, y in ring)
    yield f"/elevation/profile?dataset=ground&coords=LINESTRING({line})&points=50", {}
    yield "/elevation/edr/collections/ground", {}
    edr = "/elevation/edr/collections/ground"
    yield f"{edr}/position?coords=MULTIPOINT({points})", {}
    yield f"{edr}/area?coords=POLYGON(({around}))", {}
    yield f"{edr}/trajectory?coords=LINESTRING({line})", {}
    for place, geometry in (
        ("statistics", {"type": "Polygon", "coordinates": [ring]}),
        ("statistics", {"type": "Polygon", "coordinates": [[*WHOLE, WHOLE[0]]]}),
        ("points", {"type": "MultiPoint", "coordinates": ring}),
        ("profile", {"type": "LineString", "coordinates": ring}),
    ):
        yield f"/elevation/{place}", {"dataset": "ground", "geometry": geometry}
    lon, lat = ("|".join(str(place[n]) for place in places) for n in (0, 1))
    ign = "/elevation/1.0/calcul/alti/rest"
    yield f"{ign}/elevation.json?lon={lon}&lat={lat}&resource=ground", {}
    yield f"{ign}/elevation.xml?lon={lon}&lat={lat}&resource=ground", {}
    yield f"{ign}/elevationLine.json?lon={lon}&lat={lat}&resource=ground&sampling=40", {}
    locations = "|".join(f"{y},{x}" for x, y in places)
    yield f"/elevation/v1/ground?locations={locations}", {}
    for x, y in places[::3]:
        yield f"/elevation/rest/services/height?lon={x}&lat={y}&sr=4326", {}
        yield f"/elevation/data/ground/elevation/9/{x}/{y}", {}
    for document in ("mapbox.json", "style.json", "contours.json", "mesh/layer.json"):
        yield f"/terrain/ground/{document}", {}
    for z, x, y in ((6, 32, 22), (7, 64, 44), (8, 128, 89)):
        yield f"/terrain/ground/mapbox/{z}/{x}/{y}.png", {}
        yield f"/terrain/ground/mapbox/{z}/{x}/{y}.png?size=512", {}
        yield f"/terrain/ground/terrarium/{z}/{x}/{y}.webp?fill=edge", {}
        yield f"/terrain/ground/contours/{z}/{x}/{y}.pbf", {}
    for z, x, y in ((6, 64, 48), (7, 129, 97), (8, 258, 195)):
        yield f"/terrain/ground/mesh/{z}/{x}/{y}.terrain", {}
        yield f"/terrain/ground/mesh/{z}/{x}/{y}.terrain?extensions=octvertexnormals", {}


def answer(client: Client, path: str, body: dict[str, Any]) -> TestResponse:
    if body:
        return client.post(path, json=body, buffered=True)
    return client.get(path, buffered=True)
