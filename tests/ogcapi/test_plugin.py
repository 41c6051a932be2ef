"""The plugin: what it registers, its settings, and its line in the list of services."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.config.schema import schema
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins


def test_the_service_is_registered_with_its_settings() -> None:
    plugins = Plugins()
    assert plugins.services["ogcapi"].__name__ == "OGCAPIService"
    properties = schema("services", plugins)["properties"]["ogcapi"]["properties"]
    assert {"tiles", "maps", "default_size", "cors"} <= set(properties)


@pytest.mark.parametrize(
    "wrong", [{"tiles": "no"}, {"maps": 1}, {"default_size": 63}, {"default_size": 4097}]
)
def test_wrong_settings_are_refused(tmp_path: Path, open_client: Any, wrong: Any) -> None:
    server_json = tiny_installation(
        tmp_path, services=["ogcapi"], services_overrides={"ogcapi": wrong}
    )
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        open_client(server_json)


def test_root_lists_the_service(tiny: Client) -> None:
    assert b'href="http://maps.example/ogcapi"' in tiny.get("/").data
    (line,) = tiny.get("/?f=json").get_json()["links"]
    assert line["href"] == "http://maps.example/ogcapi/collections?f=json"
    assert line["type"] == "application/json"
