"""ZIP archives of PNG tiles, ``zoom/column/row.png``, in the grid of web maps.

The files are stored, not compressed again, so that a tile is one range of the archive.
"""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mastaba.api.catalogue import CRS
from mastaba.api.containers import (
    TILE_FORMATS,
    Container,
    Level,
    OpenedContainer,
    Pyramid,
    RasterSpecification,
    StoredTile,
    TileIndex,
    TileLimits,
    TileMatrix,
    TileMatrixSet,
    TileReader,
    digest_of,
)
from mastaba.api.storages import ByteRange
from mastaba.errors import (
    ContainerFormatError,
    ObjectChangedError,
    ObjectNotFoundError,
    SlabFormatError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mastaba.api.containers import BlockKey, Context, IndexCache, Source
    from mastaba.api.storages import Storage

_NAME = re.compile(rb"(\d\d?)/(\d{1,8})/(\d{1,8})\.png")
_HALF = 20037508.3427892
_DEEPEST = 22
_TAIL = 22 + 65535
"""Bytes at the end, in which the directory or its place is."""
_MOST = 16 * 1024 * 1024
"""Bytes of the directory, and of a tile."""


class _Index(TileIndex):
    """The directory of one version of an archive: places by zoom, row and column."""

    __slots__ = ("places",)

    def __init__(self, storage: Storage, key: str) -> None:
        facts = storage.stat(key)
        super().__init__(storage, key, facts.version, facts.modified)
        start = max(0, facts.size - _TAIL)
        tail = self._read(start, facts.size - start)
        at = tail.rfind(b"PK\5\6")
        if at < 0 or at + 22 > len(tail):
            raise ContainerFormatError(f"{self.name} is not a ZIP archive, or incomplete")
        size, offset = struct.unpack_from("<II", tail, at + 12)
        if offset + size > start + at or size > _MOST:
            raise ContainerFormatError(f"the directory of {self.name} is damaged or too large")
        inside = tail[offset - start :] if offset >= start else self._read(offset, size)
        try:
            self.places = dict(_entries(inside[:size], offset))
        except (struct.error, ValueError) as error:
            raise ContainerFormatError(f"the directory of {self.name}: {error}") from error

    @property
    def nbytes(self) -> int:
        return 200 * len(self.places) + 1000

    def tile(self, number: int) -> tuple[int, int] | None:
        return self.places.get(number)

    def _read(self, offset: int, length: int) -> bytes:
        data = self.storage.read(self.key, ByteRange(offset, length), self.version).data
        if len(data) != length:
            raise ContainerFormatError(f"{self.name} ends too early")
        return data


def _entries(directory: bytes, end: int) -> list[tuple[int, tuple[int, int]]]:
    """Return numbers of tiles, and the ranges of their file headers and files.

    Args:
        end: where the directory begins.
    """
    found: list[tuple[int, int]] = []
    position = 0
    while position < len(directory):
        magic, packed, *lengths, start = struct.unpack_from("<4s6xH16xHHH8xI", directory, position)
        if magic != b"PK\1\2":
            raise ValueError("an entry is damaged")
        name = _NAME.fullmatch(directory, position + 46, position + 46 + lengths[0])
        if name is not None:
            zoom, column, row = map(int, name.groups())
            if packed or zoom > _DEEPEST or max(column, row) >= 1 << zoom:
                raise ValueError(f"{name[0].decode()} is compressed, or outside of the grid")
            found.append((start, _number(zoom, row, column)))
        position += 46 + sum(lengths)
    found.sort()
    ends = [start for start, _ in found[1:]] + [end]
    sizes = [after - start for (start, _), after in zip(found, ends, strict=bool(found))]
    if sizes and not 0 < min(sizes) <= max(sizes) <= _MOST:
        raise ValueError("a file is too large, or at the place of another one")
    return [(number, (start, size)) for (start, number), size in zip(found, sizes, strict=True)]


def _number(zoom: int, row: int, column: int) -> int:
    """Return the number of a tile; those of lower zooms are before it."""
    return ((1 << 2 * zoom) - 1) // 3 + (row << zoom) + column


class _Tile(StoredTile):
    """A file behind its header. Other files may be between it and the next tile."""

    __slots__ = ()

    def whole(self, data: bytes) -> bytes:
        data = super().whole(data)
        if len(data) < 30 or data[:4] != b"PK\3\4":
            raise SlabFormatError(f"{self.index.name}: a file of tile {self.number} is damaged")
        size, name, extra = struct.unpack_from("<IHH", data, 22)
        return data[30 + name + extra :][:size]

    def _read(self) -> bytes:
        index = self.index
        place = ByteRange(self.offset, self.length)
        return self.whole(index.storage.read(index.key, place, index.version).data)


class _Reader(TileReader):
    """The tiles of one zoom. The archive is one block, so no map mixes two versions."""

    tile_class = _Tile

    def __init__(
        self, level: Level, storage: Storage, indices: IndexCache, key: str, zoom: int
    ) -> None:
        super().__init__(level, storage, indices)
        self._key, self._zoom = key, zoom

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        block = ("zip", self.storage.full_name, self._key), 0, 0
        return block, _number(self._zoom, tile_row, tile_col)

    def key_of(self, slab: BlockKey) -> str:
        return self._key

    def moved(self, storage: Storage, indices: IndexCache) -> Self:
        return type(self)(self.level, storage, indices, self._key, self._zoom)

    def _load(self, slab: BlockKey) -> _Index:
        return _index_of(self.storage, self._key)


def _index_of(storage: Storage, key: str) -> _Index:
    """Return the directory; all of it is from one version."""
    for _ in range(4):
        try:
            return _Index(storage, key)
        except ObjectChangedError:
            continue
        except ObjectNotFoundError as error:
            # Its tiles are not absent, but unknown.
            raise StorageUnavailableError(f"{key} does not exist", key=key) from error
    raise StorageUnavailableError(f"{key} is replaced all the time", key=key)


class ZipContainer(Container):
    """ZIP archives of tiles."""

    name: ClassVar[str] = "zip"
    suffixes: ClassVar[tuple[str, ...]] = (".zip",)
    signatures: ClassVar[tuple[bytes, ...]] = (b"PK\3\4",)
    options_schema: ClassVar[Mapping[str, Any]] = {"tile_matrix_set": {"type": "string"}}
    cannot: ClassVar[frozenset[str]] = frozenset(
        ("batch", "symbolic", "history", "vector", "float", "own_grid")
    )

    @classmethod
    def open(cls, source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
        index = _index_of(source.storage, source.key)
        numbers = sorted(index.places)
        if not numbers:
            raise ContainerFormatError(f"{source} contains no tiles", "name them z/x/y.png")
        start, length = index.places[numbers[0]]
        head = source.storage.read(source.key, ByteRange(start, min(length, 4096)), index.version)
        channels, size = _image(head.data[head.data.find(b"\x89PNG") :], str(source))
        stem = source.key.rpartition("/")[2].rpartition(".")[0]
        zooms = {(number.bit_length() + 1) // 2 for number in numbers}
        grid = _grid(stem, size, max(zooms) + 1)
        if "tile_matrix_set" in options:
            grid = context.named_set(options["tile_matrix_set"])
        levels = {}
        for zoom in range(max(zooms) + 1):
            first = _number(zoom, 0, 0)
            inside = [n - first for n in numbers if first <= n < _number(zoom + 1, 0, 0)]
            matrix = grid.matrices.get(str(zoom))
            if inside and matrix is not None:
                rows, columns = {n >> zoom for n in inside}, {n % (1 << zoom) for n in inside}
                limits = TileLimits(min(rows), max(rows), min(columns), max(columns))
                levels[matrix.id] = Level(matrix, 1 << zoom, 1 << zoom, limits)
        raster = RasterSpecification(channels, (255.0,) * channels, "rgb")
        generation = digest_of(cls.name, dict(options), index.version or sorted(index.places))
        tile_format = TILE_FORMATS["TIFF_PNG_UINT8"]
        pyramid = Pyramid(stem, grid, tile_format, raster, levels, generation)
        make = partial(_Reader, storage=source.storage, indices=context.indices, key=source.key)
        readers = {name: partial(make, zoom=int(name)) for name in levels}
        return OpenedContainer(pyramid, readers, title=stem, report=(f"{len(numbers)} tiles",))


def _image(data: bytes, name: str) -> tuple[int, int]:
    """Return the channels and the side of a PNG."""
    if len(data) < 26 or data[24] != 8 or data[25] not in (2, 6):
        raise ContainerFormatError(f"{name}: tiles are PNG with 8 bits, in RGB or with alpha")
    width, height = struct.unpack_from(">II", data, 16)
    if width != height or width not in (256, 512):
        raise ContainerFormatError(f"{name}: tiles have {width} x {height} pixels")
    return 3 if data[25] == 2 else 4, width


def _grid(stem: str, size: int, zooms: int) -> TileMatrixSet:
    """Return the grid of web maps."""
    corner = -_HALF, _HALF
    cells = [2 * _HALF / size / 2**zoom for zoom in range(zooms)]
    matrices = [
        TileMatrix(str(zoom), cell, *corner, size, size, 1 << zoom, 1 << zoom)
        for zoom, cell in enumerate(cells)
    ]
    return TileMatrixSet.of(f"WebMercator_{stem}", CRS.from_code("EPSG:3857"), matrices)
