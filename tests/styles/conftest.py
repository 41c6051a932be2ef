"""Installations with vector layers, their styles, fonts and sprites."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba_styles.glyphs import Glyph, encoded_range

OpenClient = Callable[[Path], Client]
PUBLIC_URL = "http://maps.example"
STYLE: dict[str, Any] = {
    "version": 8,
    "name": "Streets",
    "glyphs": "https://elsewhere.example/{fontstack}/{range}.pbf",
    "sprite": "https://elsewhere.example/icons",
    "sources": {
        "anything": {"type": "vector", "url": "https://elsewhere.example/tiles.json"},
        "RGB_PNG": {"type": "raster"},
        "foreign": {"type": "raster", "tiles": ["https://elsewhere.example/{z}/{x}/{y}.png"]},
    },
    "layers": [
        {"id": "picture", "type": "raster", "source": "RGB_PNG"},
        {"id": "foreign", "type": "raster", "source": "foreign"},
        {"id": "areas", "type": "fill", "source": "anything", "source-layer": "tiles"},
        {
            "id": "names",
            "type": "symbol",
            "source": "anything",
            "source-layer": "centres",
            "layout": {"text-field": "{name}"},
        },
    ],
}


def write_fonts(directory: Path) -> Path:
    """Write two fonts: of the second one, only the letter b differs, and it has a c."""
    for name, codes in (("Plain Regular", "ab"), ("Other Regular", "bc")):
        glyphs = [Glyph(ord(code), name[:1].encode() * 49, 1, 1, 0, 0, 9) for code in codes]
        folder = directory / name
        folder.mkdir(parents=True)
        (folder / "0-255.pbf").write_bytes(encoded_range(name, 0, glyphs))
    return directory


def write_sprite(directory: Path) -> Path:
    """Write a sprite, for usual screens only."""
    directory.mkdir()
    (directory / "icons.json").write_text('{"dot": {"x": 0}}')
    (directory / "icons.png").write_bytes(b"png")
    return directory


@pytest.fixture
def installation(tmp_path: Path) -> Callable[..., Path]:
    """Write the tiny installation whose vector layer has two styles; returns server.json.

    Arguments are the default style, the services besides, and further settings of styles.
    """

    def write(style: Any = STYLE, services: tuple[str, ...] = ("tms",), **settings: Any) -> Path:
        own = {
            "enabled": True,
            "endpoint_uri": f"{PUBLIC_URL}/styles",
            "fonts": str(write_fonts(tmp_path / "fonts")),
            "sprites": str(write_sprite(tmp_path / "sprites")),
            **settings,
        }
        server_json = tiny_installation(
            tmp_path,
            services=list(services),
            public_url=PUBLIC_URL,
            services_overrides={"stylesheets": own},
        )
        named = []
        for name, content in (("streets", style), ("night", STYLE | {"name": "Night"})):
            path = tmp_path / f"{name}.json"
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text)
            named.append(str(path))
        layer = next(tmp_path.rglob("layers/VECTOR.json"))
        layer.write_text(json.dumps(json.loads(layer.read_text()) | {"style": named}))
        return server_json

    return write


@pytest.fixture
def client(installation: Callable[..., Path], open_client: OpenClient) -> Client:
    return open_client(installation())
