"""Pages for people: they lead everywhere, and nothing in them can act (19-072 class html)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from lxml import html
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

NASTY = """"><script>alert(1)</script>'&<img src=x onerror=y>"""


def page(client: Client, path: str) -> Any:
    response = client.get(path, headers={"Accept": "text/html"})
    assert response.status_code == 200, path
    assert response.content_type == "text/html; charset=utf-8", path
    assert "\x00" not in response.text
    return html.fromstring(response.data.decode())


def test_every_page_is_reached_from_the_landing_page(rich: Client) -> None:
    waiting, done, others = ["/ogcapi"], set(), set()
    while waiting:
        path = waiting.pop()
        done.add(path)
        tree = page(rich, path)
        assert tree.findtext(".//title")
        assert len(tree.findall(".//h1")) == 1
        for anchor in tree.iterfind(".//a"):
            href = urljoin(f"http://maps.example{path}", anchor.get("href"))
            parts = urlsplit(href)
            if parts.netloc != "maps.example" or not parts.path.startswith("/ogcapi"):
                continue
            if parts.query or parts.path.endswith("/map"):
                others.add(f"{parts.path}?{parts.query}")
            elif parts.path not in done:
                waiting.append(parts.path)
                done.add(parts.path)
    assert {
        "/ogcapi/conformance",
        "/ogcapi/api",
        "/ogcapi/tileMatrixSets/PM",
        "/ogcapi/collections/a_world",
        "/ogcapi/collections/a_world/styles",
        "/ogcapi/collections/a_world/map/tiles/PM",
        "/ogcapi/collections/e%20heights%20%C3%A9/styles/relief/map/tiles/PM",
        "/ogcapi/collections/h_vector/tiles/PM",
        "/ogcapi/collections/g_extra/map/tiles/4326",
    } <= done
    assert len(others) > 20
    for path in others:
        assert rich.get(path).status_code == 200, path


def test_policy_forbids_scripts_and_anything_from_elsewhere(rich: Client) -> None:
    for path in ("", "/collections", "/collections?bbox=0,0,1,1", "/static/ogcapi.css"):
        response = rich.get(f"/ogcapi{path}", headers={"Accept": "text/html"})
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "script" not in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_pages_refer_to_own_files_only(rich: Client) -> None:
    tree = page(rich, "/ogcapi/collections/a_world")
    assert not tree.findall(".//script")
    assert not tree.xpath("//*[@style] | //*[starts-with(name(@*), 'on')]")
    sources = [node.get("href") for node in tree.iterfind(".//link")]
    sources += [node.get("src") for node in tree.iterfind(".//img")]
    assert len(sources) == 2
    for source in sources:
        assert source.startswith("/ogcapi/")
        assert rich.get(source).status_code == 200
    assert rich.get("/ogcapi/static/ogcapi.css").content_type == "text/css; charset=utf-8"


def test_texts_of_the_configuration_cannot_become_markup(tmp_path: Path, open_client: Any) -> None:
    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("3", 2, 3, 4, 5)],
        tile=tiny_integer_tile(3),
    )
    record = {"format": "text/html", "type": NASTY, "url": "javascript:alert(1)"}
    layer = layer_document(
        descriptor,
        title=NASTY,
        abstract=NASTY,
        keywords=[NASTY],
        metadata=[record],
        attribution={"title": NASTY, "url": "javascript:alert(2)"},
        styles=["nasty"],
    )
    style = {
        "identifier": NASTY.replace("/", ""),
        "title": NASTY,
        "abstract": NASTY,
        "keywords": [],
    }
    client = open_client(
        write_installation(
            tmp_path,
            layers={"L & 'é": layer},
            styles={"nasty": style},
            services=["ogcapi"],
            services_overrides={"ogcapi": {"title": NASTY, "abstract": NASTY}},
        )
    )
    base = "/ogcapi/collections/L%20%26%20%27%C3%A9"
    for path in (
        "/ogcapi",
        "/ogcapi/api",
        "/ogcapi/api/styles",
        "/ogcapi/collections",
        base,
        f"{base}/styles",
        f"{base}/map/tiles",
        f"{base}/map/tiles/PM",
    ):
        tree = page(client, path)
        scripts = [node.get("src") for node in tree.findall(".//script")]
        assert scripts == (["/ogcapi/static/api.js"] if path == "/ogcapi/api" else []), path
        assert not tree.xpath("//img[@onerror]"), path
        assert not tree.xpath("//a[starts-with(@href, 'javascript')]"), path
    assert NASTY in page(client, base).text_content()


@pytest.mark.parametrize("root_path", ["/", "/a b/ogc"])
def test_pages_work_below_any_path(tmp_path: Path, open_client: Any, root_path: str) -> None:
    uri = "http://maps.example" + root_path.rstrip("/").replace(" ", "%20")
    overrides = {"ogcapi": {"endpoint_uri": uri, "root_path": root_path}}
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi"], services_overrides=overrides)
    )
    start = urlsplit(uri).path or "/"
    tree = page(client, start)
    (sheet,) = (node.get("href") for node in tree.iterfind(".//link"))
    assert client.get(sheet).content_type == "text/css; charset=utf-8"
    targets = [node.get("href") for node in tree.iterfind(".//main//a")]
    assert targets
    for target in targets:
        assert client.get(target).status_code == 200, target


def test_viewer_is_linked_where_it_is_enabled(tmp_path: Path, open_client: Any) -> None:
    pytest.importorskip("mastaba_viewer")
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi", "viewer"], public_url="http://maps.example")
    )
    tree = page(client, "/ogcapi")
    assert "http://maps.example/viewer" in [node.get("href") for node in tree.iterfind(".//a")]
    content = client.get("/ogcapi/collections/RGB_PNG").get_json()
    (link,) = (item for item in content["links"] if item["rel"] == "preview")
    assert link["href"] == "http://maps.example/viewer/RGB_PNG"
