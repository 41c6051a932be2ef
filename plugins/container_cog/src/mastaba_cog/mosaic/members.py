"""The open files of a mosaic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Final

from mastaba.api.catalogue import CRS
from mastaba.api.containers import IndexCache, Level, TileFormat, TileMatrix
from mastaba.api.storages import ObjectRead, ResourcePath, Storage
from mastaba.errors import (
    ContainerFormatError,
    ObjectChangedError,
    ObjectNotFoundError,
    SlabFormatError,
    StorageUnavailableError,
)
from mastaba_cog.container import check_same, factor_of
from mastaba_cog.conversion import Publication, TileConverter
from mastaba_cog.errors import CogError
from mastaba_cog.georeference import Ground, ground_of
from mastaba_cog.images import Found, GeoTiff, Image, comparable
from mastaba_cog.index import CogIndex, covers
from mastaba_cog.mosaic.table import Table
from mastaba_cog.publication import STORED, format_of, publication_of
from mastaba_cog.reader import (
    CogReader,
    CogTile,
    File,
    PlainTile,
    ScatteredReader,
    numbered,
    read_head,
)
from mastaba_containers.sets import are_equal

MOST_OPEN: Final = 1024
"""Files whose heads a process keeps."""
_MOST_BYTES: Final = 64 * 1024 * 1024
_DRIFT: Final = 0.1
"""Pixels by which the far edge may differ because cells have other sizes."""
_PLACE: Final = 0.01
"""Pixels by which the origin may differ."""
_FINER: Final = 1.001

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """What all files of a mosaic have in common.

    Attributes:
        crs: of the tile matrix set.
        colours: channels without alpha.
        has_alpha: whether tiles have a channel that says which pixels have data.
        is_float: whether pixels are values.
        tile_format: in which tiles are delivered.
        way: how: as stored, or decoded.
        nodata: of pixels without data.
        options: of the files, as for a single COG.
    """

    crs: CRS
    colours: int
    has_alpha: bool
    is_float: bool
    tile_format: TileFormat
    way: str
    nodata: float
    options: Mapping[str, Any]

    @property
    def channels(self) -> int:
        """Channels of a pixel."""
        return self.colours + self.has_alpha


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an image is in a matrix, in pixels of the matrix.

    Attributes:
        left, top: of its corner.
        scale: size of one of its pixels.
        is_exact: whether its pixels are those of the matrix.
        right, bottom: of its other corner.
    """

    left: float
    top: float
    scale: float
    is_exact: bool
    right: float
    bottom: float


