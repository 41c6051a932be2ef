"""The layer of the demo that was published three times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_demo.campaigns import plans_around_focus
from mastaba_demo.settings import Settings
from mastaba_demo.versions import NAME, write_versions
from mastaba_writer.installation import layer_document, write_installation


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Client:
    folder = tmp_path_factory.mktemp("versions")
    pyramids = folder / "pyramids"
    pyramids.mkdir()
    plans = plans_around_focus(settings)
    tile = Path(folder / "tile.jpg")
    Image.new("RGB", (256, 256), "#3070c0").save(tile)
    tiles = {
        ("imagery", int(plan.id), row, column): tile.read_bytes()
        for plan in plans
        for row in range(plan.min_row, plan.max_row + 1)
        for column in range(plan.min_col, plan.max_col + 1)
    }
    write_versions(pyramids, plans, tiles)
    server = write_installation(
        folder,
        layers={NAME: layer_document(pyramids / f"{NAME}.json")},
        services=["history", "tms"],
    )
    return Client(create_application(str(server)))


def test_each_version_shows_what_had_been_published(client: Client) -> None:
    published = json.loads(client.get(f"/history/{NAME}").data)["published"]
    assert [one["by"] for one in published] == ["update", "update", "build"]
    tokens = [one["generation"] for one in published]
    new = [0, 0, 0]
    for number, token in enumerate(tokens):
        assert client.get(f"/tms/1.0.0/{NAME}~{token}/metadata.json").status_code == 200
        changes = client.get(f"/history/{NAME}/changes/{tokens[-1]}..{token}")
        assert changes.status_code == 200
        new[number] = len(json.loads(changes.data)["features"])
    assert new[2] == 0
    assert 0 < new[1] <= new[0]
