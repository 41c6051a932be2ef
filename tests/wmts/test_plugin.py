"""How the plugin is found, configured and listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny import tiny_installation
from tests.wmts import ground
from werkzeug.test import Client

from mastaba.commands.main import main
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application


def test_plugin_is_installed_and_provides_the_service() -> None:
    infos = {info.name: info for info in Plugins().listing()}
    assert infos["wmts"].distribution == "mastaba-wmts"
    assert infos["wmts"].provides == ("service wmts",)


def test_wrong_type_of_its_own_setting_is_refused(tmp_path: Path) -> None:
    overrides = {"wmts": {"restful": "yes"}}
    path = tiny_installation(tmp_path, services=["wmts"], services_overrides=overrides)
    with pytest.raises(ConfigurationError, match="restful"):
        create_application(str(path))


def test_list_of_services_names_it(tiny: Client) -> None:
    entry = tiny.application.site.services["wmts"].root_entry()
    assert (entry.rank, entry.element, entry.version) == (30, "WebMapTileService", "1.0.0")
    query = "SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities"
    assert entry.href == f"http://maps.example/wmts?{query}"
    assert tiny.get(entry.href.removeprefix("http://maps.example")).status_code == 200


def test_check_warns_of_sets_in_which_a_layer_cannot_be_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server_json = ground.write(tmp_path, ["grey"])
    assert main(["check", "-f", str(server_json)]) == 0
    output = capsys.readouterr().out
    assert "layer grey: $.extra_tilematrixsets" in output
    assert "cannot be offered in 'ELSEWHERE'" in output
    assert output.count("cannot be offered") == 1
