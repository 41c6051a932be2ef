"""Rules that limit the times of layers: other values do not exist, in any spelling."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.access.test_views import rules, view
from tests.series import LEVELS, colour_of, series_installation, write_value

from mastaba.api.catalogue import Catalogue, TileLimits
from mastaba.api.services import Site
from mastaba.api.tools import create_application
from mastaba.errors import NoSuchValueError, UnknownNameError
from mastaba_access.gate import RulesGate
from mastaba_access.rules.limits import Limit, combined
from mastaba_writer.pyramids import LevelPlan

YEARS = [{"time": year} for year in ("1950", "1975", "1999", "2023")]
LIMIT = {"what": {"layers": ["ORTHO"]}, "limit": {"time": ["1950", "1999"]}}


def opened(
    tmp_path: Path, limit: Any = LIMIT, *, is_deep: bool = False, **options: Any
) -> tuple[Site, RulesGate]:
    """Return a site with rules; with ``is_deep``, the value 1975 has a level more."""
    options = {"dimensions": [{"name": "time", "nearest": True}], **options}
    names = {"template": "ORTHO_{time}", "listed": True}
    server = series_installation(tmp_path, YEARS, services=("wms", "tms"), names=names, **options)
    file = tmp_path / "access.json"
    file.write_text(json.dumps(rules(limit, {"allow": {}})))
    if is_deep:
        write_value(tmp_path, "value_1", (1, 2, 3), levels=DEEP)
    site = create_application(str(server)).site
    site.plugin_settings = {"access": {"rules": str(file)}}
    return site, RulesGate(site, site.plugin_settings["access"])


@pytest.fixture
def limited(tmp_path: Path) -> Catalogue:
    site, gate = opened(tmp_path)
    return view(gate, site, "wms")


def colour(catalogue: Catalogue, name: str = "ORTHO", **values: str) -> tuple[int, ...]:
    """Return the colour of the layer that a name and values mean."""
    layer = catalogue.resolve(name, values).layer
    reader = catalogue.readers_of(layer)["2"]
    tile = reader.locate(1, 2)
    assert tile is not None
    with Image.open(io.BytesIO(tile.read())) as image:
        found: Any = image.convert("RGB").getpixel((3, 3))
    return tuple(found)


def test_values_outside_do_not_exist(limited: Catalogue) -> None:
    layer = limited.layers["ORTHO"]
    (values,) = limited.values_of(layer)
    assert list(values.texts) == ["1950", "1975", "1999"]
    assert values.default == "1999"
    assert "2023" not in values.extent
    assert layer.at == {"time": "1999"}
    assert layer.interval is not None
    assert layer.interval[1].startswith("1999")
    names = [name for name, _ in limited.variants["ORTHO"].further_names()]  # type: ignore[attr-defined]
    assert names == ["ORTHO_1950", "ORTHO_1975", "ORTHO_1999"]


@pytest.mark.parametrize(
    ("values", "position"),
    [
        ({}, 2),
        ({"time": "current"}, 2),
        ({"time": "default"}, 2),
        ({"time": "1950/2023"}, 2),
        ({"time": "../.."}, 2),
        ({"time": "1960/2100"}, 2),
        ({"time": "2023"}, 2),  # the nearest one that is left
        ({"time": "2023-06-17T00:00:00Z"}, 2),
        ({"time": "1950"}, 0),
        ({"time": "19750101"}, 1),
    ],
)
def test_every_spelling_finds_what_is_left(
    limited: Catalogue, values: dict[str, str], position: int
) -> None:
    assert colour(limited, **values) == colour_of(position)


@pytest.mark.parametrize("name", ["ORTHO_2023", "ORTHO_2024", "ORTHO~123456789abc"])
def test_names_of_hidden_values_are_unknown(limited: Catalogue, name: str) -> None:
    with pytest.raises(UnknownNameError):
        limited.resolve(name)


def test_what_only_a_view_has_opened_is_open(tmp_path: Path) -> None:
    site, gate = opened(tmp_path)
    found = view(gate, site, "wms")
    assert colour(found, time="1950") == colour_of(0)
    states = site.catalogue.variants["ORTHO"].states()
    # The view has opened its default too.
    assert states == {
        "ORTHO;time=1950": "open",
        "ORTHO;time=1975": "known",
        "ORTHO;time=1999": "open",
        "ORTHO;time=2023": "known",
    }


def test_names_that_others_have_asked_for_are_still_unknown(tmp_path: Path) -> None:
    """The names of all values were worked out before the view was made."""
    limit = {"what": {"layers": ["ORTHO"]}, "limit": {"time": ["1975", ""]}}
    site, gate = opened(tmp_path, limit)
    whole = site.catalogue.variants["ORTHO"]
    assert len(whole.further_names()) == 4  # type: ignore[attr-defined]
    found = view(gate, site, "wms")
    names = dict(found.variants["ORTHO"].further_names())  # type: ignore[attr-defined]
    assert {name: one.at["time"] for name, one in names.items()} == {
        "ORTHO_1975": "1975",
        "ORTHO_1999": "1999",
        "ORTHO_2023": "2023",
    }
    with pytest.raises(UnknownNameError):
        found.resolve("ORTHO_1950")
    assert colour(found, "ORTHO_1975") == colour_of(1)


def test_a_hidden_value_has_the_error_of_one_that_never_existed(tmp_path: Path) -> None:
    site, gate = opened(tmp_path, dimensions=[{"name": "time"}])
    found = view(gate, site, "tms")
    texts = []
    for year in ("2023", "2024"):
        errors = []
        for name, values in (
            (f"ORTHO;time={year}", {}),
            ("ORTHO", {"time": year}),
            ("ORTHO", {"time": f"{year}-03"}),
            ("ORTHO", {"time": f"{year}/2100"}),
            ("ORTHO", {"time": f"1950,{year}"}),
        ):
            with pytest.raises(NoSuchValueError) as raised:
                found.resolve(name, values, most=16)
            errors.append(str(raised.value).replace(year, "YEAR"))
        texts.append(errors)
    assert texts[0] == texts[1]
    # Without limits it is there.
    assert colour(site.catalogue, "ORTHO;time=2023") == colour_of(3)


def test_default_values_that_are_hidden_are_replaced(tmp_path: Path) -> None:
    dimensions = [{"name": "time", "default": "current"}]
    site, gate = opened(tmp_path, dimensions=dimensions)
    # The composite shows hidden values.
    assert colour(view(gate, site, "wms")) == colour_of(2)
    (tmp_path / "second").mkdir()
    site, gate = opened(tmp_path / "second", dimensions=[{"name": "time", "default": "2023"}])
    assert colour(view(gate, site, "wms")) == colour_of(2)


def test_ends_are_whole_values(tmp_path: Path) -> None:
    limit = {"limit": {"time": ["1950-02", "1999-06"]}}
    site, gate = opened(tmp_path, limit)
    (values,) = view(gate, site, "wms").values_of(site.catalogue.layers["ORTHO"])
    assert list(values.texts) == ["1975"]


def test_without_a_value_left_the_layer_does_not_exist(tmp_path: Path) -> None:
    site, gate = opened(tmp_path, {"limit": {"time": ["", "1900"]}})
    assert "ORTHO" not in view(gate, site, "wms").layers


def test_limits_that_hide_nothing_change_nothing(tmp_path: Path) -> None:
    site, gate = opened(tmp_path, {"limit": {"time": ["1950", ""]}})
    assert view(gate, site, "wms").layers["ORTHO"] is site.catalogue.layers["ORTHO"]


def test_areas_hold_for_the_values_that_are_left(tmp_path: Path) -> None:
    limit = {"limit": {"time": ["", "1999"], "scale": [1, 1e8]}}
    site, gate = opened(tmp_path, limit)
    found = view(gate, site, "wms")
    assert list(found.layers["ORTHO"].pyramid.levels) == ["3"]
    assert list(found.resolve("ORTHO;time=1950").layer.pyramid.levels) == ["3"]
    assert list(found.resolve("ORTHO;time=2023").layer.pyramid.levels) == ["3"]
    assert found.resolve("ORTHO;time=2023").layer.at == {"time": "1999"}


DEEP = (*LEVELS, LevelPlan("4", 4, 6, 8, 10))
DETAILS = {"limit": {"scale": [5e7, 1e9]}}
"""Leaves all levels of the default, and not the last one of a deeper value."""


def test_the_tile_of_the_whole_world_is_no_extent(tmp_path: Path) -> None:
    """As without a rule: coarser levels have the tiles that the finest one needs."""
    site, gate = opened(tmp_path)
    for number in range(4):
        levels = (LevelPlan("0", 0, 0, 0, 0), *LEVELS)
        write_value(tmp_path, f"value_{number}", (1, 2, 3), levels=levels)
    site = create_application(str(tmp_path / "server.json")).site
    found = view(gate, site, "wms").layers["ORTHO"]
    whole = site.catalogue.layers["ORTHO"]
    assert list(found.pyramid.levels) == ["0", "2", "3"]
    assert found.at == {"time": "1999"}
    assert found.native_bbox == whole.native_bbox
    assert found.geographic_bbox == whole.geographic_bbox


def test_a_deeper_value_has_no_levels_that_are_hidden(tmp_path: Path) -> None:
    site, gate = opened(tmp_path, DETAILS, is_deep=True)
    assert "4" in site.catalogue.resolve("ORTHO;time=1975").layer.pyramid.levels
    found = view(gate, site, "wms")
    layer = found.resolve("ORTHO;time=1975").layer
    assert list(layer.pyramid.levels) == list(found.readers_of(layer)) == ["2", "3"]
    assert found.readers["ORTHO"] is site.catalogue.readers["ORTHO"]


def test_a_deeper_version_has_no_levels_that_are_hidden(tmp_path: Path) -> None:
    site, gate = opened(tmp_path, DETAILS, is_deep=True)
    # The layer of a service that knows versions, whose table of values does not matter.
    version = site.catalogue.resolve("ORTHO;time=1975").layer
    site.catalogue = replace(site.catalogue, variants={}, at_token=[lambda *_: version])
    found = view(gate, site, "wms")
    assert list(found.resolve("ORTHO~0123456789ab").layer.pyramid.levels) == ["2", "3"]


def test_versions_are_those_of_the_values_that_are_left(tmp_path: Path) -> None:
    site, gate = opened(tmp_path)
    asked: list[tuple[str, dict[str, str]]] = []

    def find(layer: Any, values: Any, token: str, others: Any) -> Any:
        asked.append((token, {**others, **values}))
        found = site.catalogue.resolve(layer.id, values).layer
        # As a version, whose limits are those of all values.
        return replace(found, tile_limits={"9": TileLimits(0, 1, 0, 1)})

    site.catalogue.at_token.append(find)
    found = view(gate, site, "wms")
    for name, values in (
        ("ORTHO~a", {}),
        ("ORTHO;time=1975~b", {}),
        ("ORTHO~c", {"time": "1950", "other": "1"}),
        ("ORTHO~d", {"time": "2023"}),  # the nearest one that is left
    ):
        version = found.resolve(name, values).layer
        assert version.tile_limits == found.layers["ORTHO"].tile_limits
    years = {"a": "1999", "b": "1975", "c": "1950", "d": "1999"}
    assert asked == [(token, {"time": year}) for token, year in years.items()]


SECONDS = [{"time": f"2020-01-01T00:00:{text}Z"} for text in ("00", "00.500", "01", "02")]


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        (["2020-01-01T00:00:00.5Z", "2020-01-01T01:00:01+01:00"], ["00.500", "01"]),
        (["-0500", "2020-01-01T00:00:00.9Z"], ["00.500"]),
        (["2020-01-01T00:00", "2020-01-01T00"], ["00", "00.500", "01", "02"]),
    ],
)
def test_limits_can_state_every_time_that_layers_have(
    tmp_path: Path, limit: list[str], left: list[str]
) -> None:
    server = series_installation(
        tmp_path, SECONDS, services=("wms",), dimensions=[{"name": "time", "nearest": True}]
    )
    what = {"what": {"layers": ["ORTHO"]}, "limit": {"time": limit}}
    (tmp_path / "access.json").write_text(json.dumps(rules(what, {"allow": {}})))
    site = create_application(str(server)).site
    site.plugin_settings = {"access": {"rules": str(tmp_path / "access.json")}}
    catalogue = view(RulesGate(site, site.plugin_settings["access"]), site, "wms")
    (values,) = catalogue.values_of(catalogue.layers["ORTHO"])
    assert list(values.texts) == [f"2020-01-01T00:00:{text}Z" for text in left]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("2020-01-01T00:00:01Z", "2020-01-01T00:00:01.500Z", "2020-01-01T00:00:01.500Z"),
        ("-0500-01-01T00:00:00Z", "-0400-01-01T00:00:00Z", "-0400-01-01T00:00:00Z"),
    ],
)
def test_the_later_start_of_two_limits_counts(one: str, other: str, both: str) -> None:
    limits = [Limit(time=(start, "")) for start in (one, other)]
    assert combined(limits).time == combined(reversed(limits)).time == (both, "")
