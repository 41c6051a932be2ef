"""Templates that services publish of the paths of their stored tiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenClient
from tests.tiny import tiny_installation

from mastaba_ows.offers import tile_template

SERVICES = ("wmts", "tms", "ogcapi", "wms")
PLACE = {"TileMatrixSet": "PM", "TileMatrix": "2", "TileRow": "1", "TileCol": "2"}


@pytest.fixture
def client(tmp_path: Path, open_client: OpenClient) -> Any:
    return open_client(tiny_installation(tmp_path, services=SERVICES, public_url=""))


@pytest.mark.parametrize("name", ["wmts", "tms", "ogcapi"])
@pytest.mark.parametrize("layer", ["RGB_PNG", "FLOAT32_ZIP"])
def test_templates_lead_to_stored_tiles(client: Any, name: str, layer: str) -> None:
    site = client.application.site
    found = site.catalogue.layers[layer]
    style = found.styles[0].identifier
    template = tile_template(site.services[name], found, style)
    answer = client.get(template.format_map(PLACE))
    reader = site.catalogue.readers[layer]["2"]
    assert (answer.status_code, answer.data) == (200, reader.locate(1, 2).read())


def test_vector_tiles_have_no_style(client: Any) -> None:
    site = client.application.site
    layer = site.catalogue.layers["VECTOR"]
    for name in ("tms", "ogcapi"):
        template = tile_template(site.services[name], layer)
        assert client.get(template.format_map(PLACE)).status_code == 200, name


def test_names_and_styles_are_encoded(client: Any) -> None:
    site = client.application.site
    layer = replace(site.catalogue.layers["RGB_PNG"], id="a/b~c", key="a/b~c")
    for name in ("wmts", "tms", "ogcapi"):
        assert "/a%2Fb~c/" in tile_template(site.services[name], layer, "x y"), name
    assert "/{style}/" in tile_template(site.services["wmts"], layer, "{style}")
    # A path cannot have a slash in one segment.
    assert tile_template(site.services["wmts"], layer, "x/y") == ""


def test_a_service_without_paths_has_no_template(client: Any) -> None:
    site = client.application.site
    assert tile_template(site.services["wms"], site.catalogue.layers["RGB_PNG"]) == ""
