"""Maps and drawn tiles carry validators; a client that has one gets 304 (RFC 9110 clause 13)."""

from __future__ import annotations

import pytest
from werkzeug.test import Client

from mastaba_render.mosaic import LevelPixels

PATHS = [
    "/map",
    "/collections/b_europe/map",
    "/collections/b_europe/map?bbox=0,40,20,60&width=50",
    "/collections/b_europe/map/tiles/PM/4/5/9?width=64",
    "/collections/a_world/map?subset=Lat(-20:20),Lon(170:-170)&width=50",
]


@pytest.mark.parametrize("path", PATHS)
def test_client_that_has_the_map_gets_304_and_nothing_is_decoded(
    rich: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    first = rich.get(f"/ogcapi{path}")
    assert first.status_code == 200, first.text
    conditions = [{"If-None-Match": first.headers["ETag"]}]
    if "Last-Modified" in first.headers:
        conditions.append({"If-Modified-Since": first.headers["Last-Modified"]})
    for headers in conditions:
        with monkeypatch.context() as patch:
            patch.setattr(LevelPixels, "read", None)
            again = rich.get(f"/ogcapi{path}", headers=headers)
        assert (again.status_code, again.data) == (304, b"")
        for name in ("ETag", "Last-Modified", "Cache-Control", "Vary"):
            assert again.headers.get(name) == first.headers.get(name)
    other = rich.get(f"/ogcapi{path}", headers={"If-None-Match": '"x"'})
    assert (other.status_code, other.data) == (200, first.data)


def test_etag_differs_between_maps(rich: Client) -> None:
    base = "/ogcapi/collections/b_europe/map?bbox=0,40,20,60&width=50"
    further = [
        "&f=png",
        "&f=jpeg",
        "&height=77",
        "&crs=EPSG:4326",
        "&bgcolor=red",
        "&transparent=false",
        "&void-color=0xFF0000",
        "&mm-per-pixel=0.05",
    ]
    etags = [rich.get(base + text).headers["ETag"] for text in further]
    assert len(set(etags)) == len(further)
    assert rich.get(base).headers["ETag"] == etags[0]


def test_maps_say_how_they_may_be_kept(rich: Client) -> None:
    response = rich.get("/ogcapi/collections/b_europe/map")
    assert response.headers["Cache-Control"] == "no-cache"
    assert response.headers["Last-Modified"].endswith("GMT")
