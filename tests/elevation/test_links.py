"""Links between EDR and the other documents of OGC API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.elevation.conftest import PUBLIC_URL, SETS, OpenClient, read
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation


@pytest.fixture
def both(
    pyramids: dict[str, Path], tmp_path: Path, open_client: OpenClient
) -> Callable[..., Client]:
    def it(**settings: Any) -> Client:
        layers = {
            name: layer_document(path, tile_matrix_sets=SETS) for name, path in pyramids.items()
        }
        layers["merc"]["elevation"] = {"enabled": False}
        layers["world"]["ogcapi"] = {"enabled": False}
        server_json = write_installation(
            tmp_path,
            layers=layers,
            tile_matrix_sets=SETS,
            services=["elevation", "ogcapi"],
            public_url=PUBLIC_URL,
            services_overrides={"elevation": settings},
        )
        return open_client(server_json)

    return it


def related(client: Client, path: str) -> list[str]:
    links = read(client.get(path))["links"]
    return [item["href"] for item in links if item["rel"] == "related"]


def test_collections_of_both_are_related(both: Callable[..., Client]) -> None:
    client = both()
    edr, maps = "/elevation/edr/collections", "/ogcapi/collections"
    assert related(client, f"{edr}/alps") == [f"{PUBLIC_URL}{maps}/alps"]
    assert related(client, f"{maps}/alps?f=json") == [f"{PUBLIC_URL}{edr}/alps"]
    assert related(client, f"{edr}/world") == []
    assert related(client, f"{maps}/merc?f=json") == []
    assert related(client, f"{maps}/colour?f=json") == []


def test_no_link_to_a_switched_off_protocol(both: Callable[..., Client]) -> None:
    client = both(facades={"edr": False})
    assert related(client, "/ogcapi/collections/alps?f=json") == []
