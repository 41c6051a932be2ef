"""The page and its files."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba.testing.installation import layer_document, write_installation
from mastaba.testing.pyramids import LevelPlan, write_pyramid
from mastaba.testing.tile_matrix_sets import web_mercator
from mastaba.testing.tiny_installation import tiny_integer_tile

OpenClient = Callable[[Path], Client]
HOSTILE = "</title><script>alert(1)</script>\"'&$base ${title}"
HOSTILE_ID = "a'b&c;onclick="


class Elements(HTMLParser):
    """Collects tags with their attributes, and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def attributes(self, tag: str, name: str) -> list[str]:
        return [value for found, attrs in self.found if found == tag and (value := attrs.get(name))]


@pytest.fixture
def hostile(tmp_path: Path, open_client: OpenClient) -> Client:
    pyramid = write_pyramid(
        tmp_path,
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("0", 0, 0, 0, 0)],
        tile=tiny_integer_tile(3),
    )
    layer = layer_document(
        pyramid,
        title=HOSTILE,
        abstract=HOSTILE,
        attribution={"title": HOSTILE, "url": "javascript:alert(1)"},
    )
    overrides: dict[str, Any] = {
        "viewer": {
            "title": HOSTILE,
            "endpoint_uri": 'http://maps.example/v"><script>x</script>',
            "root_path": "/viewer",
        },
        "tms": {"endpoint_uri": "http://evil.example;script-src * /tms"},
    }
    return open_client(
        write_installation(
            tmp_path,
            layers={HOSTILE_ID: layer},
            services=["tms", "viewer"],
            services_overrides=overrides,
        )
    )


def test_page(tiny: Client) -> None:
    response = tiny.get("/viewer")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    page = Elements(response.text)
    assert page.attributes("li", "data-layer") == [
        "FLOAT32_RAW",
        "FLOAT32_ZIP",
        "GREYA_ZIP",
        "GREY_PNG",
        "RGBA_PNG",
        "RGB_JPG",
        "RGB_PNG",
        "RGB_RAW",
        "VECTOR",
    ]
    assert tiny.get("/viewer/").data == response.data


def test_page_loads_its_files_from_its_public_path(tiny: Client) -> None:
    page = Elements(tiny.get("/viewer").text)
    places = [
        *page.attributes("script", "src"),
        *page.attributes("link", "href"),
        *page.attributes("img", "src"),
        *page.attributes("body", "data-layers"),
    ]
    assert len(places) >= 6
    for place in places:
        # The public path; the host is left to the browser, and the front server strips /front.
        assert place.startswith("/front/viewer/")
        assert tiny.get(place.removeprefix("/front")).status_code == 200, place


def test_nothing_is_inline_and_nothing_comes_from_elsewhere(tiny: Client) -> None:
    text = tiny.get("/viewer").text
    page = Elements(text)
    assert not [tag for tag, _ in page.found if tag == "style"]
    for tag, attributes in page.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert tag != "script" or attributes.get("src")
    assert "://" not in text


def test_scripts_and_styles_name_no_other_host(tiny: Client) -> None:
    for path in own_files(tiny):
        assert not re.search(r"""["'(]\s*(https?:)?//""", tiny.get(path).text), path


def own_files(client: Client) -> list[str]:
    """Return the page's own scripts and style sheets, found from the page on."""
    found = ["/viewer/viewer.css", "/viewer/js/main.js"]
    for path in found:
        if path.endswith(".js"):
            for name in re.findall(r'from "\./([a-z]+\.js)"', client.get(path).text):
                if f"/viewer/js/{name}" not in found:
                    found.append(f"/viewer/js/{name}")
    return found


def test_every_module_is_served(tiny: Client) -> None:
    paths = own_files(tiny)
    assert len(paths) > 8
    for path in paths:
        assert tiny.get(path).status_code == 200, path


def test_content_security_policy_is_strict(tiny: Client) -> None:
    for path in ("/viewer", "/viewer/layers.json", "/viewer/viewer.css", "/viewer/nothing"):
        response = tiny.get(path)
        policy = response.headers["Content-Security-Policy"]
        rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
        assert rules == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self' http://maps.example",
            "connect-src": "'self' http://maps.example",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'self'",
        }
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_hostile_texts_are_escaped(hostile: Client) -> None:
    text = hostile.get("/viewer").text
    page = Elements(text)
    assert len(page.attributes("script", "src")) == 2
    assert not [tag for tag, attributes in page.found if tag == "script" and not attributes]
    assert page.attributes("li", "data-layer") == [HOSTILE_ID]
    assert "".join(page.texts).count(HOSTILE) == 4  # title, heading, layer title, abstract
    assert text.count("<script") == 2


def test_hostile_addresses_do_not_widen_the_policy(hostile: Client) -> None:
    policy = hostile.get("/viewer").headers["Content-Security-Policy"]
    assert "evil" not in policy
    assert "img-src 'self';" in policy
    assert policy.count("script-src") == 1


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("viewer.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("js/main.js", "text/javascript; charset=utf-8"),
        ("leaflet/leaflet.js", "text/javascript; charset=utf-8"),
        ("leaflet/leaflet.css", "text/css; charset=utf-8"),
        ("leaflet/images/layers.png", "image/png"),
    ],
)
def test_files_have_their_types(tiny: Client, path: str, media_type: str) -> None:
    response = tiny.get(f"/viewer/{path}")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == media_type
    etag = response.headers["ETag"]
    again = tiny.get(f"/viewer/{path}", headers={"If-None-Match": etag})
    assert again.status_code == 304
    head = tiny.head(f"/viewer/{path}")
    assert head.data == b""
    assert int(head.headers["Content-Length"]) == len(response.data)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/page.html",
        "/service.py",
        "/__init__.py",
        "/js",
        "/js/",
        "/leaflet",
        "/leaflet/leaflet-src.js",
        "/../service.py",
        "/js/../../service.py",
        "/js/%2e%2e/%2e%2e/service.py",
        "/js/..%2f..%2fservice.py",
        "/leaflet/../viewer.css",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/viewer.css%00",
        "/viewer.css//x",
        "/VIEWER.CSS",
        "/\\..\\service.py",
    ],
)
def test_nothing_else_is_served(tiny: Client, path: str) -> None:
    response = tiny.get(f"/viewer{path}")
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"root:" not in response.data
    assert b"import" not in response.data


def test_style_sheet_of_the_library_finds_its_pictures(tiny: Client) -> None:
    sheet = tiny.get("/viewer/leaflet/leaflet.css").text
    for name in re.findall(r"url\((images/[^)]+)\)", sheet):
        assert tiny.get(f"/viewer/leaflet/{name}").status_code == 200, name


def test_other_methods_are_refused(tiny: Client) -> None:
    assert tiny.post("/viewer").status_code == 405


def test_viewer_is_not_in_the_list_of_services(tiny: Client) -> None:
    assert "viewer" not in tiny.get("/").text
