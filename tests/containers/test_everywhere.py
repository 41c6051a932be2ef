"""Layers from containers in coverages, exports, elevations and tools."""

from __future__ import annotations

import gzip
import io
import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import rasterio
import rasterio.shutil
from PIL import Image
from rasterio.transform import Affine
from tests.container_sqlite.ground import picture, write_geopackage, write_mbtiles
from tests.containers.test_seam import installed, plugins, tile_bytes, write_loose
from werkzeug.test import Client

from mastaba.api.services import Site
from mastaba.commands.main import main
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_build.errors import PlanError
from mastaba_build.plugins import PluginSet
from mastaba_build.sources.pyramid import read_descriptor
from mastaba_conformance.tiny_installation import (
    tiny_float_tile,
    tiny_integer_tile,
    tiny_vector_tile,
)
from mastaba_coverage import (
    Cells,
    CompressedFile,
    Coverage,
    CoverageLimits,
    CoveragePlan,
    StoredValues,
)
from mastaba_doctor.slabs import look_at_slabs
from mastaba_export.errors import InvalidRequestError
from mastaba_export.opening import opened_descriptor
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.run import run
from mastaba_export.verify import verify
from mastaba_render.api.areas import Area, masked_readers, narrowed
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

__all__ = ["installed"]

Install = Callable[..., Path]
WINDOW = [5 * 256 + 100, 3 * 256 + 40]


@contextmanager
def published(server: Path) -> Iterator[Site]:
    application = create_application(str(server), plugins())
    yield application.site
    application.site.close_services()
    application.site.catalogue.storages.close()


def finest() -> npt.NDArray[np.uint8]:
    """Return the pixels of level 3."""
    rows = [
        np.concatenate([tiny_integer_tile(3)("3", row, col) for col in (4, 5)], axis=1)
        for row in (2, 3)
    ]
    return np.concatenate(rows)


@pytest.mark.parametrize("form", ["tif", "cog"])
@pytest.mark.parametrize("coded", [False, True])
def test_rasters_have_the_values_of_the_container(
    form: str, coded: bool, tmp_path: Path, installed: Install
) -> None:
    window = [6 * 256, 3 * 256 + 40] if coded else None
    path = write_loose(tmp_path / "data", coded=coded, window=window, nodata=[1, 2, 3])
    expected = finest()[: 296 if coded else 512]
    with published(installed({"path": str(path)})) as site:
        found = plan(ExportRequest("LOOSE", format=form), site)
        assert found.coverage is not None
        assert not any(image.is_copied for image in found.coverage.images)
        run(found, tmp_path / "a.tif")
        with rasterio.open(tmp_path / "a.tif") as dataset:
            pixels = np.moveaxis(dataset.read(), 0, 2)
        assert np.array_equal(pixels, expected)
        assert verify(found, tmp_path / "a.tif", deep=True)


@pytest.mark.parametrize("coded", [False, True])
def test_coverages_are_sent_decoded(coded: bool, tmp_path: Path, installed: Install) -> None:
    path = write_loose(tmp_path / "data", coded=coded)
    server = installed({"path": str(path)}, coverages=True, wcs={"enabled": True})
    services = Path(json.loads(server.read_text())["configurations"]["services"])
    document = json.loads(services.read_text())
    document["ogcapi"] |= {"coverages": True}
    document["wcs"] = {"enabled": True}
    services.write_text(json.dumps(document))
    application = create_application(str(server), plugins())
    client = Client(application)
    for address in (
        "/ogcapi/collections/LOOSE/coverage?f=cog",
        "/ogcapi/collections/LOOSE/coverage?f=geotiff",
        "/wcs?service=WCS&version=2.0.1&request=GetCoverage&coverageId=LOOSE&format=image/tiff",
    ):
        response = client.get(address)
        assert response.status_code == 200, response.data[:500]
        with rasterio.MemoryFile(response.data) as file, file.open() as dataset:
            pixels = np.moveaxis(dataset.read(), 0, 2)
        assert np.array_equal(pixels, finest()), address
        if "cog" not in address:
            continue
        part = client.get(address, headers={"Range": "bytes=300000-300999"})
        assert part.status_code == 206
        assert part.data == response.data[300000:301000]
        assert part.headers["ETag"] == response.headers["ETag"]
    application.site.catalogue.storages.close()


