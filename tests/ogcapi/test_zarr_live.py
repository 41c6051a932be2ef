"""Zarr groups of coverages, read over HTTP by the package zarr, and by GDAL."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import LEVELS, TILE, Ground
from tests.ogcapi.test_coverages_live import run
from tests.ogcapi.test_zarr import CHUNKS, SIZES

pytestmark = pytest.mark.live

READER = Path(__file__).with_name("read_zarr.py")


@pytest.fixture(scope="module", params=CHUNKS)
def served(request: Any, serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return an installation, and the address of its group."""
    written: list[Ground] = []

    def write(public_url: str) -> Path:
        written.append(
            Ground(
                tmp_path_factory.mktemp("ground"),
                request.param,
                CHUNKS[request.param],
                services={"ogcapi": {"coverages": True}},
                public_url=public_url,
                coverages=True,
            )
        )
        return written[0].server_json

    with serving(write) as url:
        yield written[0], f"{url}/ogcapi/collections/ground/zarr"
    written[0].close()


def expected(ground: Ground, level: str) -> Any:
    plan = next(plan for plan in LEVELS if plan.id == level)
    rows, columns = (count * TILE for count in SIZES[level])
    top, left = plan.min_row * TILE, plan.min_col * TILE
    values = ground.values(level, top, top + rows, left, left + columns)
    return values[:, :, 0] if ground.channels == 1 else values


def test_zarr_reads_what_is_stored(served: Any, tmp_path: Path) -> None:
    """Chunks that are absent, NaN and its bits included."""
    ground, url = served
    found = json.loads(run(sys.executable, READER, url, tmp_path))
    assert found["is_consolidated"]
    assert found["attributes"]["proj:code"] == "EPSG:2154"
    for level in SIZES:
        values = np.load(tmp_path / f"{level}.npy")
        assert values.tobytes() == expected(ground, level).tobytes()
        assert found[level]["fill_value"] == (-99999 if "FLOAT" in ground.name else 255)
        assert found[level]["chunks"][:2] == [TILE, TILE]
    part = expected(ground, "3")[10:14, 20:23]
    assert np.array_equal(np.array(found["part"], part.dtype), part)


def test_example_of_the_documentation(served: Any, tmp_path: Path) -> None:
    ground, url = served
    text = (Path(__file__).parents[2] / "docs/download.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    address = "https://maps.example.org/ogcapi/collections/HEIGHTS/zarr"
    assert address in block
    program = tmp_path / "example.py"
    program.write_text(block.replace(address, url))
    lines = run(sys.executable, program).splitlines()
    assert [line.split()[0] for line in lines[: len(SIZES)]] == ["3", "2", "1", "0"]
    part = expected(ground, "3")[650:654, 200:204]
    assert "\n".join(lines[len(SIZES) :]) == str(part)


def test_gdal_reads_what_is_stored(served: Any, tmp_path: Path) -> None:
    ground, url = served
    if shutil.which("gdalinfo") is None or "Zarr" not in run("gdalinfo", "--formats"):
        pytest.skip("GDAL with its driver for Zarr is not installed")
    if ground.channels > 1:
        # GDAL takes the last two dimensions for those of an image.
        found = json.loads(run("gdalmdiminfo", f'ZARR:"/vsicurl/{url}"'))
        assert found["arrays"]["2"]["dimension_size"][-1] == ground.channels
        return
    source = f'ZARR:"/vsicurl/{url}":/2'
    found = json.loads(run("gdalinfo", "-json", source))
    assert '"EPSG",2154' in found["coordinateSystem"]["wkt"]
    rows, columns = (count * TILE for count in SIZES["2"])
    assert found["size"] == [columns, rows]
    raw = tmp_path / "values.raw"
    run("gdal_translate", "-q", "-of", "ENVI", source, raw)
    assert raw.read_bytes() == expected(ground, "2").tobytes()
