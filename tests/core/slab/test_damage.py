"""Damaged slabs: a suitable error and one log line that names the slab; the server continues."""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba.slab.index import index_length
from mastaba_writer.slab_names import slab_path

LEVEL, ROW, COL = "3", 2, 4
HEALTHY = "/tiles/RGB_JPG/normal/4/5/9"


@pytest.fixture
def slab_of(tmp_path: Path, tiles: Client) -> Callable[[str], Path]:
    """Return a function that returns the path of the slab with the tested tile of a layer."""

    def find(layer: str) -> Path:
        (level,) = tmp_path.glob(f"*/pyramids/{layer}/DATA/{LEVEL}")
        return level / slab_path(COL // 2, ROW // 2)

    return find


def address(layer: str, style: str = "normal") -> str:
    return f"/tiles/{layer}/{style}/{LEVEL}/{ROW}/{COL}"


def patch(slab: Path, position: int, data: bytes) -> None:
    with slab.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)


def entry(kind: str, number: int = 0, count: int = 4) -> int:
    return 2048 + 4 * number + (4 * count if kind == "size" else 0)


def damage_short_header(slab: Path) -> None:
    os.truncate(slab, 100)


def damage_short_index(slab: Path) -> None:
    os.truncate(slab, index_length(4) - 1)


def damage_no_tiles(slab: Path) -> None:
    os.truncate(slab, index_length(4))


def damage_tile_cut(slab: Path) -> None:
    os.truncate(slab, index_length(4) + 10)


def damage_offset_in_header(slab: Path) -> None:
    patch(slab, entry("offset"), struct.pack("<I", 100))


def damage_offset_zero(slab: Path) -> None:
    patch(slab, entry("offset"), bytes(4))


def damage_offset_in_index(slab: Path) -> None:
    patch(slab, entry("offset"), struct.pack("<I", index_length(4) - 1))


def damage_offset_beyond_end(slab: Path) -> None:
    patch(slab, entry("offset"), struct.pack("<I", 2**32 - 1))


def damage_size_beyond_end(slab: Path) -> None:
    patch(slab, entry("size"), struct.pack("<I", 2**20))


def damage_absurd_size(slab: Path) -> None:
    patch(slab, entry("size"), struct.pack("<I", 2**32 - 1))


def damage_not_a_slab(slab: Path) -> None:
    slab.write_bytes(b"<html>not found</html>" * 1000)


def damage_zeros(slab: Path) -> None:
    slab.write_bytes(bytes(100_000))


def damage_symbolic_text(slab: Path) -> None:
    # Files are never symbolic slabs: the file system has its own links.
    slab.write_bytes(b"SYMLINK#maps/other")


def damage_directory(slab: Path) -> None:
    slab.unlink()
    slab.mkdir()


def damage_pipe(slab: Path) -> None:
    slab.unlink()
    os.mkfifo(slab)


