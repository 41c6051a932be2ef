"""Values of points and values of areas: what the sources say is in the descriptor."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from tests.build.conftest import Build
from tests.build.ground import grid, read_tiles, write_raster
from tests.build.test_corpus import CORPUS, FILES
from tests.build.test_join import headed, joined

from mastaba_build.plan.plan import Plan

CELL = 156543.03392804097 / 2**12


def heights(path: Path, registration: str | None, column: int = 0, size: float = CELL) -> Path:
    """Write heights in the grid of PM, with a tag or without one."""
    values = np.arange(300 * 300, dtype=np.float32).reshape(1, 300, 300)
    x = -20037508.342789244 + (2048 * 256 + column) * CELL
    write_raster(path, values, grid(x, 1000 * CELL, size), "EPSG:3857")
    if registration is not None:
        with rasterio.open(path, "r+") as dataset:
            dataset.update_tags(AREA_OR_POINT=registration)
    return path


def declared(descriptor: Path) -> str | None:
    """Return the registration in a descriptor."""
    found: str | None = json.loads(descriptor.read_text())["raster_specifications"].get(
        "registration"
    )
    return found


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("tag", "options", "expected"),
    [
        ("Point", {}, "post"),
        ("Area", {}, None),
        (None, {}, None),
        ("Point", {"registration": "area"}, None),
        ("Area", {"registration": "post"}, "post"),
        ("Point", {"bottom": "10"}, None),  # means of areas
    ],
)
def test_the_descriptor_says_what_the_values_are(
    tmp_path: Path, build_of: Build, tag: str | None, options: dict[str, Any], expected: str | None
) -> None:
    descriptor = build_of(heights(tmp_path / "a.tif", tag), **options)
    assert declared(descriptor) == expected


def test_nothing_is_shifted(tmp_path: Path, build_of: Build) -> None:
    found = [
        read_tiles(build_of(heights(tmp_path / f"{tag}.tif", tag), name=tag))
        for tag in ("Point", "Area")
    ]
    assert found[0].keys() == found[1].keys()
    assert all((found[0][tile] == found[1][tile]).all() for tile in found[0])


def test_sources_of_both_kinds_are_areas_with_a_note(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    sources = heights(tmp_path / "a.tif", "Point"), heights(tmp_path / "b.tif", "Area", 300)
    plan = plan_of(*sources)
    assert plan.registration == "area"
    (note,) = plan.notes
    assert "a.tif are those of points" in note
    assert "--registration" in note
    assert plan_of(*sources, registration="post").registration == "post"


def test_heights_of_the_shuttle_mission_are_points(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    np.full((1201, 1201), 431, ">i2").tofile(tmp_path / "N45E006.hgt")
    assert plan_of(tmp_path / "N45E006.hgt").registration == "post"


def test_a_pyramid_as_a_source_keeps_its_registration(
    tmp_path: Path, build_of: Build, plan_of: Callable[..., Plan]
) -> None:
    descriptor = build_of(heights(tmp_path / "a.tif", "Point"))
    assert plan_of(descriptor, name="copy").registration == "post"
    assert plan_of({"path": str(descriptor), "level": "11"}, name="top").registration == "area"


def beside(path: Path) -> Path:
    """Write heights in a format without a tag, and a side file of GDAL with it."""
    with rasterio.open(heights(path.with_suffix(".tif"), None)) as dataset:
        rasterio.shutil.copy(dataset, path, driver="AAIGrid")
    path.with_name(f"{path.name}.aux.xml").write_text(
        '<PAMDataset><Metadata><MDI key="AREA_OR_POINT">Point</MDI></Metadata></PAMDataset>'
    )
    return path


def virtual(path: Path, driver_tag: bool) -> Path:
    """Write heights of points, and a VRT of them with or without the tag."""
    sheet = heights(path.with_suffix(".tif"), "Point")
    with rasterio.open(sheet) as dataset:
        rasterio.shutil.copy(dataset, path, driver="VRT")
    document = re.sub(r"\s*<Metadata>.*?</Metadata>", "", path.read_text(), count=1, flags=re.S)
    if driver_tag:
        tag = '<Metadata><MDI key="AREA_OR_POINT">Point</MDI></Metadata>'
        document = document.replace("<VRTRasterBand", f"{tag}<VRTRasterBand", 1)
    path.write_text(document)
    return path


def catalogued(path: Path) -> Path:
    """Write heights of points, and a STAC item of them."""
    sheet = heights(path.with_suffix(".tif"), "Point")
    assets = {"data": {"href": sheet.name, "roles": ["data"]}}
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "a", "assets": assets}
    path.write_text(json.dumps({**item, "properties": {}, "geometry": None, "links": []}))
    return path


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (beside, "a.asc"),
        (partial(virtual, driver_tag=True), "a.vrt"),
        (partial(virtual, driver_tag=False), "a.vrt"),
        (catalogued, "a.json"),
    ],
    ids=["side file", "VRT", "VRT without a tag", "STAC"],
)
def test_files_beside_sources_say_it_too(
    tmp_path: Path, plan_of: Callable[..., Plan], write: Callable[[Path], Path], name: str
) -> None:
    assert plan_of(write(tmp_path / name)).registration == "post"


def test_joined_pyramids_and_heads_keep_it(tmp_path: Path, build_of: Build) -> None:
    options: dict[str, Any] = {"bottom": "12", "top": "10", "slab": [2, 2]}
    pair = [
        build_of(heights(tmp_path / f"{name}.tif", "Point", column), name=name, **options)
        for name, column in (("a", 0), ("b", 300))
    ]
    whole = joined(tmp_path / "out", *pair)
    assert declared(whole) == "post"
    headed(tmp_path / "out", "whole", "12")
    assert declared(whole) == "post"
    assert declared(tmp_path / "out/whole_2.json") == "post"


@pytest.mark.skipif(not FILES, reason="the corpus is not here")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rio-cogeo/tests/fixtures/image_north.tif", "post"),
        ("rasterio/tests/data/byte.tif", "area"),
    ],
)
def test_real_files_say_what_their_values_are(
    plan_of: Callable[..., Plan], name: str, expected: str
) -> None:
    with rasterio.open(CORPUS / name) as dataset:
        assert (dataset.tags().get("AREA_OR_POINT") == "Point") == (expected == "post")
    assert plan_of(CORPUS / name).registration == expected
