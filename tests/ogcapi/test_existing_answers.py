"""Answers equal those of an existing server on the same pyramids (shared data)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client

pytestmark = pytest.mark.shared_data


def answers(shared_data: Path, group: str) -> list[dict[str, Any]]:
    folder = shared_data / "alps-answers"
    index = json.loads((folder / "index.json").read_text())
    return [
        json.loads((folder / f"{entry['id']}.json").read_text())
        | {"body": (folder / f"{entry['id']}.body").read_bytes()}
        for entry in index
        if entry["group"] == group
    ]


def test_tiles_are_equal_byte_for_byte(alps: Client, shared_data: Path) -> None:
    expected = answers(shared_data, "ogcapi.tile")
    assert len(expected) == 40
    for answer in expected:
        path = answer["request"]["path"]
        response = alps.get(path)
        headers = answer["response"]["headers"]
        assert response.status_code == answer["response"]["status"] == 200, path
        assert response.data == answer["body"], path
        assert response.headers.get("Content-Encoding") == headers.get("Content-Encoding"), path
        if "/map/" in path:
            assert response.content_type == headers["Content-Type"], path
        else:
            # The registered name, where the other server has the older one.
            assert headers["Content-Type"] == "application/x-protobuf"
            assert response.content_type == "application/vnd.mapbox-vector-tile"


@pytest.fixture
def as_they_resample(alps: Client) -> Iterator[Client]:
    """Return a client whose layers use the kernel that the other server really uses.

    Every lanczos name is order 3 there, in the CRS of the layer (oddity 3 in resampling.md).
    """
    service: Any = alps.application.site.services["ogcapi"]  # type: ignore[union-attr]
    collections = service._dataset.collections
    before = {name: item.layer for name, item in collections.items()}
    for item in collections.values():
        if item.layer.resampling.startswith("lanczos"):
            item.layer = replace(item.layer, resampling="lanczos_3")
    yield alps
    for name, layer in before.items():
        collections[name].layer = layer


def values(body: bytes, media_type: str) -> Any:
    if media_type == "image/png":
        return np.asarray(Image.open(io.BytesIO(body)).convert("RGBA")).astype(np.float64)
    return np.frombuffer(body, "<f4").astype(np.float64)


def test_lossless_maps_are_equal(as_they_resample: Client, shared_data: Path) -> None:
    """Ours always have an alpha channel; with that, at most one level is between them."""
    expected = answers(shared_data, "ogcapi.map")
    assert len(expected) == 18
    for answer in expected:
        path = answer["request"]["path"]
        media_type = answer["response"]["headers"]["Content-Type"]
        response = as_they_resample.get(path)
        assert response.status_code == 200, path
        assert response.content_type == media_type, path
        ours, theirs = values(response.data, media_type), values(answer["body"], media_type)
        assert ours.shape == theirs.shape, path
        difference = np.abs(ours - theirs)
        if media_type == "image/png":
            assert difference.max() <= 1, path
            assert (difference > 0).mean() < 0.01, path
        else:
            assert (difference <= 1e-4 * np.abs(theirs)).all(), path


def test_facts_of_documents_are_the_same(alps: Client, shared_data: Path) -> None:
    """What the other server says of collections and sets, but for what it gets wrong."""
    recorded = {
        answer["request"]["path"]: json.loads(answer["body"])
        for group in ("caps", "layer")
        for answer in answers(shared_data, group)
        if answer["request"]["path"].startswith("/ogcapi")
        and answer["response"]["status"] == 200
        and "json" in answer["response"]["headers"]["Content-Type"]
    }
    assert recorded
    for path, theirs in recorded.items():
        ours = alps.get(path).get_json()
        assert theirs.keys() <= ours.keys(), path
        for name in ("id", "title", "description", "dataType", "numberMatched", "storageCrs"):
            if name in theirs:
                expected = theirs[name]
                if name == "storageCrs":
                    # They write https; the registered identifiers begin with http.
                    expected = expected.replace("https://www.opengis", "http://www.opengis")
                assert ours[name] == expected, (path, name)
        if "collections" in theirs:
            assert [i["id"] for i in ours["collections"]] == [
                i["id"] for i in theirs["collections"]
            ]
        if "enum" in theirs:
            assert ours == theirs
