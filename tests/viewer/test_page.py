"""The pages and their files."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from tests.viewer import ground
from werkzeug.test import Client

import mastaba_viewer
from mastaba.plugins.manager import Plugins
from mastaba_viewer.assets import assets
from mastaba_viewer.facts import three_digits
from mastaba_viewer.texts import texts
from mastaba_writer.installation import layer_document, write_installation

OpenClient = Callable[[Path], Client]
HOSTILE = "</title><script>alert(1)</script>\"'&$base ${title}"
HOSTILE_ID = "a'b&c;onclick="


class Elements(HTMLParser):
    """Collects tags, attributes and texts of a page."""

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
    pyramid = ground.one_tile_pyramid(tmp_path)
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
        "tms": {
            "title": "TMS of the town",
            "endpoint_uri": "http://evil.example;script-src * /tms",
        },
    }
    return open_client(
        write_installation(
            tmp_path,
            layers={HOSTILE_ID: layer},
            services=["tms", "viewer"],
            services_overrides=overrides,
        )
    )


def test_list(tiny: Client) -> None:
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
    assert "/front/viewer/RGB_JPG" in page.attributes("a", "href")
    assert tiny.get("/viewer/").data == response.data


def test_list_links_to_the_pages_of_other_services(
    tmp_path: Path, open_client: Callable[[Path], Client]
) -> None:
    titles = {"ogcapi": {"title": "Maps & more"}}
    client = open_client(
        tiny_installation(
            tmp_path,
            services=["ogcapi", "tms", "viewer"],
            public_url="http://maps.example",
            services_overrides=titles,
        )
    )
    page = client.get("/viewer").text
    assert '<b>Maps &amp; more</b> <a href="http://maps.example/ogcapi' in page


def test_first_page_of_the_server(tmp_path: Path, open_client: OpenClient) -> None:
    contact = {"name": "A <b> Mapper", "city": "Berne", "email": "maps@example.org"}
    overrides: dict[str, Any] = {
        "global": {
            "provider": "Survey & Co",
            "site": "https://example.org",
            "fee": "none",
            "access_constraint": "CC BY 4.0",
            "contact": contact,
        }
    }
    client = open_client(
        tiny_installation(
            tmp_path,
            services=["health", "ogcapi", "wmts", "viewer"],
            services_overrides=overrides,
        )
    )
    response = client.get("/", headers={"Accept": "text/html"})
    assert response.text == client.get("/viewer").text
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    page = Elements(response.text)
    texts = "".join(page.texts)
    for text in ("Survey & Co", "A <b> Mapper", "Berne", "CC BY 4.0", "maps@example.org"):
        assert text in texts
    links = page.attributes("a", "href")
    assert any("GetCapabilities" in link for link in links), links
    assert any("/ogcapi" in link for link in links), links
    assert any("/health" in link for link in links), links
    # Programs still get the list.
    assert client.get("/").content_type.startswith("application/xml")
    assert client.get("/?f=json").content_type == "application/json"


def test_pages_have_titles(tiny: Client) -> None:
    for path, title in {
        "/viewer": "Map viewer",
        "/viewer/RGB_JPG": "RGB_JPG – Map viewer",
        "/viewer/RGB_JPG/": "RGB_JPG – Map viewer",
        "/viewer/compare/RGB_JPG/VECTOR": "RGB_JPG | VECTOR – Map viewer",
    }.items():
        response = tiny.get(path)
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert f"<title>{title}</title>" in response.text


@pytest.mark.parametrize("path", ["", "/RGB_JPG", "/compare/RGB_JPG/VECTOR"])
def test_pages_load_their_files_from_their_public_path(tiny: Client, path: str) -> None:
    page = Elements(tiny.get(f"/viewer{path}").text)
    places = [
        *page.attributes("script", "src"),
        *page.attributes("link", "href"),
        *(place for place in page.attributes("img", "src") if "/tms/" not in place),
    ]
    assert len(places) >= 3
    for place in places:
        # The public path without host. The front server strips /front.
        assert place.startswith("/front/viewer/static/")
        assert tiny.get(place.removeprefix("/front")).status_code == 200, place
    assert page.attributes("body", "data-base") == ["/front/viewer"]


WEB = Path(__file__).parents[2] / "plugins" / "viewer" / "web"
SCRIPTS = sorted((WEB / "src").rglob("*.js"))


@pytest.mark.parametrize("path", ["", "/RGB_JPG", "/compare/RGB_JPG/VECTOR"])
def test_modules_are_requested_at_once_and_kept(tiny: Client, path: str) -> None:
    page = Elements(tiny.get(f"/viewer{path}").text)
    links = [attrs["href"] for tag, attrs in page.found if attrs.get("rel") == "modulepreload"]
    assert links
    for link in links:
        assert link is not None
        response = tiny.get(link.removeprefix("/front"))
        assert response.status_code == 200
        assert response.headers["Cache-Control"] == "max-age=31536000, immutable"
    (script,) = page.attributes("script", "src")
    assert tiny.get(script.removeprefix("/front")).headers["Cache-Control"] == "no-cache"


def test_every_script_of_the_bundle_is_served(tiny: Client) -> None:
    found = [f"/static/{name}.js" for name in ("list", "layer", "compare")]
    for path in found:
        text = tiny.get(f"/viewer{path}").text
        folder = path.rpartition("/")[0]
        for name in re.findall(r"""(?:from|import\(?)"(\./[^"]+\.js)\"""", text):
            target = f"{folder}/{name.removeprefix('./')}"
            if target not in found:
                assert tiny.get(f"/viewer{target}").status_code == 200, target
                found.append(target)
    scripts = {path for path in assets() if path.endswith(".js")}
    assert scripts - set(found) == {"/static/maplibre-worker.js"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_no_script_inserts_markup(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)


def test_scripts_by_hand_are_few() -> None:
    lines = sum(path.read_text("utf-8").count("\n") for path in SCRIPTS)
    # The slider and the player of times need 120, the heat map 90, sources 235, and masks 20 in
    # the form for downloads.
    assert lines <= 3860


def test_bundle_of_the_map_page_is_small(tiny: Client) -> None:
    found = ["/static/layer.js"]
    for path in found:
        folder = path.rpartition("/")[0]
        text = tiny.get(f"/viewer{path}").data.decode()
        # Only what the page loads at once: static imports.
        for name in re.findall(r"""(?:from|import)"(\./[^"]+\.js)\"""", text):
            if (target := f"{folder}/{name.removeprefix('./')}") not in found:
                found.append(target)
    size = sum(
        len(gzip.compress(tiny.get(f"/viewer{path}").data))
        for path in [*found, "/static/layer.css"]
    )
    assert 50_000 < size <= 600_000


def test_licences_of_the_libraries_are_served(tiny: Client) -> None:
    text = tiny.get("/viewer/static/licences.txt").text
    for name in ("ol", "proj4", "maplibre-gl", "geotiff", "pbf", "lit-html"):
        assert re.search(rf"^{name} \d", text, re.MULTILINE), name
    assert "Redistribution and use" in text


def test_lock_file_has_hashes_and_no_hosts() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text("utf-8"))["packages"]
    for name, package in packages.items():
        assert not name or package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


SAME_WORDS = (
    "site source projection style format graticule centre longitude latitude palette viridis "
    "pages contact services collection pixels licence s min h"
)
"""English words and symbols that are also French."""


def test_texts_are_complete_in_every_language() -> None:
    english, french = texts("en"), texts("fr")
    assert english.keys() == french.keys()
    for key, text in english.items():
        placeholders = re.findall(r"{\w+}", text)
        assert sorted(placeholders) == sorted(re.findall(r"{\w+}", french[key])), key
        words = re.sub(r"{\w+}", "", text).lower().split()
        assert text.lower() != french[key].lower() or set(words) <= set(SAME_WORDS.split()), key


def test_every_text_is_used_and_exists() -> None:
    scripts = "".join(path.read_text("utf-8") for path in SCRIPTS)
    package = Path(mastaba_viewer.__file__).parent
    sources = "".join(path.read_text("utf-8") for path in package.glob("*.py"))
    pages = "".join(path.read_text("utf-8") for path in package.glob("templates/*.html"))
    keys = set(texts("en"))
    assert set(re.findall(r"""\bt\("([\w-]+)\"""", scripts)) <= keys
    for key in keys:
        name = f"$t_{key.replace('-', '_')}"
        # These names are composed.
        is_used = (
            key in ("collection", "tileset")
            or key.startswith(("palette-", "kind-", "service-", "job-", "count-"))
            or f'"{key}"' in scripts
            or f'"{key}"' in sources
        )
        assert is_used or re.search(rf"{re.escape(name)}\b", pages), key


