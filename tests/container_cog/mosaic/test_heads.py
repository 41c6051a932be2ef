"""Tables with the first bytes of files: nothing is read to open these."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.container_cog.files import context_of, reader_of
from tests.container_cog.mosaic.ground import geojson, geopackage, mosaic_pixels, opened, sheets
from tests.containers.stores import store_of

from mastaba.api.containers import Source
from mastaba.api.storages import Environment, FileStorage, ResourcePath, StoragePool
from mastaba.commands.main import main
from mastaba.errors import ContainerFormatError
from mastaba.plugins.manager import Plugins
from mastaba_cog.mosaic.container import MosaicContainer
from mastaba_conformance.counting_storage import CountingStorage

SHEETS = sheets(size=512)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for sheet in SHEETS:
        sheet.write(tmp_path, COMPRESS="JPEG", BLOCKSIZE=256)
    geopackage(tmp_path / "index.gpkg", SHEETS)
    return tmp_path / "index.gpkg"


def counted(table: Path) -> tuple[Any, CountingStorage]:
    """Return the reader of the finest level, and what counts the reads of its files."""
    found = opened(table)
    reader = reader_of(found)
    counting = CountingStorage(FileStorage())
    members = reader.mosaic.members
    reader.mosaic.members = members.again(lambda path: counting)
    return reader, counting


def tile(reader: Any, right: int, down: int) -> Any:
    limits = reader.level.limits
    found = reader.locate(limits.min_row + down, limits.min_col + right)
    assert found is not None
    return found.read()


def test_a_cold_file_costs_one_read(table: Path) -> None:
    without, counting = counted(table)
    expected = [tile(without, right, down) for right in (0, 2) for down in (0, 2)]
    assert len(counting.reads) == 8
    pixels = mosaic_pixels(opened(table))
    assert main(["mosaic", "heads", str(table)]) == 0
    reader, counting = counted(table)
    assert [tile(reader, right, down) for right in (0, 2) for down in (0, 2)] == expected
    assert len(counting.reads) == 4
    np.testing.assert_array_equal(mosaic_pixels(opened(table)), pixels)
    with sqlite3.connect(table) as database:
        sizes = [size for (size,) in database.execute('SELECT length(header) FROM "index"')]
    assert max(sizes) < 4096


def test_a_replaced_file_is_read_as_usual(table: Path) -> None:
    assert main(["mosaic", "heads", str(table)]) == 0
    reader, counting = counted(table)
    before = tile(reader, 0, 0)
    other = sheets(size=512, seed=90)[0]
    other.write(table.parent, COMPRESS="JPEG", BLOCKSIZE=256)
    # As after the seconds of the option refresh.
    reader.mosaic.members._open.clear()
    after, expected = tile(reader, 0, 0), tile(counted(table)[0], 0, 0)
    assert before != after
    assert after == expected
    counting.clear()
    tile(reader, 0, 0)
    assert len(counting.reads) == 1


@pytest.mark.parametrize("change", ["version", "header"])
def test_a_header_that_does_not_fit_is_not_used(table: Path, change: str) -> None:
    expected = mosaic_pixels(opened(table))
    assert main(["mosaic", "heads", str(table)]) == 0
    values = {"version": "'1-2'", "header": "x'49492a0008000000ffff'"}
    with sqlite3.connect(table) as database:
        database.execute(f'UPDATE "index" SET {change} = {values[change]}')
    np.testing.assert_array_equal(mosaic_pixels(opened(table)), expected)


def test_headers_of_a_text_are_in_base64(table: Path) -> None:
    document = json.loads(geojson(SHEETS))
    storage = FileStorage()
    for feature in document["features"]:
        path = table.parent / feature["properties"]["path"]
        feature["properties"] |= {
            "header": base64.b64encode(path.read_bytes()[:8192]).decode(),
            "version": storage.stat(str(path)).version,
        }
    text = table.parent / "table.json"
    text.write_text(json.dumps(document))
    reader, counting = counted(text)
    tile(reader, 0, 0)
    assert len(counting.reads) == 1


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"header": "AAAA"}, "without the version"),
        ({"header": "%", "version": "1"}, "Base64"),
        ({"header": "A" * 65536, "version": "1"}, "at most 32768 bytes"),
        ({"header": 7, "version": "1"}, "Base64"),
    ],
)
def test_headers_that_are_refused(table: Path, facts: dict[str, Any], reason: str) -> None:
    text = table.parent / "table.json"
    text.write_bytes(geojson(SHEETS, **facts))
    with pytest.raises(ContainerFormatError, match=reason) as error:
        opened(text)
    assert "mastaba mosaic heads" in error.value.remedy


def test_absent_files_have_no_head(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table.parent / SHEETS[0].name).unlink()
    assert main(["mosaic", "heads", str(table)]) == 1
    assert SHEETS[0].name in capsys.readouterr().err
    with sqlite3.connect(table) as database:
        found = database.execute('SELECT header IS NULL FROM "index" ORDER BY fid').fetchall()
    assert found == [(1,), (0,), (0,), (0,)]
    (table.parent / "no.gpkg").write_bytes(b"nothing")
    assert main(["mosaic", "heads", str(table.parent / "no.gpkg")]) == 1
    absent = table.parent / "absent?mode=rwc#1.gpkg"
    assert main(["mosaic", "heads", str(absent)]) == 1
    assert "unable to open" in capsys.readouterr().err
    assert not list(table.parent.glob("absent*"))


def test_a_replaced_object_is_noticed_at_its_next_tile(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_of("s3", table.parent, monkeypatch) as store:
        pool = StoragePool(Plugins().storages, Environment())
        storage = pool.open("s3", "maps")
        document = json.loads(geojson(SHEETS))
        for feature in document["features"]:
            name = feature["properties"]["path"]
            data = (table.parent / name).read_bytes()
            store.put(name, data)
            feature["properties"] |= {
                "header": base64.b64encode(data[:8192]).decode(),
                "version": storage.stat(name).version,
            }
        store.put("table.json", json.dumps(document).encode())
        source = Source(ResourcePath("s3", "maps", "table.json"), storage)
        reader = reader_of(MosaicContainer.open(source, {}, context_of()))
        counting = CountingStorage(storage)
        reader.mosaic.members = reader.mosaic.members.again(lambda path: counting)
        before = tile(reader, 0, 0)
        assert len(counting.reads) == 1
        sheets(size=512, seed=90)[0].write(table.parent, COMPRESS="JPEG", BLOCKSIZE=256)
        store.put(SHEETS[0].name, (table.parent / SHEETS[0].name).read_bytes())
        after = tile(reader, 0, 0)
        assert after != before
        assert after == tile(counted(table)[0], 0, 0)
        pool.close()
