"""Tiles are recognized by their bytes, and nothing inflates beyond its limit."""

from __future__ import annotations

import gzip
import io
import zlib

import pytest

from mastaba.errors import ContainerFormatError
from mastaba_containers.inflating import inflated
from mastaba_containers.metadata import parsed_metadata, plain_text, vector_tables
from mastaba_containers.payloads import Payload, sniffed

LAYER = b"\x1a\x08\x0a\x04road\x78\x02"


@pytest.mark.parametrize(
    ("form", "mode", "channels"),
    [
        ("PNG", "L", 1),
        ("PNG", "LA", 2),
        ("PNG", "RGB", 3),
        ("PNG", "RGBA", 4),
        ("PNG", "P", 3),
        ("JPEG", "L", 1),
        ("JPEG", "RGB", 3),
        ("JPEG", "CMYK", 4),
        ("WEBP", "RGB", 3),
        ("WEBP", "RGBA", 4),
        ("AVIF", "RGB", 3),
    ],
)
def test_images_are_recognized(form: str, mode: str, channels: int) -> None:
    images = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image = images.new(mode, (48, 32), 1 if mode in "LP" else None)
    if mode == "RGBA":
        image.putpixel((0, 0), (1, 2, 3, 4))
    image.save(stream, form)
    found = sniffed(stream.getvalue())
    assert found is not None
    assert (found.kind, found.width, found.height) == (form.lower(), 48, 32)
    assert found.channels == channels
    assert sniffed(stream.getvalue()[:9]) is None


def test_vector_tiles_are_recognized_with_and_without_gzip() -> None:
    assert sniffed(LAYER) == Payload("mvt")
    assert sniffed(gzip.compress(LAYER)) == Payload("mvt", "gzip")
    # A name, and a layer, of a type of fixed size.
    fixed = b"\x1a\x05\x0d\x01\x02\x03\x04", LAYER + b"\x1d\x0a\x02ab"
    invalid = b"", LAYER[:-1], b"\x1a\x02\x78\x02", b"<html>", b"\x1a" + b"\xff" * 12
    for other in (*invalid, *fixed):
        assert sniffed(other) is None


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_inflates_beyond_the_limit_is_refused(coding: str) -> None:
    data = bytes(5_000_000)
    small = gzip.compress(data) if coding == "gzip" else zlib.compress(data)
    assert inflated(small, len(data), coding) == data
    for broken in (small[:-1], small[:20], small + b"x", b""):
        with pytest.raises(ContainerFormatError):
            inflated(broken, len(data), coding)
    with pytest.raises(ContainerFormatError, match="more than 4999999"):
        inflated(small, len(data) - 1, coding)


def test_text_has_no_markup() -> None:
    html = '<a href="https://x.org">&copy; Roads</a><script>alert(1)</script>\n by\0 all'
    assert plain_text(html) == "© Roads by all"
    assert plain_text(["no"]) == ""


def test_tables_are_those_of_vector_layers_and_tilestats() -> None:
    document = {
        "vector_layers": [
            {"id": "road", "fields": {"lanes": "Number"}, "minzoom": 3, "maxzoom": 5},
            {"id": 7},
            "none",
        ],
        "tilestats": {
            "layers": [
                {
                    "layer": "road",
                    "geometry": "LineString",
                    "attributes": [{"attribute": "lanes", "count": 2, "min": 1, "max": 4}],
                }
            ]
        },
    }
    (found,) = vector_tables(document)
    assert (found.min_zoom, found.max_zoom, found.table.geometry) == (3, 5, "LINESTRING")
    (attribute,) = found.table.attributes
    assert (attribute.name, attribute.count, attribute.maximum) == ("lanes", 2, 4.0)


def test_metadata_have_at_most_64_levels() -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    assert parsed_metadata(nested(64)).keys() == {"a"}
    with pytest.raises(ContainerFormatError, match="its metadata is nested deeper than 64 levels"):
        parsed_metadata(nested(65))


@pytest.mark.parametrize(
    "data", [b"[]", b"{", b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", b"[" * 2_000_000, b"\xff"]
)
def test_unusable_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(ContainerFormatError):
        parsed_metadata(data)
