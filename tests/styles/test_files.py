"""Glyphs and sprites: ranges, fonts of a list, conditions, and paths that lead elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.styles.conftest import OpenClient
from werkzeug.test import Client

from mastaba_styles import files
from mastaba_styles.glyphs import Glyph, encoded_range

GLYPHS = "/styles/glyphs"


def test_a_range_is_the_file(client: Client, tmp_path: Path) -> None:
    answer = client.get(f"{GLYPHS}/Plain Regular/0-255.pbf")
    assert answer.data == (tmp_path / "fonts/Plain Regular/0-255.pbf").read_bytes()
    assert answer.content_type == "application/x-protobuf"
    assert answer.headers["Cache-Control"] == "public, max-age=86400"


def test_glyphs_are_from_the_first_font_that_has_them(client: Client) -> None:
    answer = client.get(f"{GLYPHS}/Plain Regular,Gone,Other Regular/0-255.pbf")
    name = "Plain Regular, Other Regular"
    glyphs = [
        Glyph(ord(code), bitmap * 49, 1, 1, 0, 0, 9)
        for code, bitmap in (("a", b"P"), ("b", b"P"), ("c", b"O"))
    ]
    assert answer.data == encoded_range(name, 0, glyphs)


def test_an_unknown_font_is_replaced(client: Client) -> None:
    default = client.application.site.services["stylesheets"]._fonts.default
    given = client.get(f"{GLYPHS}/Gone Bold/0-255.pbf")
    assert given.data == client.get(f"{GLYPHS}/{default}/0-255.pbf").data
    assert given.data


def test_a_range_that_no_font_has_is_empty(client: Client) -> None:
    answer = client.get(f"{GLYPHS}/Plain Regular/1024-1279.pbf")
    assert (answer.status_code, answer.data) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "Plain Regular/1-256.pbf",
        "Plain Regular/0-255.txt",
        "Plain Regular/00-255.pbf",
        "Plain Regular/../../secret",
        "..%2F..%2Fsecret/0-255.pbf/x",
        f"{'Plain Regular,' * 9}/0-255.pbf",
        "Plain Regular/99999999999999999999-255.pbf",
    ],
)
def test_other_names_of_ranges_are_client_errors(client: Client, path: str) -> None:
    assert client.get(f"{GLYPHS}/{path}").status_code in (400, 404)


def test_nothing_outside_of_the_directories_is_read(
    installation: Callable[..., Path], open_client: OpenClient, tmp_path: Path
) -> None:
    server_json = installation()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0-255.pbf").write_bytes(b"secret")
    (tmp_path / "fonts/Leak").symlink_to(outside)
    (tmp_path / "fonts/Plain Regular/256-511.pbf").symlink_to(outside / "0-255.pbf")
    (tmp_path / "sprites/leak.json").symlink_to(outside / "0-255.pbf")
    (tmp_path / "sprites/leak.png").symlink_to(outside / "0-255.pbf")
    client = open_client(server_json)
    for path in ("glyphs/Leak/0-255.pbf", "glyphs/Plain Regular/256-511.pbf", "sprites/leak.json"):
        assert b"secret" not in client.get(f"/styles/{path}").data


def test_unmodified_files_are_not_read(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = (f"{GLYPHS}/Plain Regular/0-255.pbf", "/styles/sprites/icons.png")
    etags = {path: client.get(path).headers["ETag"] for path in paths}
    monkeypatch.setattr(files, "open", None, raising=False)
    for path, etag in etags.items():
        for condition in (etag, f'"other", W/{etag}'):
            answer = client.get(path, headers={"If-None-Match": condition})
            assert (answer.status_code, answer.headers["ETag"]) == (304, etag)


def test_a_changed_file_has_another_etag(client: Client, tmp_path: Path) -> None:
    path = f"{GLYPHS}/Plain Regular/0-255.pbf"
    etag = client.get(path).headers["ETag"]
    (tmp_path / "fonts/Plain Regular/0-255.pbf").write_bytes(b"new")
    answer = client.get(path, headers={"If-None-Match": etag})
    assert (answer.status_code, answer.data) == (200, b"new")


def test_sprites_of_usual_screens_serve_fine_ones(client: Client, tmp_path: Path) -> None:
    path = "/styles/sprites/icons@2x.png"
    assert client.get(path).data == b"png"
    (tmp_path / "sprites/icons@2x.png").write_bytes(b"fine")
    assert client.get(path).data == b"png"
    (tmp_path / "sprites/icons@2x.json").write_text("{}")
    assert client.get(path).data == b"fine"
    assert client.get("/styles/sprites/icons@2x.json").get_json() == {}
    assert client.get("/styles/sprites/icons.txt").status_code == 404
