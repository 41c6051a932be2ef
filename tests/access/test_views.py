"""Views: what the services of a class see of the tiny installation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.access.conftest import MakeGate
from tests.dimensions.conftest import with_stack
from tests.series import LEVELS, series_installation, write_value

from mastaba.api.access import Principal
from mastaba.api.catalogue import Attribute, Catalogue, FeatureInfo, Layer
from mastaba.api.services import Site
from mastaba.api.tools import create_application
from mastaba.errors import AccessError
from mastaba_access.gate import RulesGate
from mastaba_access.rules.who import ANONYMOUS, Visit
from mastaba_writer.pyramids import LevelPlan

ALICE = Principal("alice", "user", groups=frozenset(["staff"]))


def rules(*found: dict[str, Any], default: str = "deny", **further: Any) -> dict[str, Any]:
    named = [{"name": f"rule {number}", **rule} for number, rule in enumerate(found)]
    return {"default": default, "rules": named, **further}


def view(gate: RulesGate, site: Site, service: str, who: Principal = ANONYMOUS) -> Catalogue:
    found = gate.class_of(Visit(who), 1_795_600_000.0)
    return gate._views.view(found, site, "", service)


def published(catalogue: Catalogue, service: str) -> set[str]:
    layers = catalogue.layers.values()
    return {layer.id for layer in layers if service not in layer.hidden_from}


def test_without_restrictions_the_view_is_the_catalogue(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(rules(default="allow"))
    assert view(gate, site, "wms") is site.catalogue
    assert view(gate, site, "root") is site.catalogue


def test_hidden_layers_do_not_exist(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(rules({"what": {"layers": ["RGB_*"], "services": ["wmts"]}, "allow": {}}))
    found = view(gate, site, "wmts")
    assert set(found.layers) == {name for name in site.catalogue.layers if name.startswith("RGB_")}
    assert found.readers.keys() == found.layers.keys()
    assert published(found, "wmts") == set(found.layers)
    assert not published(found, "wms")
    assert found.readers["RGB_JPG"] is site.catalogue.readers["RGB_JPG"]


def test_abilities_are_withheld_by_service(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(
        rules(
            {"what": {"abilities": ["info"], "services": ["wms"]}, "deny": {}},
            {"what": {"abilities": ["legend"], "services": ["wmts"]}, "deny": {}},
            {"what": {"abilities": ["tiles"], "services": ["ogcapi"]}, "deny": {}},
            {"allow": {}},
        )
    )
    layer = replace(site.catalogue.layers["RGB_JPG"], feature_info=FeatureInfo())
    layers = {**site.catalogue.layers, "RGB_JPG": layer}
    asked = replace(site, catalogue=replace(site.catalogue, layers=layers))
    wms, wmts = view(gate, asked, "wms").layers, view(gate, asked, "wmts").layers
    assert wms["RGB_JPG"].feature_info is None
    assert wmts["RGB_JPG"].feature_info == FeatureInfo()
    for layer in wmts.values():
        assert {("wms", "info"), ("wmts", "legend"), ("ogcapi", "tiles")} <= layer.withheld


def test_a_layer_with_legends_alone_is_hidden(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(rules({"what": {"abilities": ["info", "legend"]}, "allow": {}}))
    assert not view(gate, site, "wms").layers


def test_locked_layers_are_described_without_data(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(
        rules(
            {"who": ["known"], "allow": {}}, {"what": {"layers": ["RGB_*"]}, "deny": {"as": "lock"}}
        )
    )
    found = view(gate, site, "wms")
    assert published(found, "wms") >= {"RGB_JPG", "RGB_PNG"}
    assert "GREY_PNG" not in found.layers
    for reader in found.readers["RGB_JPG"].values():
        with pytest.raises(AccessError):
            reader.locate(6, 9)
    assert view(gate, site, "wms", ALICE) is site.catalogue


def test_levels_outside_a_resolution_do_not_exist(make_gate: MakeGate, site: Site) -> None:
    layer = site.catalogue.layers["RGB_JPG"]
    cells = [level.matrix.cell_size for level in layer.pyramid.levels.values()]
    assert len(cells) > 1
    middle = (cells[-1] * cells[-2]) ** 0.5 * layer.pyramid.tile_matrix_set.crs.metres_per_unit
    scale = middle / 0.00028
    gate = make_gate(rules({"what": {"layers": ["RGB_JPG"]}, "allow": {"scale": [scale, 1e12]}}))
    found = view(gate, site, "wmts")
    assert list(found.layers["RGB_JPG"].pyramid.levels) == list(layer.pyramid.levels)[:-1]
    assert found.readers["RGB_JPG"].keys() == found.layers["RGB_JPG"].pyramid.levels.keys()
    gate = make_gate(rules({"allow": {"scale": [0, 1e-9]}}))
    assert not view(gate, site, "wmts").layers


def test_the_smallest_limits_of_maps_hold(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(
        rules(
            {"what": {"services": ["wms"]}, "limit": {"pixels": 5000, "formats": ["image/png"]}},
            {"what": {"layers": ["RGB_JPG"], "services": ["wms"]}, "limit": {"width": 70}},
            {"allow": {}},
        )
    )
    limited, free = view(gate, site, "wms").settings.map, view(gate, site, "ogcapi").settings.map
    assert (limited.max_pixels, limited.max_width) == (5000, 70)
    assert limited.formats == ("image/png",)
    assert limited.max_height == free.max_height
    assert free == site.catalogue.settings.map


def test_tiles_in_another_format_than_allowed_are_withheld(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(rules({"what": {"services": ["tms"]}, "allow": {"formats": ["image/png"]}}))
    found = published(view(gate, site, "tms"), "tms")
    assert "RGB_PNG" in found
    assert "RGB_JPG" not in found


def test_styles_that_are_denied_do_not_exist(make_gate: MakeGate, site: Site) -> None:
    layer = next(one for one in site.catalogue.layers.values() if len(one.styles) > 1)
    name = layer.styles[0].identifier
    denied = {"what": {"styles": [name], "services": ["wms"]}, "deny": {}}
    gate = make_gate(rules(denied, {"allow": {}}))
    changed = view(gate, site, "wms").layers[layer.id]
    assert [one.identifier for one in changed.styles] == [
        one.identifier for one in layer.styles if one.identifier != name
    ]
    assert view(gate, site, "wmts").layers[layer.id].styles == layer.styles


def test_areas_change_readers_and_boxes(make_gate: MakeGate, site: Site) -> None:
    layer: Layer = site.catalogue.layers["RGB_JPG"]
    box = layer.geographic_bbox
    x, y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    ring = f"{box.xmin} {box.ymin}, {x} {box.ymin}, {x} {y}, {box.xmin} {y}, {box.xmin} {box.ymin}"
    areas = {"corner": {"wkt": f"POLYGON(({ring}))", "crs": "CRS:84"}}
    limit = {"what": {"services": ["wmts"]}, "limit": {"area": "corner"}}
    gate = make_gate(rules(limit, default="allow", areas=areas))
    found = view(gate, site, "wmts")
    assert found.layers["RGB_JPG"].geographic_bbox.xmax == pytest.approx(x)
    assert found.readers["RGB_JPG"] is not site.catalogue.readers["RGB_JPG"]
    assert view(gate, site, "wms").readers["RGB_JPG"] is site.catalogue.readers["RGB_JPG"]
    # Equal parts of views of other classes are the same objects.
    other = gate.class_of(Visit(Principal("s", "signed", scope={"l": ["RGB_JPG"]})), 0.0)
    scoped = gate._views.view(other, site, "", "wmts")
    assert set(scoped.layers) == {"RGB_JPG"}


def test_own_grants_and_scopes(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(rules())
    key = Principal("k1", "key", own={"layers": ["RGB_JPG", "GREY_PNG"], "services": ["tms"]})
    assert published(view(gate, site, "tms", key), "tms") == {"RGB_JPG", "GREY_PNG"}
    assert not published(view(gate, site, "wms", key), "wms")
    signed = Principal("s1", "signed", scope={"l": ["RGB_JPG"]}, issuer=key)
    assert published(view(gate, site, "tms", signed), "tms") == {"RGB_JPG"}


def test_variants_are_shown_as_far_as_their_layer(tmp_path: Path) -> None:
    years = [{"time": "1950"}, {"time": "2023"}]
    server_json = series_installation(tmp_path, years, services=["wms", "wmts"])
    whole = create_application(str(server_json)).site
    box = whole.catalogue.layers["ORTHO"].geographic_bbox
    x = (box.xmin + box.xmax) / 2
    ring = f"{box.xmin} {box.ymin}, {x} {box.ymin}, {x} {box.ymax}, {box.xmin} {box.ymin}"
    areas = {"part": {"wkt": f"POLYGON(({ring}))", "crs": "CRS:84"}}
    file = tmp_path / "rules.json"
    file.write_text(
        json.dumps(
            rules(
                {"what": {"services": ["wmts"]}, "limit": {"area": "part"}},
                {"what": {"services": ["wms"]}, "deny": {}},
                default="allow",
                areas=areas,
            )
        )
    )
    whole.plugin_settings = {"access": {"rules": str(file)}}
    gate = RulesGate(whole, whole.plugin_settings["access"])
    shown, hidden = view(gate, whole, "wmts"), view(gate, whole, "wms")
    variant = shown.resolve("ORTHO", {"time": "1950"}).layer
    assert (variant.id, variant.key) == ("ORTHO", "ORTHO;time=1950")
    assert variant.geographic_bbox.xmax == pytest.approx(x)
    plain = whole.catalogue.resolve("ORTHO;time=1950").layer
    assert variant.generation != plain.generation
    for level, reader in shown.readers_of(variant).items():
        assert type(reader) is type(shown.readers["ORTHO"][level])
        assert reader is not plain.readers[level]
    # As its layer, which other services show.
    assert hidden.resolve("ORTHO;time=1950").layer.hidden_from == {"wms"}


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        ({"scale": [5e7, 1e9]}, {"2": (1, 1, 2, 2), "3": (2, 3, 3, 5)}),
        ({"area": "part"}, {"2": (1, 1, 2, 2), "3": (2, 2, 4, 4)}),
    ],
)
def test_documents_say_of_all_values_what_is_within_limits(
    tmp_path: Path, limit: dict[str, Any], left: dict[str, tuple[int, ...]]
) -> None:
    """Another value than the default has a level and a column more."""
    rows = []
    wide = (LevelPlan("2", 1, 1, 2, 2), LevelPlan("3", 2, 3, 3, 5), LevelPlan("4", 4, 4, 8, 8))
    for year, levels in (("1950", wide), ("2023", LEVELS)):
        path = write_value(tmp_path, f"ortho_{year}", (1, 2, 3), levels=levels)
        own = {one.id: [one.min_row, one.max_row, one.min_col, one.max_col] for one in levels}
        rows.append({"at": {"time": year}, "path": path.name, "levels": own})
    site = create_application(str(with_stack(tmp_path, rows, services=["wmts"]))).site
    whole = site.catalogue.layers["ORTHO"]
    assert {"4", "3"} <= whole.tile_limits.keys()
    areas = {"part": {"wkt": "POLYGON((10 45, 40 45, 40 60, 10 45))", "crs": "CRS:84"}}
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(rules({"limit": limit}, default="allow", areas=areas)))
    site.plugin_settings = {"access": {"rules": str(file)}}
    found = view(RulesGate(site, site.plugin_settings["access"]), site, "wmts")
    layer = found.layers["ORTHO"]
    for one in (layer, found.resolve("ORTHO;time=1950").layer):
        shown = {
            name: (at.min_row, at.max_row, at.min_col, at.max_col)
            for name, at in one.tile_limits.items()
        }
        assert shown == left
        assert list(one.pyramid.levels) == ["2", "3"]
    assert layer.levels_id == "PM_2_3"


@pytest.mark.parametrize("rule", [{"limit": {"area": "part"}}, {"deny": {"as": "lock"}}])
def test_of_a_part_no_values_of_all_features_are_shown(
    make_gate: MakeGate, site: Site, rule: dict[str, Any]
) -> None:
    areas = {"part": {"wkt": "POLYGON((20 35, 70 35, 70 60, 20 60, 20 35))", "crs": "CRS:84"}}
    gate = make_gate(rules({"who": ["known"], "allow": {}}, rule, default="allow", areas=areas))
    assert "RGB_JPG" in view(gate, site, "tms").layers

    def attributes(catalogue: Catalogue) -> list[Attribute]:
        tables = catalogue.layers["VECTOR"].pyramid.finest.tables
        return [one for table in tables for one in table.attributes]

    shown, whole = attributes(view(gate, site, "tms")), attributes(view(gate, site, "tms", ALICE))
    assert any(one.maximum is not None for one in whole)
    assert shown == [Attribute(one.name, one.type) for one in whole]
