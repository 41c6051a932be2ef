"""Conversion of services.json of ROK4 version 6: each row of services-config.md section 5."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mastaba.config.documents import DocumentReader
from mastaba.config.schema import SchemaValidator
from mastaba.config.services import ServicesConfig, load_services
from mastaba.plugins.manager import Plugins
from mastaba.storage_pool import StoragePool
from mastaba_doctor.rok4_v6 import to_rok4_v7
from mastaba_documents.faults import Faults, Severity, UnusableError
from mastaba_storage.environment import Environment
from mastaba_storage.path import ResourcePath

CONTACT = {"name": "Map desk", "city": "Lyon", "email": "maps@example.org"}
METADATA = {"format": "application/xml", "type": "ISO19115:2003", "url": "https://md.example.org/1"}

# An office that publishes everything that version 6 had.
OFFICE: dict[str, Any] = {
    "provider": "Survey office",
    "site": "https://survey.example.org",
    "fee": "none",
    "access_constraint": "none",
    "contact": CONTACT,
    "crs_equivalences": "equals.json",
    "default_style": "plain",
    "common": {"enabled": True, "title": "Services", "root_path": "/common"},
    "health": {"enabled": True, "root_path": "/alive"},
    "admin": {"enabled": True, "secret": "a secret"},
    "wms": {
        "enabled": True,
        "endpoint_uri": "https://maps.example.org/wms",
        "root_path": "/wms",
        "title": "Maps",
        "abstract": "Maps of the office",
        "keywords": ["maps", "office"],
        "metadata": METADATA,
        "name": "OFFICE",
        "root_layer": {"title": "All", "abstract": "All layers"},
        "inspire": True,
        "limits": {"layers_count": 3, "width": 4096, "height": 2048, "tile_x": 64, "tile_y": 48},
        "formats": ["image/png", "image/jpeg"],
        "crs": ["EPSG:3857", "EPSG:2154"],
        "reprojection": True,
    },
    "wmts": {
        "enabled": True,
        "endpoint_uri": "https://maps.example.org/wmts",
        "root_path": "/wmts",
        "title": "Stored tiles",
        "abstract": "Tiles of the office",
        "keywords": ["tiles"],
        "metadata": METADATA,
        "inspire": False,
        "reprojection": True,
    },
    "tms": {
        "enabled": False,
        "endpoint_uri": "https://maps.example.org/tms",
        "root_path": "/tms",
        "title": "Map tiles",
        "abstract": "TMS of the office",
        "keywords": [],
        "metadata": METADATA,
    },
    "tiles": {
        "enabled": True,
        "endpoint_uri": "https://maps.example.org/office/tiles/tiles",
        "root_path": "/tiles",
        "title": "OGC API Tiles of Tiles",
        "abstract": "The OGC API Tiles service",
        "keywords": ["ogc"],
        "metadata": METADATA,
        "reprojection": False,
    },
}

# A container image, whose entry point wrote only what had been set.
SMALL: dict[str, Any] = {
    "provider": "Town",
    "wmts": {"enabled": True, "endpoint_uri": "http://town.example/wmts"},
}


@pytest.fixture(scope="module")
def office() -> dict[str, Any]:
    """Return the converted OFFICE."""
    return to_rok4_v7(OFFICE)[0]


def lost(document: dict[str, Any]) -> set[str]:
    return {note.path for note in to_rok4_v7(document)[1] if note.is_lost}


def test_everything_is_enabled(office: dict[str, Any]) -> None:
    assert office["enabled"] is True


@pytest.mark.parametrize(
    "key",
    [
        "provider",
        "site",
        "fee",
        "access_constraint",
        "contact",
        "crs_equivalences",
        "default_style",
    ],
)
def test_shared_settings_move_into_global(office: dict[str, Any], key: str) -> None:
    assert office["global"][key] == OFFICE[key]
    assert key not in office


def test_inspire_is_that_of_wms(office: dict[str, Any]) -> None:
    assert office["global"]["inspire"] is True
    assert "inspire" not in office["wms"]
    assert "inspire" not in office["wmts"]


@pytest.mark.parametrize("key", ["limits", "formats", "crs", "reprojection"])
def test_what_concerns_maps_moves_from_wms(office: dict[str, Any], key: str) -> None:
    assert office["global"]["map"][key] == OFFICE["wms"][key]
    assert key not in office["wms"]


def test_reprojection_of_tiles_moves_from_wmts(office: dict[str, Any]) -> None:
    assert office["global"]["tile"] == {"reprojection": True}
    assert "reprojection" not in office["wmts"]


@pytest.mark.parametrize("name", ["admin", "health"])
def test_admin_and_health_are_copied(office: dict[str, Any], name: str) -> None:
    assert office[name] == OFFICE[name]


@pytest.mark.parametrize("name", ["wms", "wmts", "tms"])
@pytest.mark.parametrize(
    "key", ["enabled", "endpoint_uri", "root_path", "title", "abstract", "keywords", "metadata"]
)
def test_sections_of_services_stay(office: dict[str, Any], name: str, key: str) -> None:
    assert office[name][key] == OFFICE[name][key]


@pytest.mark.parametrize("key", ["name", "root_layer"])
def test_wms_keeps_its_name_and_root_layer(office: dict[str, Any], key: str) -> None:
    assert office["wms"][key] == OFFICE["wms"][key]


@pytest.mark.parametrize("key", ["enabled", "keywords", "metadata"])
def test_ogcapi_takes_over_from_tiles(office: dict[str, Any], key: str) -> None:
    assert office["ogcapi"][key] == OFFICE["tiles"][key]


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("https://tiles.example.org/tiles", "https://tiles.example.org/ogcapi"),
        ("https://a.org/tiles/", "https://a.org/ogcapi"),
        ("https://a.org/tileserver/tiles", "https://a.org/tileserver/ogcapi"),
        ("https://a.org/tiles/tiles", "https://a.org/tiles/ogcapi"),
        ("/office/tiles", "/office/ogcapi"),
    ],
)
def test_the_end_of_the_address_is_replaced(old: str, expected: str) -> None:
    new, notes = to_rok4_v7({"tiles": {"endpoint_uri": old}})
    assert new["ogcapi"]["endpoint_uri"] == expected
    assert "$.tiles.endpoint_uri" not in {note.path for note in notes}


@pytest.mark.parametrize(
    "address",
    [
        "https://tiles.example.org/api",
        "https://a.org/tileserver",
        "https://a.org/mytiles",
        "https://a.org/tiles/v1",
        "https://tiles",
        "https://a.org",
    ],
)
def test_an_address_that_does_not_end_with_tiles_is_kept_and_noted(address: str) -> None:
    new, notes = to_rok4_v7({"tiles": {"endpoint_uri": address}})
    assert new["ogcapi"]["endpoint_uri"] == address
    assert "$.tiles.endpoint_uri" in {note.path for note in notes}


def test_only_the_first_tiles_of_texts_is_removed(office: dict[str, Any]) -> None:
    assert office["ogcapi"]["title"] == "OGC API of Tiles"
    assert office["ogcapi"]["abstract"] == "The OGC API service"


@pytest.mark.parametrize(
    ("key", "value"),
    [("root_path", "/ogcapi"), ("tiles", True), ("maps", True), ("default_size", 256)],
)
def test_constants_of_ogcapi(office: dict[str, Any], key: str, value: object) -> None:
    assert office["ogcapi"][key] == value


def test_what_is_lost_is_noted() -> None:
    document = {**OFFICE, "motto": "here", "wms": {**OFFICE["wms"], "legacy": 1}}
    assert lost(document) == {
        "$.common",
        "$.wmts.inspire",
        "$.tiles.reprojection",
        "$.tiles.root_path",
        "$.motto",
        "$.wms.legacy",
    }


def test_the_new_document_has_nothing_else(office: dict[str, Any]) -> None:
    assert set(office) == {
        "enabled",
        "global",
        "admin",
        "health",
        "wms",
        "wmts",
        "tms",
        "ogcapi",
    }


def test_the_old_document_is_not_changed() -> None:
    document = copy.deepcopy(OFFICE)
    to_rok4_v7(document)
    assert document == OFFICE


def test_what_is_absent_stays_absent() -> None:
    new, _ = to_rok4_v7(SMALL)
    assert new == {
        "enabled": True,
        "global": {"provider": "Town", "map": {"reprojection": False}},
        "wmts": {"enabled": True, "endpoint_uri": "http://town.example/wmts"},
    }


def test_a_section_of_tiles_may_lack_what_is_rewritten() -> None:
    new, _ = to_rok4_v7({"tiles": {"enabled": True}})
    assert new["ogcapi"] == {
        "enabled": True,
        "root_path": "/ogcapi",
        "tiles": True,
        "maps": True,
        "default_size": 256,
    }


def test_absent_reprojection_is_written_as_false_and_noted() -> None:
    new, notes = to_rok4_v7({"contact": {}, "wms": {"enabled": True}})
    assert new["global"]["map"]["reprojection"] is False
    assert "$.wms.reprojection" in {note.path for note in notes}


def test_crs_without_reprojection_is_noted() -> None:
    new, notes = to_rok4_v7({"wms": {"crs": ["EPSG:3857"]}})
    assert new["global"]["map"]["crs"] == ["EPSG:3857"]
    assert "$.wms.crs" in {note.path for note in notes}


def test_older_keys_are_read() -> None:
    new, notes = to_rok4_v7(
        {
            "crs_equivalency": "equals.json",
            "ogctiles": {"active": True, "endpoint_uri": "http://localhost/ogctiles"},
        }
    )
    assert new["global"]["crs_equivalences"] == "equals.json"
    assert new["ogcapi"]["enabled"] is True
    assert new["ogcapi"]["endpoint_uri"] == "http://localhost/ogcapi"
    assert {"$.crs_equivalency", "$.ogctiles"} <= {note.path for note in notes}


def test_tiles_counts_before_ogctiles() -> None:
    document = {"tiles": {"title": "Newer"}, "ogctiles": {"title": "Older"}}
    assert to_rok4_v7(document)[0]["ogcapi"]["title"] == "Newer"
    assert lost(document) == {"$.ogctiles"}


def test_sections_of_newer_services_are_kept() -> None:
    viewer = {"enabled": True, "endpoint_uri": "https://maps.example.org/viewer"}
    new, _ = to_rok4_v7({**OFFICE, "viewer": viewer})
    assert new["viewer"] == viewer
    assert "$.viewer" not in lost({**OFFICE, "viewer": viewer})


@pytest.mark.parametrize("name", ["wms", "wmts", "tms", "tiles"])
def test_a_section_of_a_wrong_type_is_left_to_validation(name: str) -> None:
    new, _ = to_rok4_v7({"contact": CONTACT, name: "on"})
    assert new["ogcapi" if name == "tiles" else name] == "on"


def test_the_result_is_valid(office: dict[str, Any]) -> None:
    plugins, faults = Plugins(), Faults()
    office = {key: value for key, value in office.items() if key != "admin"}
    installed = {key: value for key, value in office.items() if key in plugins.services}
    document = {"enabled": True, "global": office["global"], **installed}
    assert {"wms", "wmts", "tms"} <= set(installed)
    assert SchemaValidator("services", plugins).validate(document, "x", faults) is not None
    assert faults.all == ()


def load(tmp_path: Path, document: object) -> tuple[ServicesConfig | None, Faults]:
    file, faults, plugins = tmp_path / "services.json", Faults(), Plugins()
    file.write_text(json.dumps(document), encoding="utf-8")
    pool = StoragePool(plugins.storages, Environment({}))
    path = ResourcePath("file", "", str(file))
    reader = DocumentReader(pool, plugins, faults)
    try:
        return load_services(path, plugins, reader, "a test"), faults
    except UnusableError:
        return None, faults


@pytest.mark.parametrize(
    "document",
    [
        OFFICE,
        SMALL,
        {"contact": CONTACT},
        {"tiles": {}},
        {"ogctiles": {}},
        {"common": {}},
        {"wms": {"limits": {}}},
        {"wms": {"formats": []}},
        {"wms": {"crs": []}},
    ],
)
def test_version_6_is_refused_with_the_remedy(tmp_path: Path, document: dict[str, Any]) -> None:
    config, faults = load(tmp_path, document)
    assert config is None
    (error,) = faults.all
    assert error.severity is Severity.ERROR
    assert error.path == "$"
    assert "mastaba convert-services" in error.remedy


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"global": {}, "contact": CONTACT},
        {"wms": {"enabled": True, "root_layer": {}}},
        {"wms": "limits"},
        {"site": "https://survey.example.org"},
        ["contact"],
    ],
)
def test_version_7_is_not_taken_for_6(tmp_path: Path, document: object) -> None:
    _, faults = load(tmp_path, document)
    assert "version 6" not in " ".join(map(str, faults.all))


def test_a_converted_file_is_used(tmp_path: Path) -> None:
    document = {key: value for key, value in OFFICE.items() if key != "crs_equivalences"}
    config, faults = load(tmp_path, to_rok4_v7(document)[0])
    assert config is not None
    assert config.settings.default_style == "plain"
    assert config.settings.contact.city == "Lyon"
    assert config.settings.map.max_width == 4096
    assert config.settings.tile_reprojection is True
    assert config.services["wmts"].title == "Stored tiles"
    assert faults.errors == ()


def test_an_error_stays_in_a_converted_file(tmp_path: Path) -> None:
    document = to_rok4_v7({**SMALL, "wms": {"limits": {"width": "wide"}}})[0]
    config, faults = load(tmp_path, document)
    assert config is None
    assert [fault.path for fault in faults.errors] == ["$.global.map.limits.width"]


def test_a_file_of_version_7_is_used_without_a_warning(tmp_path: Path) -> None:
    config, faults = load(tmp_path, {"global": {"provider": "Town"}, "wmts": {"enabled": True}})
    assert config is not None
    assert config.settings.map.reprojection is True
    assert faults.all == ()