DAMAGES = [value for name, value in list(globals().items()) if name.startswith("damage_")]


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_slab_is_a_server_error_with_one_log_line_that_names_it(
    damage: Callable[[Path], None],
    tiles: Client,
    slab_of: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    slab = slab_of("RGB_JPG")
    damage(slab)

    for _ in range(2):
        caplog.clear()
        response = tiles.get(address("RGB_JPG"))

        assert response.status_code == 500
        assert str(slab) not in response.text
        assert "Traceback" not in response.text
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert str(slab) in record.getMessage()
        assert record.exc_info is None
        assert tiles.get(HEALTHY).status_code == 200


@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize("damage", DAMAGES)
def test_repaired_slab_is_served_at_once(
    damage: Callable[[Path], None], tiles: Client, slab_of: Callable[[str], Path]
) -> None:
    """The index of a damaged slab is not kept until its validity ends, minutes later."""
    slab = slab_of("RGB_JPG")
    whole, before = slab.read_bytes(), tiles.get(address("RGB_JPG")).data
    for in_place in (True, False):
        damage(slab)
        # A link or a rename would leave the whole slab open: damage is found once it is read
        # again.
        for _ in range(2):
            tiles.application.site.catalogue.indices.clear()  # type: ignore[union-attr]
            assert tiles.get(address("RGB_JPG")).status_code == 500
            assert tiles.get(address("RGB_JPG")).status_code == 500
        if not slab.is_file():
            slab.rmdir() if slab.is_dir() else slab.unlink()
        if in_place:
            slab.write_bytes(whole)
        else:
            slab.with_suffix(".new").write_bytes(whole)
            slab.with_suffix(".new").rename(slab)
        assert tiles.get(address("RGB_JPG")).data == before


def test_empty_slab_is_an_absent_tile(
    tiles: Client, slab_of: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    os.truncate(slab_of("RGB_JPG"), 0)

    assert tiles.get(address("RGB_JPG")).status_code == 404
    assert caplog.records == []


def test_tile_of_size_0_is_an_absent_tile(tiles: Client, slab_of: Callable[[str], Path]) -> None:
    patch(slab_of("RGB_JPG"), entry("size"), bytes(4))

    assert tiles.get(address("RGB_JPG")).status_code == 404


def test_slab_truncated_after_its_index_was_read_is_an_error_until_it_is_restored(
    tiles: Client, slab_of: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    slab = slab_of("RGB_JPG")
    original, before = slab.read_bytes(), tiles.get(address("RGB_JPG")).data
    os.truncate(slab, index_length(4) + 10)

    assert tiles.get(address("RGB_JPG")).status_code == 500
    assert [str(slab) in record.getMessage() for record in caplog.records] == [True]

    slab.write_bytes(original)
    assert tiles.get(address("RGB_JPG")).data == before


def test_healthy_tile_of_a_damaged_slab_is_served(
    tiles: Client, slab_of: Callable[[str], Path]
) -> None:
    damage_offset_in_header(slab_of("RGB_JPG"))

    assert tiles.get(f"/tiles/RGB_JPG/normal/{LEVEL}/{ROW}/{COL + 1}").status_code == 200


def tile_start(slab: Path) -> int:
    return int.from_bytes(slab.read_bytes()[entry("offset") :][:4], "little")


def test_tile_that_cannot_take_a_palette_is_an_error_that_names_slab_and_tile(
    tiles: Client, slab_of: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    slab = slab_of("GREY_PNG")
    patch(slab, tile_start(slab), b"GIF89a")

    assert tiles.get(address("GREY_PNG", "ember")).status_code == 500
    (record,) = caplog.records
    assert f"{slab}: tile 0" in record.getMessage()
    assert record.exc_info is None


@pytest.mark.parametrize("position", [0, 1, 40])
def test_tile_that_cannot_be_inflated_is_an_error_that_names_slab_and_tile(
    position: int,
    tiles: Client,
    slab_of: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    slab = slab_of("FLOAT32_ZIP")
    patch(slab, tile_start(slab) + position, b"\xff" * 20)

    response = tiles.get(address("FLOAT32_ZIP"), headers={"Accept-Encoding": "gzip"})

    assert response.status_code == 500
    (record,) = caplog.records
    assert f"{slab}: tile 0" in record.getMessage()
    assert record.exc_info is None


def test_zip_bomb_is_not_inflated(
    tiles: Client, slab_of: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    slab = slab_of("FLOAT32_ZIP")
    bomb = zlib.compress(bytes(64 * 1024 * 1024), 9)
    start = slab.stat().st_size
    patch(slab, start, bomb)
    patch(slab, entry("offset"), struct.pack("<I", start))
    patch(slab, entry("size"), struct.pack("<I", len(bomb)))

    response = tiles.get(address("FLOAT32_ZIP"), headers={"Accept-Encoding": "gzip"})

    assert response.status_code == 500
    assert f"{slab}: tile 0" in caplog.text


def test_a_damaged_layer_does_not_affect_another_layer(
    tiles: Client, slab_of: Callable[[str], Path]
) -> None:
    before: dict[str, Any] = {
        layer: tiles.get(address(layer)).data for layer in ("RGB_PNG", "RGB_RAW")
    }
    damage_zeros(slab_of("RGB_PNG"))

    assert tiles.get(address("RGB_PNG")).status_code == 500
    assert tiles.get(address("RGB_RAW")).data == before["RGB_RAW"]