class Member(CogIndex):
    """One version of a file, as it was opened.

    Args:
        options: of this file.
        ground: where it is.
        how: how its samples become pixels.
        is_stored: whether its tiles may be sent as they are stored.
        row_version: what its row says of its version.
        is_from_table: whether nothing of it has been read yet: its row has its first bytes.
    """

    word: ClassVar[str] = "file"

    def __init__(
        self,
        geotiff: GeoTiff,
        found: Found,
        storage: Storage,
        key: str,
        version: str | None,
        modified: float | None,
        *,
        ground: Ground,
        how: Publication,
        is_stored: bool,
        row_version: str = "",
        is_from_table: bool = False,
    ) -> None:
        super().__init__(geotiff, found, storage, key, version, modified, "")
        self.geotiff = geotiff
        self.ground = ground
        self.how = how
        self.is_stored = is_stored
        self.row_version = row_version
        self.is_from_table = is_from_table
        self._readers: dict[tuple[int, bool], CogReader] = {}
        self._converters: dict[int, TileConverter] = {}
        self._placements: dict[TileMatrix, tuple[int, Placement]] = {}

    @property
    def is_opaque(self) -> bool:
        """Whether all of its pixels have data."""
        return not (self.how.adds_alpha or self.how.is_float)

    @cached_property
    def cells(self) -> tuple[float, ...]:
        """The size of the pixels of each image, CRS units."""
        full = self.geotiff.images[0]
        return tuple(
            self.ground.cell_size * factor_of(full, image) for image in self.geotiff.images
        )

    def placed(self, matrix: TileMatrix) -> tuple[int, Placement]:
        """Return the image to draw a matrix with, and where it is there.

        It is the coarsest one that has at least the resolution of the matrix.
        """
        known = self._placements.get(matrix)
        if known is None:
            fitting = [
                number
                for number, cell in enumerate(self.cells)
                if cell <= matrix.cell_size * _FINER
            ]
            number = fitting[-1] if fitting else 0
            known = number, self._placement(number, matrix)
            self._placements[matrix] = known
        return known

    def stored(self, image: int, row: int, col: int, *, is_framed: bool) -> CogTile | None:
        """Return a tile of an image, or None if it is not stored.

        Raises:
            StorageError, SlabFormatError: its place cannot be read.
        """
        reader = self._reader(image, is_framed=is_framed)
        block, number = reader.place_of(row, col)
        if not is_framed:
            # The usual case of tiles that are sent as they are.
            place = self.plain(image, row * self.geotiff.images[image].across + col)
            if place is not None:
                return PlainTile(reader, block, self, number, place)
        place = self.tile(number)
        if place is None:
            return None
        found = reader.tile_class(reader, block, self, number, place)
        assert isinstance(found, CogTile)
        return found

    def knows(self, image: int, row: int, col: int) -> bool:
        """Return whether the place of a tile needs no read."""
        return self.is_known(self._reader(image, is_framed=True).place_of(row, col)[1])

    def converter(self, image: int) -> TileConverter:
        """Return what decodes the tiles of an image."""
        known = self._converters.get(image)
        if known is None:
            geotiff = self.geotiff
            known = self._converters[image] = TileConverter(
                geotiff.images[image], geotiff.masks[image], geotiff.order, self.how
            )
        return known

    def _reader(self, image: int, *, is_framed: bool) -> CogReader:
        known = self._readers.get((image, is_framed))
        if known is None:
            geotiff = self.geotiff
            scattered = geotiff.images[image].is_planar or (
                geotiff.masks[image] is not None and not geotiff.is_interleaved
            )
            kind = ScatteredReader if scattered else CogReader
            known = self._readers[image, is_framed] = kind(
                self._level(geotiff.images[image]),
                self.storage,
                _NO_CACHE,
                file=File(self.key, geotiff, "", ignores_masks=False),
                grid=numbered(geotiff, image, 0, 0, is_framed=is_framed),
            )
        return known

    def _level(self, image: Image) -> Level:
        matrix = TileMatrix(
            "", self.ground.cell_size, 0, 0, image.tile_width, image.tile_height, 1, 1
        )
        return Level(matrix, 1, 1, matrix.all_tiles)

    def _placement(self, number: int, matrix: TileMatrix) -> Placement:
        image, cell, ground = self.geotiff.images[number], self.cells[number], self.ground
        left = (ground.x - matrix.origin_x) / matrix.cell_size
        top = (matrix.origin_y - ground.y) / matrix.cell_size
        scale = cell / matrix.cell_size
        is_exact = (
            abs(scale - 1) * max(image.width, image.height) <= _DRIFT
            and abs(left - round(left)) <= _PLACE
            and abs(top - round(top)) <= _PLACE
        )
        if is_exact:
            left, top, scale = float(round(left)), float(round(top)), 1.0
        return Placement(
            left, top, scale, is_exact, left + scale * image.width, top + scale * image.height
        )


Opened = tuple[tuple[str, str], Member]
"""The row of a file, and its version that is open."""

_NO_CACHE: Final = IndexCache(1, 1.0)
"""Readers of members find no index: they are given one."""