def test_language_of_the_browser(tiny: Client) -> None:
    for accept, lang, label in (
        ("fr-CH, fr;q=0.9, en;q=0.8", "fr", "Couche"),
        ("de, en;q=0.5", "en", "Layer"),
        ("fr-FR, en;q=0.5", "fr", "Couche"),
        ("", "en", "Layer"),
    ):
        response = tiny.get("/viewer/RGB_JPG", headers={"Accept-Language": accept})
        assert f'<html lang="{lang}">' in response.text
        assert f'<label for="layer">{label}</label>' in response.text
        assert "Accept-Language" in response.headers["Vary"]


def test_default_titles_of_services_are_translated(tiny: Client, hostile: Client) -> None:
    french = {"Accept-Language": "fr"}
    assert "<b>Service TMS</b>" in tiny.get("/viewer", headers=french).text
    assert "<b>TMS service</b>" in tiny.get("/viewer").text
    assert "<b>TMS of the town</b>" in hostile.get("/viewer", headers=french).text


def test_usual_title_of_a_style_is_translated(tiny: Client) -> None:
    french = {"Accept-Language": "fr"}
    assert "Données stockées (normal)" in tiny.get("/viewer/RGB_JPG", headers=french).text
    assert "Stored data (normal)" in tiny.get("/viewer/RGB_JPG").text


