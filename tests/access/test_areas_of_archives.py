"""Areas of layers from archives: nothing outside enters an answer, whatever the container."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.access.identification.conftest import Credentials
from tests.container_cog.mosaic.test_services import quarters
from tests.container_cog.served import COL, ROW, add_layer, cog_of
from tests.container_sqlite.ground import write_geopackage, write_mbtiles
from tests.containers.independent import write_pmtiles
from tests.render.areas.truth import certain, geojson, star
from tests.tiny import tiny_installation
from werkzeug.test import Client, TestResponse

from mastaba.api.tools import create_application

Pixels = npt.NDArray[Any]

SIDE, SIZE = 2, 512
"""Tiles of level 4 in each direction, and pixels."""
PLACES = tuple((row, col) for row in range(SIDE) for col in range(SIDE))
CELL = 2 * 20037508.342789244 / 256 / 2**4
AREA = [[star(random.Random(3), 20.0, 55.0, 9, 4, 9)]]
RASTERS: dict[str, tuple[str, dict[str, str]]] = {
    "COG": ("a.tif", {}),
    "JPEGS": ("j.tif", {}),
    "FLOATS": ("f.tif", {}),
    "PMTILES": ("a.pmtiles", {}),
    "MBTILES": ("a.mbtiles", {}),
    "PACKAGE": ("a.gpkg", {}),
    "MIXED": ("m.gpkg", {}),
    "STORED": ("m.gpkg", {"format": "stored"}),
    "INTEGERS": ("i.gpkg", {}),
    "REALS": ("r.gpkg", {}),
    "MOSAIC": ("mosaic/table.json", {"tile_matrix_set": "PM"}),
}
"""Layers: file and options of each."""
GENERATION = re.compile(rb'(?<=<Item name="GENERATION">)[^<]*')
BOXES = {
    "EPSG:3857": "300000,5300000,4700000,9800000",
    "EPSG:4326": "43,3,66,42",
    "EPSG:3035": "3400000,2000000,5400000,4600000",
}


def outside(block: int = 1) -> Pixels:
    """Return the pixels outside of the area, whose neighbours in overviews are too.

    Args:
        block: pixels of a side of the blocks that are stored together; the next ones count too.
    """
    x = -(2.0**3) * 256 * CELL + (COL * 256 + np.arange(SIZE) + 0.5) * CELL
    y = 2.0**3 * 256 * CELL - (ROW * 256 + np.arange(SIZE) + 0.5) * CELL
    _, found = certain(AREA, *np.meshgrid(x, y), 6)
    if block == 1:
        return found
    count = SIZE // block
    near = np.pad(~found.reshape(count, block, count, block).all(axis=(1, 3)), 1)
    touched = sum(near[r : r + count, c : c + count] for r in range(3) for c in range(3))
    return ~np.kron(np.asarray(touched) > 0, np.ones((block, block), np.bool_))


def pixels(seed: int | None, bands: int, block: int = 1) -> Pixels:
    """Return an image; with a seed, other pixels outside of the area."""
    one, other = (
        np.random.default_rng(number).integers(1, 255, (SIZE // 8, SIZE // 8, bands))
        for number in (1, seed)
    )
    one, other = (found.repeat(8, 0).repeat(8, 1) for found in (one, other))
    return one if seed is None else np.where(outside(block)[:, :, np.newaxis], other, one)


def part(values: Pixels, row: int, col: int) -> Pixels:
    return values[row * 256 : row * 256 + 256, col * 256 : col * 256 + 256]


def encoded(values: Pixels, kind: str) -> bytes:
    output = io.BytesIO()
    Image.fromarray(values).save(output, kind)
    return output.getvalue()


class World:
    """A server with a layer of each kind, and keys for a part and for everything."""

    def __init__(self, folder: Path, seed: int | None) -> None:
        folder.mkdir()
        self.files(folder, seed)
        credentials = Credentials(folder)
        self.part, self.whole = (credentials.key(groups=[name]) for name in ("part", "whole"))
        (folder / "area.json").write_text(json.dumps(geojson(AREA)))
        rules = {
            "default": "deny",
            "areas": {"part": {"path": "area.json"}},
            "rules": [
                {"name": "area", "who": ["group:part"], "limit": {"area": "part"}},
                {"name": "known", "who": ["known"], "allow": {}},
            ],
        }
        (folder / "rules.json").write_text(json.dumps(rules))
        section = credentials.section(rules=str(folder / "rules.json"))
        server = tiny_installation(
            folder / "site",
            services=("wms", "wmts", "tms", "ogcapi", "wcs", "elevation", "terrain", "viewer"),
            services_overrides={
                "ogcapi": {"coverages": True},
                "global": {
                    "map": {"reprojection": True, "crs": [*BOXES]},
                    "tile": {"reprojection": True, "formats": ["image/png"]},
                },
            },
            server_overrides={"plugins": {"access": section}},
        )
        (folder / "site" / "layers.txt").write_text("")
        for name, (file, options) in RASTERS.items():
            switches = {"coverages": True, "wcs": {"enabled": True}}
            info = {"get_feature_info": {"type": "PYRAMID"}}
            entry: dict[str, Any] = {"path": str(folder / file), "options": options}
            if name == "MOSAIC":
                entry["container"] = "mosaic"
            add_layer(folder / "site", name, entry, **switches, **info)
        self.application = create_application(str(server))
        # Some documents say since when they are valid.
        self.application.site.started = 1_795_600_000.0
        self._client = Client(self.application, use_cookies=False)

    def files(self, folder: Path, seed: int | None) -> None:
        colours = pixels(seed, 3).astype(np.uint8)
        (folder / "a.tif").write_bytes(cog_of(folder, colours, COMPRESS="DEFLATE"))
        smooth = pixels(seed, 3, 32).astype(np.uint8)
        (folder / "j.tif").write_bytes(cog_of(folder, smooth, COMPRESS="JPEG"))
        heights = pixels(seed, 1).astype(np.float32) * 7
        (folder / "f.tif").write_bytes(cog_of(folder, heights, COMPRESS="DEFLATE"))
        (folder / "cog.tif").unlink()
        (folder / "mosaic").mkdir()
        quarters(folder / "mosaic", colours, 4, ROW, COL, COMPRESS="DEFLATE")
        tiles = {
            (4, ROW + row, COL + col): encoded(part(colours, row, col), "PNG")
            for row, col in PLACES
        }
        write_pmtiles(folder / "a.pmtiles", tiles, 2, (0, 41, 45, 66))
        flipped = {(zoom, col, row): tile for (zoom, row, col), tile in tiles.items()}
        write_mbtiles(folder / "a.mbtiles", flipped)
        self.packages(folder, colours, smooth, heights)

    def packages(self, folder: Path, colours: Pixels, smooth: Pixels, heights: Pixels) -> None:
        """Write GeoPackage files: PNG, PNG beside JPEG, and coverages of integers and floats."""
        corner = -(2.0**3) * 256 * CELL + COL * 256 * CELL, 2.0**3 * 256 * CELL - ROW * 256 * CELL
        place: Any = {"corner": corner, "cell": CELL, "system": (3857, "EPSG", 3857)}
        found: dict[str, dict[Any, bytes]] = {"a": {}, "m": {}, "i": {}, "r": {}}
        for row, col in PLACES:
            key = 1, col, row
            found["a"][key] = encoded(part(colours, row, col), "PNG")
            found["m"][key] = encoded(part(smooth, row, col), "JPEG" if row else "PNG")
            values = part(heights, row, col)[:, :, 0]
            found["i"][key] = encoded((values * 8).astype(np.uint16), "PNG")
            found["r"][key] = encoded(values, "TIFF")
        integers = ("integer", 2.0, -10.0, 65535.0, "grid-value-is-area")
        floats = ("float", 1.0, 0.0, -9999.0, None)
        write_geopackage(folder / "a.gpkg", found["a"], **place)
        write_geopackage(folder / "m.gpkg", found["m"], **place)
        scales = {1: (0.5, 200.0)}
        write_geopackage(folder / "i.gpkg", found["i"], coverage=integers, scales=scales, **place)
        write_geopackage(folder / "r.gpkg", found["r"], coverage=floats, **place)

    def ask(self, path: str, key: str, body: Any) -> TestResponse:
        headers = {"X-API-Key": key}
        if body is None:
            return self._client.get(path, headers=headers, buffered=True)
        return self._client.post(path, headers=headers, json=body, buffered=True)

    def close(self) -> None:
        self.application.site.close_services()
        self.application.site.catalogue.storages.close()


def addresses(layer: str) -> Iterator[tuple[str, Any]]:
    """Yield requests for what is computed from pixels, with the bodies of POSTs, and documents."""
    extension, media = {
        "JPEGS": ("jpg", "image/jpeg"),
        "FLOATS": ("zbil", "image/x-bil;bits=32"),
        "INTEGERS": ("bil", "image/x-bil;bits=32"),
        "REALS": ("bil", "image/x-bil;bits=32"),
    }.get(layer, ("png", "image/png"))
    wmts = f"/wmts?SERVICE=WMTS&VERSION=1.0.0&LAYER={layer}&STYLE=normal&FORMAT={media}"
    for level in (4, 3):
        for row in range(ROW >> 4 - level, (ROW + SIDE - 1 >> 4 - level) + 1):
            for col in range(COL >> 4 - level, (COL + SIDE - 1 >> 4 - level) + 1):
                place = f"TILEMATRIX={level}&TILEROW={row}&TILECOL={col}"
                yield f"{wmts}&REQUEST=GetTile&TILEMATRIXSET=PM&{place}", None
                yield f"/tms/1.0.0/{layer}/{level}/{col}/{row}.{extension}", None
                tiles = f"/ogcapi/collections/{layer}/map/tiles"
                yield f"{tiles}/PM/{level}/{row}/{col}?f=png", None
                yield f"/viewer/data/stored/{layer}/{level}/{row}/{col}", None
                yield f"/terrain/{layer}/mapbox/{level}/{col}/{row}.png", None
                yield f"/terrain/{layer}/contours/{level}/{col}/{row}.pbf", None
    for level, row, col in ((3, 5, 8), (4, 11, 17), (5, 22, 35), (6, 46, 70)):
        yield f"/terrain/{layer}/mesh/{level}/{col}/{row}.terrain", None
    for crs, box in BOXES.items():
        part = f"&LAYERS={layer}&STYLES=&CRS={crs}&BBOX={box}&WIDTH=160&HEIGHT=150"
        wms = f"/wms?SERVICE=WMS&VERSION=1.3.0{part}"
        yield f"{wms}&REQUEST=GetMap&FORMAT=image/png&TRANSPARENT=TRUE", None
        yield f"{wms}&REQUEST=GetMap&FORMAT=image/geotiff", None
        for i, j in ((20, 30), (80, 70), (140, 120)):
            info = f"&QUERY_LAYERS={layer}&I={i}&J={j}&INFO_FORMAT=text/plain&FORMAT=image/png"
            yield f"{wms}&REQUEST=GetFeatureInfo{info}", None
    zarr = f"/ogcapi/collections/{layer}/zarr"
    for key in (".zmetadata", *(f"4/{row}.{col}" for row, col in PLACES), "3/0.0", "3/1.0"):
        yield f"{zarr}/{key}", None
    coverage = f"/ogcapi/collections/{layer}/coverage"
    for query in ("?f=tiff", "?f=cog", "?f=tiff&scale-factor=2", "?f=tiff&bbox=10,45,30,60"):
        yield coverage + query, None
    wcs = f"/wcs?service=WCS&version=2.0.1&request=GetCoverage&coverageId={layer}"
    epsg = "http://www.opengis.net/def/crs/EPSG/0/3035"
    for query in ("", "&scaleFactor=0.4", f"&outputCrs={epsg}"):
        yield wcs + query, None
    places = [[8 + 2.5 * n, 48 + 1.5 * n] for n in range(10)]
    ring = [[8, 46], [34, 46], [34, 64], [8, 64], [8, 46]]
    shapes = {
        "statistics": {"type": "Polygon", "coordinates": [ring]},
        "points": {"type": "MultiPoint", "coordinates": places},
        "profile": {"type": "LineString", "coordinates": places},
    }
    for name, geometry in shapes.items():
        yield f"/elevation/{name}", {"dataset": layer, "geometry": geometry}
    edr, around = f"/elevation/edr/collections/{layer}", ",".join(f"{x} {y}" for x, y in ring)
    yield f"{edr}/area?coords=POLYGON(({around}))", None
    for path in (
        "/wms?SERVICE=WMS&REQUEST=GetCapabilities",
        "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
        f"/tms/1.0.0/{layer}/metadata.json",
        f"/ogcapi/collections/{layer}?f=json",
        f"/ogcapi/collections/{layer}/schema?f=json",
        f"/terrain/{layer}/mesh/layer.json",
        f"/wcs?service=WCS&version=2.0.1&request=DescribeCoverage&coverageId={layer}",
        edr,
        f"/viewer/{layer}",
    ):
        yield path, None


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    folder = tmp_path_factory.mktemp("worlds")
    found = World(folder / "one", None), World(folder / "other", 7)
    yield found
    for one in found:
        one.close()


@pytest.mark.thorough
@pytest.mark.parametrize("layer", RASTERS)
def test_no_answer_changes_with_the_pixels_outside(layer: str, worlds: tuple[World, World]) -> None:
    differences = 0
    for path, body in addresses(layer):
        first, second = (one.ask(path, one.part, body) for one in worlds)
        assert first.status_code == second.status_code < 500, path
        assert _content(first) == _content(second), path
        whole = [one.ask(path, one.whole, body).data for one in worlds]
        differences += whole[0] != whole[1]
    # Otherwise, equal answers would show nothing.
    assert differences > 20


@pytest.mark.thorough
def test_tiles_as_they_are_stored_have_the_media_type_that_is_announced(
    worlds: tuple[World, World],
) -> None:
    """In an area, tiles that its edge cuts are made, in one format; so are the others."""
    world = worlds[0]
    kinds: dict[str, set[str]] = {}
    for key in (world.whole, world.part):
        for row, col in PLACES:
            tile = world.ask(f"/tms/1.0.0/STORED/4/{COL + col}/{ROW + row}.png", key, None)
            if tile.status_code == 200:
                with Image.open(io.BytesIO(tile.data)) as image:
                    assert tile.mimetype == f"image/{(image.format or '').lower()}"
                kinds.setdefault(key, set()).add(tile.mimetype)
    assert kinds == {world.whole: {"image/png", "image/jpeg"}, world.part: {"image/png"}}


@pytest.mark.thorough
@pytest.mark.parametrize("layer", RASTERS)
def test_no_answer_for_an_area_has_the_etag_of_another_one(
    layer: str, worlds: tuple[World, World]
) -> None:
    """Also not if the archive has the same generation, as a cache would find it."""
    compared = 0
    for path, body in addresses(layer):
        part, whole = (worlds[0].ask(path, key, body) for key in (worlds[0].part, worlds[0].whole))
        if part.data != whole.data and "ETag" in part.headers:
            assert part.headers["ETag"] != whole.headers.get("ETag"), path
            compared += 1
    assert compared > 20


def _content(response: TestResponse) -> Any:
    """Return the body without the generation of the archive, which is that of all its pixels."""
    if response.content_type.startswith("image/tiff"):
        return GENERATION.sub(b"", response.data)
    if response.content_type == "application/json" and b'"version"' in response.data:
        return json.loads(response.data) | {"version": None}
    return response.data