class Members:
    """Opens files, and keeps those that were used last.

    Args:
        kind: what all files have in common.
        open_storage: returns the open storage of a path.
        validity: seconds after which a file is looked at again.
    """

    def __init__(
        self, kind: Kind, open_storage: Callable[[ResourcePath], Storage], validity: float
    ) -> None:
        self.kind = kind
        self.open_storage = open_storage
        self._validity = validity
        # Rows whose header is not that of the present file, or leads to none.
        self._distrusted: set[tuple[str, str]] = set()
        self._open = IndexCache(MOST_OPEN, validity, most_bytes=_MOST_BYTES)

    def again(self, open_storage: Callable[[ResourcePath], Storage]) -> Members:
        """Return the same with other storages, and nothing open."""
        return Members(self.kind, open_storage, self._validity)

    def get(self, table: Table, row: int) -> Member:
        """Return the file of a row, open.

        Raises:
            ContainerFormatError: it does not fit the others.
            StorageError: it cannot be read; also if it is absent.
        """
        key = self._key(table, row)
        known = self._open.peek(key) or self._open.get(key, partial(self._opened, table, row))
        assert isinstance(known, Member)
        return known

    def locate(self, path: str, facts: Facts) -> tuple[float, float, float, float]:
        """Return the box of a file whose row has none.

        Raises:
            CogError: it is no COG that fits.
            StorageError: it cannot be read.
        """
        found = ResourcePath.parse(path)
        member = open_member(self.open_storage(found), found.key, self.kind.options, facts)
        self._check(member)
        return box_of(member)

    def known(self, table: Table, row: int) -> Member | None:
        """Return the file of a row if it is open."""
        found = self._open.peek(self._key(table, row))
        return found if isinstance(found, Member) else None

    def opened(self, table: Table, row: int, member: Member) -> Opened:
        """Return a file that is open, for `are_open`."""
        return self._key(table, row), member

    def are_open(self, those: Sequence[Opened]) -> bool:
        """Return whether all files are still open in the same versions."""
        peek = self._open.peek
        return all(peek(key) is member for key, member in those)

    def forget(self, table: Table, row: int, member: Member) -> None:
        """Open a file again for the next tile, unless it is open in another version."""
        if member.is_from_table:
            self._distrusted.add(self._key(table, row))
        self._open.drop(self._key(table, row), member)

    def _key(self, table: Table, row: int) -> tuple[str, str]:
        facts = table.facts.get(row)
        return table.paths[row], repr(facts) if facts else ""

    def _opened(self, table: Table, row: int) -> Member:
        path = ResourcePath.parse(table.paths[row])
        storage, facts = self.open_storage(path), table.facts.get(row, {})
        try:
            member = self._from_table(storage, path.key, table, row)
            if member is None:
                member = open_member(storage, path.key, self.kind.options, facts, self.kind)
            self._check(member)
        except CogError as error:
            raise ContainerFormatError(f"{path}: {error.reason}", error.remedy) from error
        except ObjectNotFoundError as error:
            # Its tiles are unknown, not absent.
            raise StorageUnavailableError(
                f"{path}, which the table of a mosaic names, does not exist",
                storage=storage.full_name,
                key=path.key,
                answered=True,
            ) from error
        return member

    def _from_table(self, storage: Storage, key: str, table: Table, row: int) -> Member | None:
        """Return a file that is opened with the first bytes in its row; None for others."""
        head, facts = table.heads.get(row), table.facts.get(row, {})
        own = self._key(table, row)
        if head is None or own in self._distrusted:
            return None
        try:
            # A remote store refuses another version at the first tile. A file that was replaced
            # may still be open, so that its tiles would be read for ever.
            if not storage.is_remote and storage.stat(key).version != facts["version"]:
                self._distrusted.add(own)
                return None
            read = ObjectRead(head, facts["version"], None)
            options = self.kind.options
            return open_member(storage, key, options, facts, self.kind, read)
        except (CogError, SlabFormatError, ObjectChangedError, ObjectNotFoundError):
            self._distrusted.add(own)
            return None

    def _check(self, member: Member) -> None:
        kind = self.kind
        if not are_equal(member.ground.crs, kind.crs):
            raise CogError(
                f"its CRS is {member.ground.crs.code}, that of the mosaic {kind.crs.code}",
                f"warp it with gdalwarp -t_srs {kind.crs.code}",
            )
        if member.how.is_float != kind.is_float or colours_of(member) != kind.colours:
            raise CogError(
                "it has other bands, or another type, than the first file of the mosaic",
                'choose bands with the option "bands", or convert it',
            )


def open_member(
    storage: Storage,
    key: str,
    options: Mapping[str, Any],
    facts: Facts,
    kind: Kind | None = None,
    known: ObjectRead | None = None,
) -> Member:
    """Return a file, open.

    Args:
        options: of all files, as for a single COG.
        facts: what its row says besides.
        kind: of the mosaic; None for its first file.
        known: the first bytes, if the table has them.

    Raises:
        CogError: it is no COG that can be published.
        StorageError: it cannot be read.
    """
    geotiff, found, read = read_head(storage, key, known)
    own = dict(options)
    if "nodata" in facts:
        own["nodata"] = facts["nodata"]
    if "bands" in facts:
        own["bands"] = list(facts["bands"])
    how, _ = publication_of(geotiff, own)
    is_stored = False
    if kind is None or kind.way == STORED:
        tile_format, way = format_of(geotiff, how, own)
        is_stored = way == STORED and (kind is None or tile_format == kind.tile_format)
    ground = ground_of(geotiff, own.get("crs"))
    geotiff = comparable(geotiff, ignores_masks=own.get("mask") == "ignore")
    for image, mask in zip(geotiff.images, geotiff.masks, strict=True):
        check_same(geotiff.images[0], image)
        if not covers(image, mask):
            raise CogError("its mask has tiles of another size", "write it with -of COG")
    return Member(
        geotiff,
        found,
        storage,
        key,
        read.version,
        read.modified,
        ground=ground,
        how=how,
        is_stored=is_stored,
        row_version=facts.get("version", ""),
        is_from_table=known is not None,
    )


def box_of(
    member: Member,
) -> tuple[float, float, float, float]:
    """Return the extent of a file in its CRS."""
    image, ground = member.geotiff.images[0], member.ground
    right, down = image.width * ground.cell_size, image.height * ground.cell_size
    return ground.x, ground.y - down, ground.x + right, ground.y


def colours_of(member: Member) -> int:
    """Return the channels of the pixels of a file, without alpha."""
    return member.converter(0).channels - member.how.adds_alpha