def test_an_area_cuts_rasters_of_containers(tmp_path: Path, installed: Install) -> None:
    path = write_loose(tmp_path / "data", coded=True)
    with published(installed({"path": str(path)})) as site:
        layer, readers = site.catalogue.layers["LOOSE"], site.catalogue.readers["LOOSE"]
        west, south, east, north = 22.5, -10.0, 90.0, 66.0
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        area = Area.from_geojson({"type": "Polygon", "coordinates": [ring]})
        shown = narrowed(layer, area)
        assert shown is not None
        coverage = Coverage.of(shown, masked_readers(shown, readers, area))
        whole = CoveragePlan.exact(
            coverage, coverage.finest, Cells(512, 1024, 1024, 1536), coverage.fields
        )
        tiles = list(CompressedFile(whole, CoverageLimits()).pixels(0))
        cut, inside = tiles[0], tiles[3]
        assert cut is not None
        assert (cut[128:, :120] == 255).all()
        assert np.array_equal(cut[200:, 140:], finest()[200:256, 140:256])
        assert inside is not None
        assert np.array_equal(inside, finest()[256:, 256:])


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("form", ["pmtiles", "mbtiles", "gpkg", "dir", "pyramid"])
def test_archives_contain_what_is_delivered(
    form: str, coded: bool, tmp_path: Path, installed: Install
) -> None:
    path = write_loose(tmp_path / "data", coded=coded)
    with published(installed({"path": str(path)})) as site:
        found = plan(ExportRequest("LOOSE", format=form), site)
        (tmp_path / "out").mkdir()
        out = tmp_path / "out" / f"A{found.extension}"
        estimate = found.estimate()
        assert (estimate["tiles"], estimate["is_exact"]) == (5, False)
        assert run(found, out).tiles == 5
        assert verify(found, out, deep=True).tiles == 5
    wanted = tile_bytes("png", "3", 2, 4)
    files = out.rglob("*") if out.is_dir() else out.parent.rglob("*")
    assert any(wanted in file.read_bytes() for file in files if file.is_file())
    if form == "pyramid":
        with published(installed_pyramid(tmp_path, out)) as site:
            reader = site.catalogue.readers["A"]["3"]
            tile = reader.locate(2, 4)
            assert tile is not None
            assert tile.read() == wanted


def installed_pyramid(directory: Path, pyramid: Path) -> Path:
    layer = json.loads(pyramid.with_name("A.layer.json").read_text())
    return write_installation(directory / "again", layers={"A": layer}, services=["wmts"])


def test_clipped_tiles_are_decoded_as_the_container_says(
    tmp_path: Path, installed: Install
) -> None:
    path = write_loose(tmp_path / "data", coded=True, nodata=[1, 2, 3])
    ring = [[22.5, 10.0], [90.0, 10.0], [90.0, 66.0], [22.5, 66.0], [22.5, 10.0]]
    request = ExportRequest(
        "LOOSE",
        format="dir",
        clip=True,
        levels=("3",),
        area={"type": "Polygon", "coordinates": [ring]},
    )
    with published(installed({"path": str(path)})) as site:
        run(plan(request, site), tmp_path / "out")
    (tile,) = (tmp_path / "out").rglob("3/4/2.png")
    pixels = np.asarray(Image.open(tile))
    assert (pixels[128:, :120] == (1, 2, 3)).all()
    assert np.array_equal(pixels[200:, 140:], finest()[200:256, 140:256])


@pytest.mark.parametrize(
    ("changes", "remedy"), [({"format": "pyramid"}, "pmtiles"), ({"clip": True}, "remove clip")]
)
def test_exports_without_an_encoding_are_refused(
    changes: Mapping[str, Any], remedy: str, tmp_path: Path, installed: Install
) -> None:
    path = write_loose(tmp_path / "data", "webp")
    values = {"format": "pmtiles", "bbox": (0.0, 0.0, 80.0, 60.0), **changes}
    with (
        published(installed({"path": str(path)})) as site,
        pytest.raises(InvalidRequestError, match=f"WEBP.*{remedy}"),
    ):
        plan(ExportRequest("LOOSE", **values), site)