def test_translated_titles_are_those_of_the_services() -> None:
    services = Plugins().services
    titles = {f"service-{name}": services[name].title for name in services}
    translated = {key: value for key, value in texts("en").items() if key.startswith("service-")}
    assert translated == {key: titles[key] for key in translated}


def test_decimals_are_those_of_the_language() -> None:
    assert [three_digits(38.218, lang) for lang in ("en", "fr")] == ["38.2", "38,2"]


@pytest.mark.parametrize("path", ["", "/RGB_JPG", "/compare/RGB_JPG/VECTOR"])
def test_pages_have_no_inline_code_and_no_external_resources(tiny: Client, path: str) -> None:
    page = Elements(tiny.get(f"/viewer{path}").text)
    for tag, attributes in page.found:
        assert tag != "style"
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        is_data = attributes.get("type") == "application/json"
        assert tag != "script" or attributes.get("src") or is_data
        for value in attributes.values():
            # Thumbnails come from other services, everything else from the viewer.
            assert "://" not in (value or "").replace("http://maps.example/front/tms/", "")


def test_scripts_and_style_sheets_refer_to_no_other_host() -> None:
    for path in [*SCRIPTS, *(WEB / "src").rglob("*.css")]:
        text = path.read_text("utf-8")
        # The name of a vocabulary is not an address.
        for name in ("http://www.topografix.com/GPX/1/1", "http://www.opengis.net/def/rel/ogc/1.0"):
            text = text.replace(name, "")
        assert not re.search(r"""["'(]\s*(https?:)?//""", text), path


def test_content_security_policy_is_strict(tiny: Client) -> None:
    for path in (
        "/viewer",
        "/viewer/RGB_JPG",
        "/viewer/compare/RGB_JPG/VECTOR",
        "/viewer/data/layers/RGB_JPG.json",
        "/viewer/static/layer.css",
        "/viewer/nothing",
    ):
        response = tiny.get(path)
        policy = response.headers["Content-Security-Policy"]
        rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
        assert rules == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "worker-src": "'self'",
            "font-src": "'self'",
            "img-src": "'self' http://maps.example",
            "connect-src": "'self' http://maps.example",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'self'",
        }
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["", f"/{HOSTILE_ID}", f"/compare/{HOSTILE_ID}/{HOSTILE_ID}"])
def test_hostile_texts_are_escaped(hostile: Client, path: str) -> None:
    text = hostile.get(f"/viewer{path}").text
    page = Elements(text)
    scripts = page.attributes("script", "src")
    assert len(scripts) == 1
    # The data cannot end their element.
    assert text.count("<script") == len(scripts) + bool(path)
    assert text.lower().count("</script") == len(scripts) + bool(path)
    assert not any(
        name.startswith("on") or name == "style" for _, attrs in page.found for name in attrs
    )
    assert HOSTILE in "".join(page.texts)
    if not path:
        assert page.attributes("li", "data-layer") == [HOSTILE_ID]
        # Title, heading, layer title and abstract.
        assert "".join(page.texts).count(HOSTILE) == 4


