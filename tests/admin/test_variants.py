"""What the administration says about layers and their variants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.admin.conftest import SECRET
from tests.series import series_installation, write_value
from werkzeug.test import Client

from mastaba_dimensions.opening import Opener
from mastaba_storage.errors import StorageUnavailableError
from mastaba_writer.installation import layer_document

YEARS = ("1950", "1975", "2023")


@pytest.fixture
def series(tmp_path: Path, open_client: Callable[[Path], Client]) -> Client:
    """Return a client of a layer of three years, of which one stays open, and one without any."""
    path = series_installation(
        tmp_path,
        [{"time": year} for year in YEARS],
        services=("tms",),
        services_overrides={"admin": {"enabled": True, "secret": SECRET}},
        server_overrides={"cache": {"variants": 1}},
        others={"PLAIN": layer_document(write_value(tmp_path, "plain", (1, 2, 3)))},
    )
    return open_client(path)


def tile(client: Client, year: str) -> int:
    """Return the status of a tile of a year."""
    return client.get(f"/tms/1.0.0/ORTHO;time={year}/2/2/1.png").status_code


def states(client: Client, headers: dict[str, str]) -> list[str]:
    """Return the states of the years, and check that they are counted."""
    answer = client.get("/admin/layers/ORTHO", headers=headers)
    assert answer.status_code == 200
    assert answer.json is not None
    variants = answer.json["variants"]
    found: dict[str, str] = variants.pop("states")
    assert list(found) == [f"ORTHO;time={year}" for year in YEARS]
    shown = list(found.values())
    assert variants.pop("count") == len(shown)
    assert variants == {name: shown.count(name) for name in ("known", "open", "faulty")}
    return shown


def test_a_layer_tells_the_states_of_its_variants(
    series: Client, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert states(series, headers) == ["known", "known", "known"]
    assert tile(series, "1950") == 200
    assert states(series, headers) == ["open", "known", "known"]

    def read(*_args: object) -> None:
        raise StorageUnavailableError("the disk does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(Opener, "read", read)
        assert tile(series, "1975") == 503
    assert states(series, headers) == ["open", "faulty", "known"]
    monkeypatch.setattr("mastaba_dimensions.opening._REST", 0)
    assert tile(series, "1975") == 200
    assert states(series, headers) == ["known", "open", "known"]
    # One that could be opened since is not faulty, even if it is no longer open.
    assert tile(series, "2023") == 200
    assert states(series, headers) == ["known", "known", "open"]


def test_a_layer_without_dimensions_has_no_variants(
    series: Client, headers: dict[str, str]
) -> None:
    found = series.get("/admin/layers/PLAIN", headers=headers).json
    layer = series.application.site.catalogue.layers["PLAIN"]  # type: ignore[attr-defined]
    assert found == {
        "id": "PLAIN",
        "title": layer.title,
        "generation": layer.generation,
        "outdated": False,
    }
    for name in ("NONE", "ORTHO;time=1950"):
        answer = series.get(f"/admin/layers/{name}", headers=headers)
        assert answer.status_code == 404, name
    assert series.get("/admin/layers/PLAIN").status_code == 403