def test_exported_pyramid_has_no_pixels_beyond_the_data(tmp_path: Path, installed: Install) -> None:
    path = write_loose(
        tmp_path / "data", window=WINDOW, nodata=[1, 2, 3], levels={"3": [2, 3, 4, 5]}
    )
    with published(installed({"path": str(path)})) as site:
        (tmp_path / "out").mkdir()
        run(plan(ExportRequest("LOOSE", format="pyramid"), site), tmp_path / "out" / "A.json")
    with published(installed_pyramid(tmp_path, tmp_path / "out" / "A.json")) as site:
        tile = site.catalogue.readers["A"]["3"].locate(3, 5)
        assert tile is not None
        pixels = np.asarray(Image.open(io.BytesIO(tile.read())))
        assert np.array_equal(pixels[:40, :100], finest()[256:296, 256:356])
        assert (pixels[40:] == (1, 2, 3)).all()
        assert (pixels[:, 100:] == (1, 2, 3)).all()


NODATA = -9999.0


def height_tile(level: str, row: int, col: int) -> npt.NDArray[np.float32]:
    """Return heights of the tile matrix set PM, some of them absent."""
    pixels = tiny_float_tile(level, row, col)
    pixels[5:9, 5:9] = NODATA
    return pixels


def all_heights() -> npt.NDArray[np.float32]:
    return np.concatenate(
        [np.concatenate([height_tile("5", row, col) for col in (18, 19)], 1) for row in (10, 11)]
    )


def write_heights(directory: Path) -> dict[str, Path]:
    """Write the same heights as slabs, as a GeoPackage and as a COG; return their paths."""
    slabs = write_pyramid(
        directory,
        "SLABS",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        nodata=[NODATA],
        levels=[LevelPlan("5", 10, 11, 18, 19)],
        tile=height_tile,
    )
    cell = 2 * math.pi * 6378137.0 / 256 / 32
    west, north = (-16 + 18) * 256 * cell, (16 - 10) * 256 * cell
    cog = directory / "cog.tif"
    profile = {"width": 512, "height": 512, "count": 1, "dtype": "float32", "nodata": NODATA}
    place = {"crs": "EPSG:3857", "transform": Affine(cell, 0, west, 0, -cell, north)}
    with rasterio.MemoryFile() as file:
        with file.open(driver="GTiff", **profile, **place) as dataset:
            dataset.write(all_heights(), 1)
        with file.open() as dataset:
            options = {"BLOCKSIZE": 256, "COMPRESS": "DEFLATE", "OVERVIEWS": "NONE"}
            rasterio.shutil.copy(dataset, cog, driver="COG", **options)
    tiles = {}
    for row in (10, 11):
        for col in (18, 19):
            stream = io.BytesIO()
            Image.fromarray(height_tile("5", row, col)).save(stream, "TIFF", compression="tiff_lzw")
            tiles[5, col - 18, row - 10] = stream.getvalue()
    package = write_coverage(directory / "heights.gpkg", tiles, west, north, cell)
    return {"SLABS": slabs, "COG": cog, "GPKG": package}


def write_coverage(
    path: Path, tiles: Mapping[tuple[int, int, int], bytes], west: float, north: float, cell: float
) -> Path:
    """Write a GeoPackage of 2 by 2 tiles of heights at one zoom."""
    # The writer of the tests of GeoPackages has another place, which is replaced here.
    write_geopackage(
        path,
        tiles,
        coverage=("float", 1.0, 0.0, NODATA, "grid-value-is-area"),
        system=(3857, "EPSG", 3857),
    )
    box = west, north - 512 * cell, west + 512 * cell, north
    connection = sqlite3.connect(path)
    for table in ("gpkg_contents", "gpkg_tile_matrix_set"):
        connection.execute(
            f"UPDATE {table} SET min_x = ?, min_y = ?, max_x = ?, max_y = ?",
            box,
        )
    connection.execute("DELETE FROM gpkg_tile_matrix WHERE zoom_level = 0")
    connection.execute(
        "UPDATE gpkg_tile_matrix SET zoom_level = 5, matrix_width = 2, matrix_height = 2, "
        "pixel_x_size = ?, pixel_y_size = ?",
        (cell, cell),
    )
    connection.commit()
    connection.close()
    return path