def test_hostile_urls_do_not_widen_the_policy(hostile: Client) -> None:
    policy = hostile.get("/viewer").headers["Content-Security-Policy"]
    assert "evil" not in policy
    assert "img-src 'self';" in policy
    assert policy.count("script-src") == 1


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("layer.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("layer.js", "text/javascript; charset=utf-8"),
        ("licences.txt", "text/plain; charset=utf-8"),
    ],
)
def test_files_have_the_right_media_type(tiny: Client, path: str, media_type: str) -> None:
    response = tiny.get(f"/viewer/static/{path}")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == media_type
    etag = response.headers["ETag"]
    again = tiny.get(f"/viewer/static/{path}", headers={"If-None-Match": etag})
    assert again.status_code == 304
    head = tiny.head(f"/viewer/static/{path}")
    assert head.data == b""
    assert int(head.headers["Content-Length"]) == len(response.data)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/layer.html",
        "/templates/layer.html",
        "/static",
        "/static/",
        "/static/templates/layer.html",
        "/static/chunks",
        "/static/build.mjs",
        "/static/../service.py",
        "/static/chunks/../../service.py",
        "/static/chunks/%2e%2e/%2e%2e/service.py",
        "/static/chunks/..%2f..%2fservice.py",
        "/static/chunks/../layer.css",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/static/layer.css%00",
        "/static/layer.css//x",
        "/static/LAYER.CSS",
        "/\\..\\service.py",
        "/compare",
        "/compare/RGB_JPG",
        "/compare/RGB_JPG/nothing",
        "/compare/nothing/RGB_JPG",
        "/RGB_JPG/RGB_PNG",
        "/data",
        "/data/layers",
        "/data/layers/RGB_JPG",
        "/data/layers/nothing.json",
        "/data/stored/nothing/4/0/0",
        "/data/stored/RGB_JPG/5/0/0",
        "/data/stored/RGB_JPG/nothing/0/0",
        "/data/stored/RGB_JPG/4/9/0",
        "/data/stored/RGB_JPG/4/0/9",
        "/data/stored/RGB_JPG/4/-1/0",
        "/data/stored/RGB_JPG/4/x/0",
        "/data/stored/RGB_JPG/4/99999999999999999999/0",
        "/data/stored/RGB_JPG/4/0",
    ],
)
def test_nothing_else_is_served(tiny: Client, path: str) -> None:
    response = tiny.get(f"/viewer{path}")
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"root:" not in response.data
    assert b"import" not in response.data


@pytest.mark.parametrize(
    ("path", "lang", "text"),
    [
        ("/nothing", "en", "There is no layer of this name."),
        ("/compare/RGB_JPG/nothing", "en", "There is no layer of this name."),
        ("/compare/nothing", "fr", "Il n’y a pas"),
        ("/a/b/c", "en", "There is no page at this address."),
        ("/<script>", "fr", "Il n’y a pas de couche de ce nom."),
        ("/data/requests/RGB_JPG", "en", "The page cannot be shown."),
    ],
)
def test_browsers_get_a_page_about_what_is_missing(
    tiny: Client, path: str, lang: str, text: str
) -> None:
    headers = {"Accept": "text/html,*/*;q=0.8", "Accept-Language": lang}
    response = tiny.get(f"/viewer{path}", headers=headers)
    assert response.status_code == (400 if "requests" in path else 404)
    assert response.content_type == "text/html; charset=utf-8"
    assert "Accept" in response.headers["Vary"].split(", ")
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    page = Elements(response.text)
    assert text in "".join(page.texts)
    assert "/front/viewer" in page.attributes("a", "href")
    assert "<script>" not in response.text


def test_other_methods_are_refused(tiny: Client) -> None:
    assert tiny.post("/viewer").status_code == 405


def test_viewer_is_not_in_the_list_of_services(tiny: Client) -> None:
    assert "viewer" not in tiny.get("/").text


def test_filters_are_named_once(tmp_path: Path, open_client: OpenClient) -> None:
    pyramid = ground.one_tile_pyramid(tmp_path)
    words = {"A": ["png", "Relief", "relief"], "B": ["PNG", "relief", "roads"]}
    layers = {name: layer_document(pyramid, keywords=found) for name, found in words.items()}
    client = open_client(write_installation(tmp_path, layers=layers, services=["tms", "viewer"]))
    page = Elements(client.get("/viewer").text)
    assert page.attributes("button", "value") == ["png", "relief", "roads"]
    assert {"PNG", "Relief", "roads"} <= set(page.texts)
