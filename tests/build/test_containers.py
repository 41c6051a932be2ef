"""Files that contain several images, files in archives, and files without a grid."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyproj
import pytest
import rasterio
import rasterio.shutil
from rasterio.control import GroundControlPoint
from rasterio.rpc import RPC
from tests.build.conftest import Build
from tests.build.ground import grid, noise, read_tiles, write_raster
from tests.build.test_sources import HERE, OPTIONS, TILE, one_tile

from mastaba_build.config.access import Access
from mastaba_build.config.configuration import configuration_of
from mastaba_build.errors import BuildError, PlanError
from mastaba_build.plan.plan import Plan, make_plan
from mastaba_build.sources.gdal import restrict
from mastaba_build.work.plans import plan_of as any_plan_of

PlanOf = Callable[..., Plan]


def copied(source: Path, target: Path, driver: str, **options: str) -> Path:
    """Copy a raster to another format."""
    restrict(Access(drivers=("HDF5",)))
    with rasterio.open(source) as dataset:
        rasterio.shutil.copy(dataset, target, driver=driver, **options)
    return target


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_ground_control_points_need_gdalwarp(tmp_path: Path, plan_of: PlanOf) -> None:
    path = tmp_path / "scan 1.tif"
    points = [
        GroundControlPoint(row, column, 5 + column / 1000, 45 - row / 1000)
        for row, column in ((0, 0), (0, 63), (63, 0), (63, 63))
    ]
    profile = {"driver": "GTiff", "width": 64, "height": 64, "count": 1, "dtype": "uint8"}
    with rasterio.open(path, "w", **profile) as dataset:
        dataset.write(noise(1, 64, 64))
        dataset.gcps = points, rasterio.crs.CRS.from_epsg(4326)
    with pytest.raises(PlanError, match="ground control points") as raised:
        plan_of(path)
    assert f"gdalwarp -r cubic '{path}' -t_srs EPSG:3857 warped.tif" in str(raised.value)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_rational_polynomials_need_gdalwarp(tmp_path: Path, plan_of: PlanOf) -> None:
    path = tmp_path / "a.tif"
    terms = [0.0, 1.0, *[0.0] * 18]
    rpcs = RPC(
        height_off=0,
        height_scale=1,
        lat_off=45,
        lat_scale=1,
        line_off=32,
        line_scale=32,
        long_off=5,
        long_scale=1,
        samp_off=32,
        samp_scale=32,
        line_num_coeff=terms,
        line_den_coeff=[1.0, *[0.0] * 19],
        samp_num_coeff=terms,
        samp_den_coeff=[1.0, *[0.0] * 19],
        err_bias=None,
        err_rand=None,
    )
    profile = {"driver": "GTiff", "width": 64, "height": 64, "count": 1, "dtype": "uint8"}
    with rasterio.open(path, "w", **profile) as dataset:
        dataset.write(noise(1, 64, 64))
        dataset.rpcs = rpcs
    with pytest.raises(PlanError, match=r"\(RPC\).*gdalwarp -r cubic .* -rpc -to RPC_DEM="):
        plan_of(path)


@pytest.mark.parametrize("format", ["NC", "NC4"])
def test_the_images_of_netcdf_are_listed(tmp_path: Path, format: str) -> None:
    two = write_raster(tmp_path / "two.tif", noise(2, 256, 256), HERE, "EPSG:3857")
    path = copied(two, tmp_path / "a.nc", "netCDF", FORMAT=format)
    access = Access(drivers=("HDF5",) if format == "NC4" else ())

    def planned(source: str) -> Plan:
        values = {"name": "map", "output": str(tmp_path / "out"), "sources": [source]}
        return make_plan(configuration_of(values, "test", access=access))

    with pytest.raises(PlanError, match="contains several images; name one of them") as raised:
        planned(str(path))
    names = [line.strip().strip("'") for line in str(raised.value).splitlines()[1:]]
    assert len(names) == 2
    for name in names:
        (source,) = planned(name).sources
        assert (source.width, source.height) == (256, 256)


def test_files_in_an_archive_are_sources(tmp_path: Path, build_of: Build) -> None:
    pixels = np.full((1, 256, 256), 10, np.uint8)
    source = one_tile(tmp_path / "a.tif", pixels)
    archive = tmp_path / "sheets.zip"
    with ZipFile(archive, "w") as file:
        file.write(source, "folder/a.tif")
        file.writestr("readme.txt", "text")
    named = build_of({"path": f"/vsizip/{archive}/folder/a.tif"}, name="named", **OPTIONS)
    whole = build_of({"path": str(archive)}, name="whole", **OPTIONS)
    for descriptor in (named, whole):
        assert (read_tiles(descriptor)[TILE] == 10).all()


def test_an_archive_that_changes_is_another_source(tmp_path: Path, plan_of: PlanOf) -> None:
    source = one_tile(tmp_path / "a.tif", noise(1, 256, 256))
    archive = tmp_path / "sheets.zip"
    with ZipFile(archive, "w") as file:
        file.write(source, "a.tif")
    first = plan_of({"path": str(archive)}).identity
    assert plan_of({"path": str(archive)}).identity == first
    os.utime(archive, ns=(1, 1))
    assert plan_of({"path": str(archive)}).identity != first


def test_a_damaged_archive_is_named(tmp_path: Path, plan_of: PlanOf) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\3\4nothing")
    with pytest.raises(PlanError, match=r"a\.zip: cannot be read as a ZIP archive"):
        plan_of({"path": str(tmp_path / "a.zip")})
    with ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("readme.txt", "text")
    with pytest.raises(PlanError, match=r"b\.zip: no raster file"):
        plan_of({"path": str(tmp_path / "b.zip")})


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize(
    ("driver", "name", "options"),
    [
        ("JP2OpenJPEG", "a.jp2", {"REVERSIBLE": "YES", "QUALITY": "100"}),
        ("GPKG", "a.gpkg", {"TILE_FORMAT": "PNG", "TILING_SCHEME": "GoogleMapsCompatible"}),
        ("HFA", "a.img", {}),
        ("PNG", "a.png", {"WORLDFILE": "YES"}),
    ],
)
def test_other_formats_have_the_same_pixels(
    tmp_path: Path, build_of: Build, driver: str, name: str, options: dict[str, str]
) -> None:
    source = one_tile(tmp_path / "a.tif", noise(3, 256, 256))
    (tmp_path / "given").mkdir()
    other = copied(source, tmp_path / "given" / name, driver, **options)
    wanted = {**OPTIONS, "channels": 3}
    expected = read_tiles(build_of(source, name="tif", **wanted))
    entry = {"path": str(tmp_path / "given"), "crs": "EPSG:3857"}  # PNG has none
    found = read_tiles(build_of(entry, name="other", **wanted))
    assert other.exists()
    assert np.array_equal(found[TILE], expected[TILE])


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("crs", "horizontal"),
    [("EPSG:5698", "EPSG:2154"), ("EPSG:2154+5720", "EPSG:2154"), ("EPSG:6649", "EPSG:4326")],
)
def test_the_vertical_part_of_a_crs_does_not_move_pixels(
    tmp_path: Path, build_of: Build, plan_of: PlanOf, crs: str, horizontal: str
) -> None:
    wkt = pyproj.CRS.from_user_input(crs).to_wkt()
    flat = pyproj.CRS.from_user_input(crs).sub_crs_list[0].to_wkt()
    is_degrees = horizontal == "EPSG:4326"
    place = grid(-100, 50, 0.001) if is_degrees else grid(900000, 6500000, 50)
    values = noise(1, 200, 200).astype(np.float32)
    first = write_raster(tmp_path / "a.tif", values, place, wkt)
    second = write_raster(tmp_path / "b.tif", values, place, flat)
    one, two = (
        read_tiles(build_of(path, name=path.stem, top="9", bottom="10")) for path in (first, second)
    )
    assert one
    assert one.keys() == two.keys()
    for key in one:
        assert np.array_equal(one[key], two[key])
    assert plan_of(first, name="c", top="9", bottom="10").notes == ()


def test_heights_in_feet_are_reported(tmp_path: Path, plan_of: PlanOf) -> None:
    wkt = pyproj.CRS.from_user_input("EPSG:2263+6360").to_wkt()
    values = noise(1, 200, 200).astype(np.float32)
    source = write_raster(tmp_path / "a.tif", values, grid(984000, 194000, 50), wkt)
    (note,) = plan_of(source, top="12").notes
    assert note.startswith(f"the heights of {source} are in US survey foot, and stay so")
    image = write_raster(tmp_path / "b.tif", noise(3, 200, 200), grid(984000, 194000, 50), wkt)
    assert plan_of(image, top="12").notes == ()


@pytest.mark.thorough
def test_every_real_file_is_planned_or_refused_by_name(shared_data: Path, tmp_path: Path) -> None:
    corpus = shared_data / "corpus"
    if not corpus.is_dir():
        pytest.skip("there are no rasters of other projects")
    ends = (".tif", ".vrt", ".h5", ".nc", ".jpg", ".asc", ".zip", ".jp2", ".gpkg", ".img")
    files = [path for path in sorted(corpus.rglob("*")) if path.suffix.lower() in ends]
    planned = 0
    for path in files:
        values = {"name": "map", "output": str(tmp_path), "sources": [str(path)]}
        try:
            any_plan_of(configuration_of(values, "test"))
            planned += 1
        except BuildError as error:
            assert path.name in str(error), error  # noqa: PT017 - other exceptions fail the test
    assert planned > len(files) // 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rasterio/tests/data/RGB.byte.gcp.vrt", "outside the folders|ground control points"),
        ("rasterio/tests/data/RGB.byte.rpc.vrt", "outside the folders|RPC|cannot be opened"),
        ("rasterio/tests/data/two-subs.h5", "--allow-driver HDF5"),
        ("rasterio/tests/data/no_band.h5", "--allow-driver HDF5"),
    ],
)
def test_real_files_without_a_grid(
    shared_data: Path, plan_of: PlanOf, name: str, message: str
) -> None:
    path = shared_data / "corpus" / name
    if not path.exists():
        pytest.skip("there are no rasters of other projects")
    with pytest.raises(PlanError, match=message):
        plan_of(path)


def test_the_images_of_a_real_hdf5_file_are_listed(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "corpus/rasterio/tests/data/two-subs.h5"
    if not path.exists():
        pytest.skip("there are no rasters of other projects")
    values = {"name": "map", "output": str(tmp_path), "sources": [str(path)]}
    configuration = configuration_of(values, "test", access=Access(drivers=("HDF5",)))
    with pytest.raises(PlanError, match="several images; name one of them") as raised:
        make_plan(configuration)
    assert len(str(raised.value).splitlines()) == 3