def test_heights_are_those_of_a_slab_pyramid(tmp_path: Path) -> None:
    paths = write_heights(tmp_path)
    layers = {
        name: {
            "title": name,
            "abstract": "",
            "vertical": {"crs": "EPSG:5720", "kind": "terrain"},
            "pyramids": [{"path": str(path)}],
        }
        for name, path in paths.items()
    }
    slabs = layer_document(paths["SLABS"])
    layers["SLABS"] = {**slabs, "vertical": layers["SLABS"]["vertical"]}
    server = write_installation(
        tmp_path / "site",
        layers=layers,
        services=["elevation", "terrain"],
    )
    application = create_application(str(server))
    client = Client(application)
    assert set(application.site.catalogue.layers) == set(paths)
    requests = (
        "/elevation/points?dataset={}&coords=MULTIPOINT(25 50,26.01 51.3,44 41.5)",
        "/elevation/profile?dataset={}&coords=LINESTRING(23 54,44 42)&points=50",
        "/elevation/statistics?dataset={}&coords=POLYGON((23 54,44 54,44 42,23 54))",
        "/terrain/{}/mapbox/5/18/10.png",
        "/terrain/{}/terrarium/5/19/11.png",
    )
    for request in requests:
        found = {name: client.get(request.format(name)) for name in paths}
        assert found["SLABS"].status_code == 200, found["SLABS"].data
        for name in ("COG", "GPKG"):
            expected = found["SLABS"].data.replace(b"SLABS", name.encode())
            assert found[name].data == expected, (name, request)
    application.site.catalogue.storages.close()


@pytest.mark.parametrize("name", ["COG", "GPKG"])
def test_exports_have_the_stored_heights(name: str, tmp_path: Path) -> None:
    path = write_heights(tmp_path)[name]
    layer = {"title": name, "abstract": "", "pyramids": [{"path": str(path)}]}
    server = write_installation(tmp_path / "site", layers={"A": layer}, services=["tms"])
    expected = all_heights()
    (tmp_path / "out").mkdir()
    with published(server) as site:
        for form in ("tif", "cog", "gpkg", "dir", "pyramid"):
            found = plan(ExportRequest("A", format=form), site)
            assert found.estimate()["bytes"] > 0
            out = tmp_path / "out" / f"A{form}{found.extension}"
            run(found, out)
            assert verify(found, out, deep=True).tiles == 4, form
            if found.extension in (".tif", ".gpkg"):
                with rasterio.open(out) as dataset:
                    pixels = dataset.read(1)
                assert np.array_equal(pixels, expected), form
        level = next(iter(site.catalogue.layers["A"].pyramid.levels.values()))
    with opened_descriptor(str(tmp_path / "out/Apyramid.json"), Plugins()) as (site, identifier):
        again = site.catalogue.layers[identifier]
        reader = site.catalogue.readers[identifier][level.matrix.id]
        values = StoredValues(again.pyramid, reader)
        tile = reader.locate(level.limits.max_row, level.limits.min_col)
        assert tile is not None
        found_pixels = values.decode((0, 0), tile.read())[:, :, 0]
        assert np.array_equal(found_pixels, expected[256:, :256])


