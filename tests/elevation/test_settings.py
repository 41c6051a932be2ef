"""Settings of the service, datasets and the object ``vertical`` of layers (elevation.md 0)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.elevation.conftest import Open, read
from tests.forked import run
from werkzeug.test import Client

from mastaba.errors import ConfigurationError


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"id": "s", "layers": ["alps", "colour"]}, "TIFF_PNG_UINT8; heights are FLOAT32"),
        ({"id": "s", "layers": ["none"]}, "publishes no layer 'none'"),
        ({"id": "alps", "layers": ["world"]}, "'alps' is a layer that is not in the dataset"),
    ],
)
def test_unusable_datasets_are_reported(open_with: Open, entry: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        open_with({"datasets": [entry]})


def test_duplicate_dataset(open_with: Open) -> None:
    entry = {"id": "s", "layers": ["alps"]}
    with pytest.raises(ConfigurationError, match="duplicate dataset 's'"):
        open_with({"datasets": [entry, entry]})


def test_stack_may_have_the_name_of_its_layer(open_with: Open) -> None:
    client = open_with({"datasets": [{"id": "alps", "layers": ["alps", "world"]}]})
    listed = read(client.get("/elevation"))["datasets"]
    assert [(item["id"], item["layers"]) for item in listed] == [
        ("alps", ["alps", "world"]),
        ("merc", ["merc"]),
        ("world", ["world"]),
    ]


@pytest.mark.parametrize(
    ("code", "reason"),
    [("EPSG:9999999", "is unknown"), ("EPSG:3857", "has no heights")],
)
def test_invalid_vertical_crs_is_reported(open_with: Open, code: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        open_with({}, alps={"vertical": {"crs": code}})


def test_absent_vertical_is_unknown(open_with: Open) -> None:
    client = open_with({}, alps={"vertical": {}})
    described = read(client.get("/elevation/edr/collections/alps"))["parameter_names"]["elevation"]
    assert described["description"] == "Heights: unknown"
    assert read(client.get("/elevation"))["datasets"][0]["vertical"] == {}


def test_accuracy_may_be_a_text(open_with: Open) -> None:
    client = open_with({}, alps={"vertical": {"accuracy": "variable"}})
    content = read(client.get("/elevation"))["datasets"][0]["vertical"]
    assert content == {"accuracy": "variable"}


def test_check_reports_the_reason(write: Callable[..., Path]) -> None:
    server_json = write({"datasets": [{"id": "s", "layers": ["colour"]}], "facades": {"x": True}})
    ended = run("check", "-f", str(server_json), "--format", "json")
    faults = json.loads(ended.stdout)["faults"]
    assert ended.returncode == 1
    assert any("heights are FLOAT32" in fault["reason"] for fault in faults)
    assert any(fault["path"] == "$.elevation.facades.x" for fault in faults)


def test_interpolation_of_a_dataset(open_with: Open) -> None:
    entry = {"id": "s", "layers": ["alps"], "interpolation": "nearest"}
    client = open_with({"datasets": [entry]})
    place = "crs=EPSG:2154&coords=POINT(900403 6599703)"
    default = read(client.get(f"/elevation/points?dataset=s&{place}"))["results"]
    nearest = f"/elevation/points?dataset=alps&interpolation=nearest&{place}"
    assert default == read(client.get(nearest))["results"]


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_stacks_without_the_layers_that_a_virtual_service_hides(
    terrain: Open, is_exclusive: bool
) -> None:
    stacks = [
        {"id": "both", "layers": ["alps", "world"]},
        {"id": "other", "layers": ["merc"]},
    ]
    part = {
        "layers": ["alps"],
        "exclusive": is_exclusive,
        "services": {"elevation": {}, "terrain": {}},
    }
    settings = {"datasets": stacks}
    client = terrain(
        {"elevation": settings, "terrain": settings, "virtual": {"part": part}},
        ("elevation", "terrain"),
    )

    def listed(path: str) -> list[Any]:
        return [item["id"] for item in read(client.get(path))["datasets"]]

    for service in ("elevation", "terrain"):
        assert listed(f"/{service}/v/part") == ["both", "alps"]
        left = ["merc", "world"] if is_exclusive else ["alps", "merc", "world"]
        assert listed(f"/{service}") == ["both", "other", *left]
    query = "dataset=both&crs=EPSG:2154&coords=POINT(900500 6599600)"
    answer = read(client.get(f"/elevation/v/part/points?{query}"))
    assert [point["layer"] for point in answer["results"]] == ["alps"]


def test_wrong_stacks_of_a_virtual_service_are_errors(terrain: Open) -> None:
    """A layer that only the main service has is none."""

    def opened(layers: list[str]) -> Client:
        own = {"datasets": [{"id": "s", "layers": layers}]}
        part = {"layers": ["alps"], "services": {"elevation": own}}
        return terrain({"elevation": {}, "virtual": {"part": part}}, ("elevation",))

    client = opened(["alps", "merc"])
    assert read(client.get("/elevation/v/part"))["datasets"][0]["id"] == "s"
    for wrong in (["typo"], ["alps", "typo"]):
        with pytest.raises(ConfigurationError, match="publishes no layer 'typo'"):
            opened(wrong).get("/elevation/v/part")
