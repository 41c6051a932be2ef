"""Values of dimensions over WCS: a coverage at a time."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import rasterio
from tests.series import colour_of, series_installation
from werkzeug.test import Client

_GET = "/wcs?service=WCS&request=GetCoverage"
_AREA = "subset=E(3000000,3010000)&subset=N(3000000,3010000)"


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]
) -> Client:
    directory = tmp_path_factory.mktemp("series")
    path = series_installation(Path(directory), services=("wcs",), wcs={"enabled": True})
    return open_client(path)


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("coverageId=ORTHO", 2),
        ('coverageId=ORTHO&subset=time("1950")', 0),
        ('coverageId=ORTHO&subset=Time("1950","1980")', 1),
        ("coverageId=ORTHO;time=1950", 0),
    ],
)
def test_value(client: Client, query: str, position: int) -> None:
    response = client.get(f"{_GET}&version=2.0.1&{query}&{_AREA}")
    assert response.status_code == 200, response.text
    with rasterio.open(io.BytesIO(response.data)) as image:
        assert tuple(image.read()[:, 0, 0]) == colour_of(position)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ('coverageId=ORTHO&subset=time("1066")', "InvalidSubsetting"),
        ("coverageId=ORTHO;time=1066", "NoSuchCoverage"),
        ('coverageId=ORTHO&subset=time("x")', "InvalidParameterValue"),
    ],
)
def test_refused(client: Client, query: str, code: str) -> None:
    response = client.get(f"{_GET}&version=2.0.1&{query}&{_AREA}")
    assert (response.status_code // 100, code in response.text) == (4, True), response.text


def test_subsets_beside_a_name_with_other_values(
    tmp_path: Path, open_client: Callable[[Path], Client]
) -> None:
    values = [{"time": time, "elevation": height} for time in ("1950", "2023") for height in "05"]
    dimensions = [{"name": "time"}, {"name": "elevation", "default": "0"}]
    path = series_installation(
        tmp_path,
        values,
        dimensions=dimensions,
        default=2,
        services=("wcs",),
        wcs={"enabled": True},
    )
    client = open_client(path)
    name = f"{_GET}&version=2.0.1&coverageId=ORTHO;time=1950&{_AREA}"
    for subset, position in (("", 0), ("&subset=elevation(5)", 1), ("&subset=elevation(0)", 0)):
        response = client.get(name + subset)
        assert response.status_code == 200, response.text
        with rasterio.open(io.BytesIO(response.data)) as image:
            assert tuple(image.read()[:, 0, 0]) == colour_of(position)
    refused = client.get(f'{name}&subset=time("2023")')
    assert refused.status_code // 100 == 4
