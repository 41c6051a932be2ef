"""How large an export will be: exact where stored tiles are copied."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from mastaba.api.web import check_wanted
from mastaba_export.formats import GRIDDED_TILES
from mastaba_export.sources import StoredTiles
from mastaba_export.writers.sets import set_document

if TYPE_CHECKING:
    from mastaba.api.catalogue import TileMatrixSet
    from mastaba_export.formats import TileKind
    from mastaba_export.levels import ExportLevel
    from mastaba_export.sources import DrawnTiles

Estimate: TypeAlias = dict[str, Any]
"""Keys ``tiles``, ``bytes``, ``payload_bytes``, ``source_reads``, ``source_bytes``, ``seconds`` and
``levels``; ``is_exact`` is false if slabs or tiles were sampled. ``interval`` contains the bytes
with a probability of 95 %. All but ``tiles`` includes the masks of a smaller pyramid."""

MOST_INDICES: Final = 50_000
"""Slabs of a level whose indices are all read; of more, as many are sampled."""
_SAMPLED_TILES: Final = 64
_SPAN: Final = 8 * 1024 * 1024
_TILES_PER_SECOND: Final = 4000
_BYTES_PER_SECOND: Final = 100e6
_DRAWN_PER_SECOND: Final = 100
_DOCUMENTS: Final = 2048
"""Bytes of the descriptor of a pyramid, about."""
_FILES, _LEVEL = 1140, 128
"""Bytes of the documents of a directory, about: without its levels and its set, and of a level."""
_METADATA: Final = 384
"""Bytes of the metadata of PMTiles, compressed, about."""
_POINTER: Final = 10
"""Bytes of a page that name another one, about."""
_REPEATED_TILES: Final = 256
"""So many tiles show how much is free at the ends of pages."""
PAGE: Final = 32768
"""Bytes of a page of an archive in SQLite."""


class Sizer(Protocol):
    """Adds up the bytes of a file."""

    def add(self, sizes: Sequence[int], times: int = 1) -> None:
        """Add tiles, in the order of the archive; some for all those that they stand for.

        Args:
            times: as often as the tiles follow each other. The work does not grow with it.
        """

    def total(self) -> int:
        """Return the bytes of the file."""


class PMTilesSizer:
    """A PMTiles file: 16 KiB, tiles, and about 4 bytes in the directories for each."""

    def __init__(self) -> None:
        self._size = self._tiles = 0

    def add(self, sizes: Sequence[int], times: int = 1) -> None:
        self._size += times * sum(sizes)
        self._tiles += times * len(sizes)

    def total(self) -> int:
        leaves = 4 * self._tiles if self._tiles > 4096 else 0
        return 16384 + self._size + leaves + _METADATA


class SQLiteSizer:
    """A database: rows in leaf pages, whose rest is on overflow pages (SQLite file format 1.6).

    Args:
        rows: bytes that each tile takes in other tables.
        pages: of a database without tiles, less the one that the first tile fills.
    """

    def __init__(self, rows: int, pages: int = 3) -> None:
        self._rows = rows
        self._empty = pages
        self._tiles = self._pages = self._left = self._repeated = self._leaves = 0

    def add(self, sizes: Sequence[int], times: int = 1) -> None:
        # The growth of some rounds stands for the others, but not that of the first one: it fills
        # what is left of a page.
        rounds = min(times, max(2, _REPEATED_TILES // max(len(sizes), 1)))
        self._add(sizes)
        before = self._taken
        for _ in range(rounds - 1):
            self._add(sizes)
        if times > rounds:
            self._repeated += (times - rounds) * (self._taken - before) // (rounds - 1)
        self._tiles += times * len(sizes)

    def _add(self, sizes: Sequence[int]) -> None:
        most, least = PAGE - 35, (PAGE - 12) * 32 // 255 - 23
        for size in sizes:
            payload = size + 8
            local = payload
            if payload > most:
                local = least + (payload - least) % (PAGE - 4)
                local = local if local <= most else least
                self._pages += -(-(payload - local) // (PAGE - 4))
            cell = local + 10
            if cell > self._left:
                self._pages += 1
                self._leaves += 1
                self._left = PAGE - 8
            self._left -= cell

    def total(self) -> int:
        pages = self._pages + self._repeated // (PAGE - 8)
        if self._leaves > 1 or self._repeated >= PAGE:
            pages += 1 + pages * _POINTER // PAGE
        return PAGE * (pages + self._empty + self._tiles * self._rows // PAGE)

    @property
    def _taken(self) -> int:
        """Bytes of the pages without the free ones of the last leaf page."""
        return self._pages * (PAGE - 8) - self._left


class FilesSizer:
    """Files with one tile each.

    Args:
        head: bytes before each payload.
        documents: bytes of other files.
    """

    def __init__(self, head: int = 0, documents: int = 0) -> None:
        self._head = head
        self._size = documents

    def add(self, sizes: Sequence[int], times: int = 1) -> None:
        self._size += times * (sum(sizes) + self._head * len(sizes))

    def total(self) -> int:
        return self._size


class SlabsSizer:
    """Slabs: header, index, and tiles at multiples of 16 bytes.

    Args:
        head: bytes of header and index.
    """

    def __init__(self, head: int) -> None:
        self._head = head
        self._size = _DOCUMENTS

    def add(self, sizes: Sequence[int], times: int = 1) -> None:
        if sizes:
            self._size += times * (self._head + sum(-(-size // 16) * 16 for size in sizes))

    def total(self) -> int:
        return self._size


def _sizer(
    form: str, levels: Sequence[ExportLevel], kind: TileKind, tile_matrix_set: TileMatrixSet
) -> Sizer:
    if form == "pmtiles":
        return PMTilesSizer()
    if form == "mbtiles":
        return SQLiteSizer(rows=16)
    if form == "gpkg":
        return SQLiteSizer(rows=32, pages=17 if kind.media_type == GRIDDED_TILES else 13)
    if form == "pyramid":
        source = levels[0].source
        return SlabsSizer(2048 + 8 * source.height * source.width)
    own = len(json.dumps(set_document(tile_matrix_set), indent=2))
    return FilesSizer(documents=_FILES + _LEVEL * len(levels) + own)


def of_tiles(
    form: str,
    levels: Sequence[ExportLevel],
    threads: int,
    kind: TileKind,
    tile_matrix_set: TileMatrixSet,
) -> Estimate:
    """Return the size and cost of an archive. Errors are those of `ExportPlan.estimate`.

    Args:
        form: the format.
        threads: indices that are read at a time.
        kind: of the tiles.
        tile_matrix_set: of the tiles.
    """
    sizer = _sizer(form, levels, kind, tile_matrix_set)
    found: dict[str, dict[str, int]] = {}
    tiles = payload = reads = source = 0
    variance = 0.0
    is_exact, is_drawn = kind.is_copied, False
    with ThreadPoolExecutor(threads) as pool:
        for level in levels:
            if isinstance(level.source, StoredTiles):
                one = _of_stored(level, level.source, sizer, pool, is_copied=kind.is_copied)
            else:
                one = _of_drawn(level, level.source, sizer)
                is_drawn = True
            entry = found.setdefault(level.matrix.id, {"tiles": 0, "bytes": 0})
            entry["bytes"] += one.payload
            if not level.is_mask:
                entry["tiles"] += one.tiles
                tiles += one.tiles
            payload += one.payload
            reads += one.reads
            source += one.source
            variance += one.variance
            is_exact = is_exact and one.is_exact
    size = sizer.total()
    rate = _DRAWN_PER_SECOND if is_drawn else _TILES_PER_SECOND
    return {
        "tiles": tiles,
        "bytes": size,
        "interval": _interval(size, variance),
        "payload_bytes": payload,
        "source_reads": reads,
        "source_bytes": source,
        "seconds": _seconds(tiles / rate, source),
        "levels": found,
        "is_exact": is_exact,
    }


def of_file(size: int, tiles: Mapping[str, int], variance: float | None = None) -> Estimate:
    """Return the size and cost of one file.

    Args:
        size: in bytes.
        tiles: numbers of tiles by level.
        variance: of the size as `sampled_variance` has it; None if every byte is known.
    """
    return {
        "tiles": sum(tiles.values()),
        "bytes": size,
        "interval": _interval(size, variance or 0.0),
        "payload_bytes": size,
        "source_reads": size // _SPAN + 1,
        "source_bytes": size,
        "seconds": _seconds(0.0, size),
        "levels": {name: {"tiles": count} for name, count in tiles.items()},
        "is_exact": variance is None,
    }


def _interval(size: int, variance: float) -> list[int]:
    """Return the limits of a size, bytes: equal if it is exact."""
    reach = math.ceil(math.sqrt(variance))
    return [max(size - reach, 0), size + reach]


def _seconds(work: float, size: int) -> float:
    return round(work + size / _BYTES_PER_SECOND + 0.05, 1)


class _Numbers(NamedTuple):
    tiles: int
    payload: int
    reads: int
    source: int
    is_exact: bool
    variance: float


def _of_stored(
    level: ExportLevel,
    source: StoredTiles,
    sizer: Sizer,
    pool: ThreadPoolExecutor,
    *,
    is_copied: bool,
) -> _Numbers:
    """Add a level of stored tiles to the sizer, and return its numbers."""
    count = len(level.rows)
    chosen = range(count)
    if count > MOST_INDICES:
        # Neighbours are similar, so equal steps along the curve are strata.
        chosen = range(0, count, -(-count // MOST_INDICES))
    places = [(int(level.rows[one]), int(level.columns[one])) for one in chosen]
    tiles = payload = reads = 0
    ratio, spread = (1.0, 0.0) if is_copied else _growth(source, places)
    slabs: list[int] = []
    share = count / max(len(places), 1)
    for place, sizes in zip(places, _in_order(pool, source, places), strict=True):
        stored = sum(sizes)
        slabs.append(stored)
        tiles += len(sizes)
        payload += stored
        reads += 1 + (stored // _SPAN + 1 if sizes else 0)
        made = sizes if ratio == 1.0 else [round(size * ratio) for size in sizes]
        if isinstance(sizer, SlabsSizer) and source.is_whole(*place):
            # It is copied with the tiles that the level may not have.
            made = source.all_sizes(*place)
        sizer.add(made, round(share))
    return _Numbers(
        round(tiles * share),
        round(payload * share * ratio),
        round(reads * share),
        round(payload * share),
        share == 1.0,
        ratio**2 * sampled_variance(slabs, count) + (spread * payload * share) ** 2,
    )


def _in_order(
    pool: ThreadPoolExecutor, source: StoredTiles, places: Sequence[tuple[int, int]]
) -> Iterator[list[int]]:
    """Yield the sizes of the tiles of slabs, some of which are read ahead."""
    for start in range(0, len(places), 256):
        check_wanted()
        part = places[start : start + 256]
        if source.reader.storage.is_remote:
            yield from pool.map(lambda place: source.sizes(*place), part)
        else:
            yield from (source.sizes(*place) for place in part)


def _growth(source: StoredTiles, places: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return how much larger converted tiles are than stored ones, from some of them.

    Returns:
        the ratio, and how far it may be wrong.
    """
    before: list[int] = []
    after: list[int] = []
    seen = 0
    for number in np.unique(np.linspace(0, len(places) - 1, 16).astype(int)):
        stored = sum(source.sizes(*places[number]))
        if not stored:
            continue
        check_wanted()
        batch = source.read(*places[number])
        before.append(stored)
        after.append(sum(len(tile.payload) for tile in batch.tiles))
        seen += len(batch.tiles)
        if seen >= _SAMPLED_TILES:
            break
    if not sum(before):
        return 1.0, 0.0
    ratio = sum(after) / sum(before)
    rest = [made - ratio * stored for made, stored in zip(after, before, strict=True)]
    return ratio, math.sqrt(sampled_variance(rest, len(places))) / (
        sum(before) / len(before) * len(places)
    )


