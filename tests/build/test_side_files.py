"""Files beside a source are part of it: they do not stop a build, and their changes do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.enums import Resampling
from rasterio.errors import NotGeoreferencedWarning
from tests.build.ground import grid, noise, read_tiles, write_raster
from tests.support.sampling import one_in

from mastaba_build.plan.plan import Plan
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports

PLACE = grid(900000, 6500000, 5)
AUX = '<PAMDataset><Metadata><MDI key="a">1</MDI></Metadata></PAMDataset>'
NODATA = (
    '<PAMDataset><PAMRasterBand band="1"><NoDataValue>7</NoDataValue></PAMRasterBand></PAMDataset>'
)


def with_aux(folder: Path) -> tuple[Path, Path]:
    source = write_raster(folder / "a.tif", noise(1, 300, 300), PLACE, "EPSG:2154")
    (folder / "a.tif.aux.xml").write_text(AUX)
    return source, folder / "a.tif.aux.xml"


def with_nodata_in_aux(folder: Path) -> tuple[Path, Path]:
    pixels = noise(1, 300, 300)
    pixels[:, 100:200, 100:200] = 7
    source = write_raster(folder / "a.tif", pixels, PLACE, "EPSG:2154")
    (folder / "a.tif.aux.xml").write_text(NODATA)
    return source, folder / "a.tif.aux.xml"


def with_crs_in_aux(folder: Path) -> tuple[Path, Path]:
    wkt = rasterio.CRS.from_epsg(2154).to_wkt()
    source = write_raster(folder / "a.tif", noise(1, 300, 300), PLACE, None)
    (folder / "a.tif.aux.xml").write_text(f"<PAMDataset><SRS>{wkt}</SRS></PAMDataset>")
    return source, folder / "a.tif.aux.xml"


def with_overviews(folder: Path) -> tuple[Path, Path]:
    source = write_raster(folder / "a.tif", noise(1, 900, 900), PLACE, "EPSG:2154")
    with rasterio.Env(TIFF_USE_OVR=True), rasterio.open(source, "r+") as dataset:
        dataset.build_overviews([2, 4], Resampling.average)
    return source, folder / "a.tif.ovr"


def with_mask(folder: Path) -> tuple[Path, Path]:
    source = write_raster(folder / "a.tif", noise(1, 300, 300), PLACE, "EPSG:2154")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=False), rasterio.open(source, "r+") as dataset:
        dataset.write_mask(np.indices((300, 300))[0] > 40)
    return source, folder / "a.tif.msk"


def with_world_file(folder: Path, name: str = "a.tif", world: str = "a.tfw") -> tuple[Path, Path]:
    driver = {"tif": "GTiff", "png": "PNG"}[name[-3:]]
    with (
        pytest.warns(NotGeoreferencedWarning),
        rasterio.open(
            folder / name, "w", driver=driver, width=300, height=300, count=1, dtype="uint8"
        ) as dataset,
    ):
        dataset.write(noise(1, 300, 300))
    for left in folder.glob("*.aux.xml"):
        left.unlink()
    (folder / world).write_text("5\n0\n0\n-5\n900002.5\n6499997.5\n")
    return folder / name, folder / world


def with_wld(folder: Path) -> tuple[Path, Path]:
    return with_world_file(folder, "a.png", "a.wld")


def with_prj(folder: Path) -> tuple[Path, Path]:
    lines = ["ncols 40", "nrows 30", "xllcorner 900000", "yllcorner 6500000", "cellsize 50"]
    rows = [" ".join(map(str, range(40)))] * 30
    (folder / "a.asc").write_text("\n".join(lines + rows) + "\n")
    (folder / "a.prj").write_text(rasterio.CRS.from_epsg(2154).to_wkt())
    return folder / "a.asc", folder / "a.prj"


def with_header(folder: Path) -> tuple[Path, Path]:
    with rasterio.open(
        folder / "a.img",
        "w",
        driver="ENVI",
        width=300,
        height=300,
        count=1,
        dtype="uint8",
        transform=PLACE,
        crs="EPSG:2154",
    ) as dataset:
        dataset.write(noise(1, 300, 300))
    return folder / "a.img", folder / "a.hdr"


def with_vrt(folder: Path) -> tuple[Path, Path]:
    write_raster(folder / "sheet.tif", noise(1, 300, 300), PLACE, "EPSG:2154")
    (folder / "sheet.tif.aux.xml").write_text(AUX)
    (folder / "a.vrt").write_text(
        '<VRTDataset rasterXSize="300" rasterYSize="300"><SRS>EPSG:2154</SRS>'
        "<GeoTransform>900000, 5, 0, 6500000, 0, -5</GeoTransform>"
        '<VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
        '<SourceFilename relativeToVRT="1">sheet.tif</SourceFilename><SourceBand>1</SourceBand>'
        "</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    return folder / "a.vrt", folder / "sheet.tif"


def with_sheet_of_vrt(folder: Path) -> tuple[Path, Path]:
    return with_vrt(folder)[0], folder / "sheet.tif.aux.xml"


MAKERS = [
    with_aux,
    with_nodata_in_aux,
    with_crs_in_aux,
    with_overviews,
    with_mask,
    with_world_file,
    with_wld,
    with_prj,
    with_header,
    with_vrt,
    with_sheet_of_vrt,
]
OPTIONS = {"crs": "EPSG:2154"}


@pytest.mark.parametrize(
    ("maker", "overviews"),
    [
        (with_aux, False),
        (with_overviews, True),
        *(
            pytest.param(maker, overviews, marks=pytest.mark.thorough)
            for maker in MAKERS
            for overviews in (False, True)
        ),
    ],
)
def test_a_source_with_side_files_is_built(
    tmp_path: Path,
    maker: Callable[[Path], tuple[Path, Path]],
    overviews: bool,
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    source, _ = maker(tmp_path)
    more = ["--use-overviews", "--bottom", "11"] if overviews else []
    done = command(
        source, "--output", tmp_path / "out", "--crs", "EPSG:2154", "--slab", "2x2",
        "--format", "zip", *more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert read_tiles(tmp_path / "out/a.json")


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("maker", one_in(4, MAKERS))
def test_a_changed_side_file_stops_the_build(
    tmp_path: Path, maker: Callable[[Path], tuple[Path, Path]], plan_of: Callable[..., Plan]
) -> None:
    source, beside = maker(tmp_path)
    plan = plan_of({"path": str(source), **OPTIONS}, format="zip")
    text = beside.read_bytes()
    beside.write_bytes(text + b" \n")
    errors = StringIO()
    assert not build(plan, Reports(StringIO(), errors))
    assert f"{source.name}: has changed since the start" in errors.getvalue()


def test_nodata_of_a_side_file_is_kept_out(tmp_path: Path, plan_of: Callable[..., Plan]) -> None:
    source, _ = with_nodata_in_aux(tmp_path)
    plan = plan_of(source, format="png", channels=2)
    assert build(plan, Reports(StringIO(), StringIO()))
    (tile, *_) = [
        one
        for key, one in read_tiles(tmp_path / "out/map.json").items()
        if key[0] == plan.levels[0].matrix.id
    ]
    assert (tile[:, :, 0] != 7).any()