@pytest.mark.parametrize("kind", ["JPEG", "LZW", pytest.param("WEBP", marks=pytest.mark.thorough)])
def test_rasters_of_a_geotiff_have_its_colours(kind: str, tmp_path: Path) -> None:
    rows, columns = np.mgrid[:700, :600]
    pixels = np.stack([rows // 3 % 256, columns // 3 % 256, (rows + columns) // 6 % 256])
    place = {"crs": "EPSG:32631", "transform": Affine(10, 0, 500000, 0, -10, 4600000)}
    with rasterio.MemoryFile() as file:
        with file.open(
            driver="GTiff", width=600, height=700, count=3, dtype="uint8", **place
        ) as dataset:
            dataset.write(pixels.astype(np.uint8))
        with file.open() as dataset:
            options = {"BLOCKSIZE": 256, "COMPRESS": kind}
            rasterio.shutil.copy(dataset, tmp_path / "a.tif", driver="COG", **options)
    with rasterio.open(tmp_path / "a.tif") as dataset:
        expected = dataset.read()
        coarse = dataset.read(out_shape=(3, 350, 300))
    layer = {"title": "A", "abstract": "", "pyramids": [{"path": str(tmp_path / "a.tif")}]}
    server = write_installation(tmp_path / "site", layers={"A": layer}, services=["tms"])
    with published(server) as site:
        for form in ("tif", "cog"):
            found = plan(ExportRequest("A", format=form), site)
            out = tmp_path / f"{form}.tif"
            run(found, out)
            assert verify(found, out, deep=True)
            with rasterio.open(out) as dataset:
                again = dataset.read()
                assert again.shape == expected.shape
                # Decoders of JPEG differ.
                limit = 2 if kind == "JPEG" else 0
                assert np.abs(again.astype(int) - expected).max() <= limit
                if form == "cog":
                    small = dataset.read(out_shape=(3, 350, 300)).astype(int)
                    assert np.abs(small - coarse).max() <= limit
        for form in ("dir", "pyramid"):
            if kind == "WEBP" and form == "pyramid":
                continue
            found = plan(ExportRequest("A", format=form), site)
            out = tmp_path / f"B{form}{found.extension}"
            assert run(found, out).tiles == verify(found, out, deep=True).tiles > 0


@pytest.mark.parametrize("form", ["mbtiles", "pmtiles", "dir", "pyramid"])
def test_vector_tiles_are_exported(form: str, tmp_path: Path) -> None:
    data = tiny_vector_tile("4", 5, 8)
    metadata = {"name": "A", "format": "pbf"}
    archive = write_mbtiles(tmp_path / "a.mbtiles", {(4, 8, 5): gzip.compress(data)}, metadata)
    layer = {"title": "A", "abstract": "", "pyramids": [{"path": str(archive)}]}
    server = write_installation(tmp_path / "site", layers={"A": layer}, services=["tms"])
    with published(server) as site:
        found = plan(ExportRequest("A", format=form), site)
        out = tmp_path / f"B{found.extension}"
        run(found, out)
        assert verify(found, out, deep=True).tiles == 1


def test_tools_describe_containers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write_heights(tmp_path)
    del paths["SLABS"]
    layers = {
        name: {"title": name, "abstract": "", "pyramids": [{"path": str(path)}]}
        for name, path in paths.items()
    }
    server = write_installation(tmp_path / "site", layers=layers, services=["tms"])
    main(["check", "-f", str(server), "--deep"])
    printed = capsys.readouterr().out
    # Two tiles of each level.
    assert "4 slabs of 2 levels" in printed
    assert "2 layers usable" in printed
    with published(server) as site:
        pyramids = {name: site.catalogue.layers[name].pyramid for name in paths}
    for name, pyramid in pyramids.items():
        (level,) = pyramid.levels.values()
        limits = level.limits
        words = [name, pyramid.tile_matrix_set.id, level.matrix.id]
        words += [str(limits.min_row), str(limits.min_col)]
        assert main(["tile", "-f", str(server), *words]) == 0
        found = capsys.readouterr().out
        assert f"file       {paths[name]}" in found
        assert "state      stored" in found
        words[3] = str(limits.max_row + 1)
        assert main(["tile", "-f", str(server), *words]) == 1
        assert "outside the limits" in capsys.readouterr().out


def test_deep_check_examines_all_levels_of_an_archive(tmp_path: Path) -> None:
    tiles = {(4, 8, 5): picture(1), (5, 16, 10): picture(2)}
    archive = write_mbtiles(tmp_path / "a.mbtiles", tiles)
    layer = {"title": "A", "abstract": "", "pyramids": [{"path": str(archive)}]}
    server = write_installation(tmp_path / "site", layers={"A": layer}, services=["wmts"])
    with published(server) as site:
        run(plan(ExportRequest("A", format="pmtiles"), site), tmp_path / "b.pmtiles")
    layer["pyramids"] = [{"path": str(tmp_path / "b.pmtiles")}]
    server = write_installation(tmp_path / "again", layers={"A": layer}, services=["wmts"])
    with published(server) as site:
        found = look_at_slabs(site.catalogue, 2)
    assert (found.levels, found.slabs, found.faults) == (2, 2, [])


@pytest.mark.parametrize("words", [["slab"], ["export", "--descriptor"]])
def test_archives_are_no_slabs(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_mbtiles(tmp_path / "a.mbtiles", {(4, 8, 5): picture(1)})
    if words == ["slab"]:
        assert main(["slab", str(path)]) == 1
        printed = capsys.readouterr().err
    else:
        with pytest.raises(InvalidRequestError) as raised, opened_descriptor(str(path), Plugins()):
            pass
        printed = str(raised.value)
    assert "mbtiles" in printed
    assert "layer descriptor" in printed


def test_a_layer_is_no_source_of_a_build(tmp_path: Path) -> None:
    path = tmp_path / "layer.json"
    path.write_text(json.dumps({"title": "A", "pyramids": [{"path": "a.pmtiles"}]}))
    with pytest.raises(PlanError, match="descriptor of a layer"):
        read_descriptor(str(path), PluginSet())