def _of_drawn(level: ExportLevel, source: DrawnTiles, sizer: Sizer) -> _Numbers:
    """Add a drawn level to the sizer, and return its numbers, both from some of its tiles."""
    count = level.selection.count
    blocks = np.unique(np.linspace(0, len(level.rows) - 1, 16).astype(int))
    sizes: list[int] = []
    means: list[float] = []
    tried = 0
    for number in blocks:
        check_wanted()
        places = source.places(int(level.rows[number]), int(level.columns[number]))
        some = [source.tile(*place) for place in _some(places, _SAMPLED_TILES // len(blocks))]
        tried += len(some)
        drawn = [len(payload) for payload in some if payload is not None]
        sizes += drawn
        # Neighbours are similar: what is sampled are blocks.
        means.append(sum(drawn) / max(len(some), 1))
    tiles = round(count * len(sizes) / tried) if tried else 0
    total = round(sum(sizes) / len(sizes) * tiles) if sizes else 0
    repeated = round(tiles / len(sizes)) if sizes else 0
    sizer.add(sizes, repeated)
    share = count / max(len(level.rows), 1)
    variance = share**2 * sampled_variance(means, len(level.rows))
    return _Numbers(tiles, total, tiles, total, False, variance)


def sampled_variance(sizes: Sequence[float], count: int) -> float:
    """Return the square of how far the sum of a population may be from what a sample tells.

    It is that of 95 % of all samples, by Student's distribution, whose quantile is 1.96 and about
    2.5 divided by the degrees of freedom. Samples along a curve are more similar than others, so it
    is rather too large.

    Args:
        sizes: of the sample.
        count: members of the population.
    """
    taken = len(sizes)
    if taken >= count or not taken:
        return 0.0
    if taken == 1:  # nothing is known: it may be all or nothing
        return float(count * sizes[0]) ** 2
    quantile = 1.96 + 2.5 / (taken - 1)
    error = float(np.var(sizes, ddof=1)) / taken * (1 - taken / count)
    return (quantile * count) ** 2 * error


def _some(places: Sequence[tuple[int, int]], count: int) -> Iterable[tuple[int, int]]:
    step = max(len(places) // max(count, 1), 1)
    return places[::step][: max(count, 1)]
