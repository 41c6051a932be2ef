"""Archives of all kinds: hostile ones are refused, unusual ones are served."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.container_pmtiles.test_directories import Entry, written
from tests.sizes import sized

from mastaba.api.containers import Context, IndexCache, OpenedContainer, Source, TileReader
from mastaba.api.storages import FileStorage, ResourcePath
from mastaba.errors import ContainerFormatError, MastabaError, StorageUnavailableError
from mastaba_pmtiles.container import PMTiles

PNG, JPEG, WEBP, AVIF, MVT, MLT = 2, 3, 4, 5, 1, 6
LAYER = b"\x1a\x08\x0a\x04road\x78\x02"


def archive(
    root: list[Entry],
    tiles: bytes = LAYER,
    leaves: bytes = b"",
    metadata: bytes = b"{}",
    *,
    kind: int = MVT,
    zooms: tuple[int, int] = (0, 3),
    codings: tuple[int, int] = (1, 1),
    bounds: tuple[float, ...] = (-180, -85, 180, 85),
    gap: int = 0,
    version: int = 3,
    pack: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """Return an archive of any content; ``gap`` bytes are in front of the root directory."""
    directory, metadata = pack(written(root)), pack(metadata)
    at = [127 + gap]
    for section in (directory, metadata, leaves):
        at.append(at[-1] + len(section))
    header = struct.pack(
        "<7sB8Q3QBBBBBB4iB2i",
        *(b"PMTiles", version, at[0], len(directory), at[1], len(metadata)),
        *(at[2] if leaves else 0, len(leaves), at[3], len(tiles), 0, 0, 0, 0, *codings, kind),
        *(*zooms, *(round(value * 10**7) for value in bounds), 0, 0, 0),
    )
    return header + bytes(gap) + directory + metadata + leaves + tiles


def opened(
    path: Path, data: bytes, warnings: list[str] | None = None, **options: Any
) -> OpenedContainer:
    path.write_bytes(data)
    context = Context(
        IndexCache(1000, 60.0),
        lambda name: pytest.fail(name),
        tuple,
        lambda reason, remedy: (warnings if warnings is not None else []).append(reason),
    )
    return PMTiles.open(
        Source(ResourcePath("file", "", str(path)), FileStorage()), options, context
    )


def reader_of(found: OpenedContainer, level: str) -> TileReader:
    return found.readers[level](found.pyramid.levels[level])


def image(form: str, size: int = 256, mode: str = "RGB") -> bytes:
    images = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    images.new(mode, (size, size), 3 if mode == "L" else None).save(stream, form)
    return stream.getvalue()


ONE: list[Entry] = [(0, 1, len(LAYER), 0)]
LEAF = written([(1, 1, len(LAYER), 0)])
CYCLE = written([(0, 0, 5, 0)])

REFUSED = {
    "version 2": (archive(ONE, version=2), "version 2"),
    "no tiles in it": (b"PMTiles\x03" + bytes(119), "root directory"),
    "shorter than a header": (archive(ONE)[:100], "ends after 100"),
    "a root of 2^63 entries": (archive(ONE).replace(written(ONE), b"\x80" * 5), "number"),
    "zooms in reverse": (archive(ONE, zooms=(3, 1)), "zooms"),
    "zoom 32": (archive(ONE, zooms=(0, 32)), "zooms"),
    "images that are none": (archive(ONE, kind=PNG), "mvt"),
    "no image at all": (archive(ONE, b"\0" * 10, kind=PNG), "neither"),
    "unknown compression of directories": (archive(ONE, codings=(9, 1)), "compression"),
    "a directory that inflates to 65 MiB": (
        archive(ONE, codings=(2, 1), pack=lambda _: gzip.compress(bytes(65 << 20), 1)),
        "inflates to more",
    ),
    "a GeoTIFF": (b"II*\0" + bytes(200), "a GeoTIFF"),
    "an image of 100 pixels": (archive([(0, 1, 309, 0)], b"", kind=PNG), "outside"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_hostile_archives_are_refused(case: str, tmp_path: Path) -> None:
    data, reason = REFUSED[case]
    with pytest.raises(ContainerFormatError, match=reason) as caught:
        opened(tmp_path / "a.pmtiles", data)
    assert caught.value.remedy or "correct its path" in str(caught.value)


@pytest.mark.parametrize(
    ("root", "leaves"),
    [
        ([(0, 0, len(CYCLE), 0)], CYCLE),
        ([(1, 0, 4, 0)], LEAF),
        ([(2, 0, len(LEAF), 0)], LEAF),
        ([(1, 0, 90, 0)], LEAF),
    ],
    ids=["cycle", "cut off", "not between its entries", "behind the section"],
)
def test_hostile_leaves_are_refused(root: list[Entry], leaves: bytes, tmp_path: Path) -> None:
    def read_all() -> None:
        found = opened(tmp_path / "a.pmtiles", archive(root, leaves=leaves))
        for level, place in (("0", (0, 0)), ("1", (0, 0)), ("1", (1, 0))):
            reader_of(found, level).locate(*place)

    with pytest.raises(ContainerFormatError):
        read_all()


def test_leaves_of_three_levels_are_read(tmp_path: Path) -> None:
    leaves, root = LEAF, [(1, 0, len(LEAF), 0)]
    for _ in range(2):
        upper = written(root)
        root = [(1, 0, len(upper), len(leaves))]
        leaves += upper
    found = opened(tmp_path / "a.pmtiles", archive(root, leaves=leaves))
    tile = reader_of(found, "1").locate(0, 0)
    assert tile is not None
    assert tile.read() == LAYER
    deeper = written(root)
    data = archive([(1, 0, len(deeper), len(leaves))], leaves=leaves + deeper)
    with pytest.raises(ContainerFormatError, match="deeper than 4"):
        reader_of(opened(tmp_path / "b.pmtiles", data), "1").locate(0, 0)


def test_runs_give_one_tile_many_places(tmp_path: Path) -> None:
    found = opened(tmp_path / "a.pmtiles", archive([(1, 84, len(LAYER), 0)]))
    places = [(row, column) for row in range(2) for column in range(2)]
    tiles = reader_of(found, "1").locate_all(places)
    assert len({tile.identity for tile in tiles if tile}) == 1
    assert reader_of(found, "0").locate(0, 0) is None


@pytest.mark.parametrize(
    ("kind", "form", "mode", "name", "channels"),
    [
        (PNG, "PNG", "RGBA", "image/png", 4),
        (JPEG, "JPEG", "L", "image/jpeg", 1),
        (WEBP, "WEBP", "RGB", "image/webp", 3),
        (AVIF, "AVIF", "RGB", "image/avif", 3),
        (0, "PNG", "RGB", "image/png", 3),
    ],
)
def test_images_are_those_of_the_first_tile(
    kind: int, form: str, mode: str, name: str, channels: int, tmp_path: Path
) -> None:
    data = image(form, 256, mode)
    found = opened(tmp_path / "a.pmtiles", archive([(0, 1, len(data), 0)], data, kind=kind))
    pyramid = found.pyramid
    assert pyramid.format.media_type == name
    assert pyramid.raster is not None
    assert pyramid.raster.channels == channels
    tile = reader_of(found, "0").locate(0, 0)
    assert tile is not None
    assert tile.read() == data


def test_images_of_512_pixels_have_a_set_of_their_own(tmp_path: Path) -> None:
    data = image("PNG", 512)
    found = opened(tmp_path / "a.pmtiles", archive([(0, 1, len(data), 0)], data, kind=PNG))
    tile_matrix_set = found.pyramid.tile_matrix_set
    assert tile_matrix_set.id == "WebMercatorQuad512"
    assert tile_matrix_set.matrices["0"].cell_size == pytest.approx(78271.51696)


def test_unusual_archives_are_served_with_a_warning(tmp_path: Path) -> None:
    cases = {
        "root directory": archive(ONE, gap=20_000),
        "bounds": archive(ONE, bounds=(10, 5, 3, 4)),
        "metadata": archive(ONE, metadata=b"{"),
        "zooms 25 to 26": archive(ONE, zooms=(0, 26)),
    }
    for number, (word, data) in enumerate(cases.items()):
        warnings: list[str] = []
        found = opened(tmp_path / f"{number}.pmtiles", data, warnings)
        assert len(warnings) == 1
        assert word in warnings[0]
        assert reader_of(found, "0").locate(0, 0) is not None


def test_tables_and_texts_are_those_of_the_metadata(tmp_path: Path) -> None:
    metadata = {
        "name": "Roads <b>2</b>",
        "attribution": '<a href="https://x.org">&copy; X</a>',
        "vector_layers": [{"id": "road", "fields": {"lanes": "Number"}, "minzoom": 1}],
    }
    data = archive(ONE, metadata=json.dumps(metadata).encode())
    found = opened(tmp_path / "a.pmtiles", data)
    assert (found.title, found.attribution) == ("Roads 2", "© X")
    assert found.attribution_url == "https://x.org"
    tables = {name: [t.name for t in one.tables] for name, one in found.pyramid.levels.items()}
    assert tables == {"0": [], "1": ["road"], "2": ["road"], "3": ["road"]}
    other = opened(tmp_path / "a.pmtiles", data, tables=[{"id": "street", "maxzoom": 0}])
    tables = {name: [t.name for t in one.tables] for name, one in other.pyramid.levels.items()}
    assert tables == {"0": ["street"], "1": [], "2": [], "3": []}


def test_another_kind_of_tiles_is_not_served_until_the_reload(tmp_path: Path) -> None:
    path = tmp_path / "a.pmtiles"
    reader = reader_of(opened(path, archive(ONE)), "0")
    reader = reader.moved(FileStorage(), IndexCache(10, 60.0))
    data = image("PNG")
    path.write_bytes(archive([(0, 1, len(data), 0)], data, kind=PNG))
    with pytest.raises(StorageUnavailableError, match="reload to publish"):
        reader.locate(0, 0)


@pytest.mark.thorough
def test_mutated_archives_never_fail_otherwise(tmp_path: Path) -> None:
    chosen = random.Random(7)
    leaves = b"".join(written([(n, 1, len(LAYER), 0)]) for n in range(1, 5))
    size = len(leaves) // 4
    root: list[Entry] = [(0, 1, len(LAYER), 0)]
    root += [(n, 0, size, (n - 1) * size) for n in range(1, 5)]
    whole = archive(root, leaves=leaves)
    for number in range(sized(1500, 10_000)):
        data = bytearray(whole)
        for _ in range(chosen.choice((1, 1, 2, 8))):
            data[chosen.randrange(len(data))] = chosen.choice((0, 1, 127, 128, 255, number & 255))
        with suppress(MastabaError):
            found = opened(tmp_path / "a.pmtiles", bytes(data))
            for level in found.pyramid.levels.values():
                reader = found.readers[level.matrix.id](level)
                reader.locate(level.limits.min_row, level.limits.min_col)
