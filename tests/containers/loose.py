"""A container of loose tiles: a document that names a format, and a file for each tile beside it.

Only names of the public interface are used, as in a plugin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

from mastaba import hookimpl
from mastaba.api.containers import (
    JPEG_GRAY,
    TILE_FORMATS,
    WEBP,
    BlockKey,
    Container,
    ContainerFormatError,
    Context,
    IndexCache,
    Level,
    OpenedContainer,
    Pyramid,
    RasterSpecification,
    Source,
    StoredTile,
    TileIndex,
    TileLimits,
    TileMatrixSet,
    TileReader,
    digest_of,
)
from mastaba.api.storages import Storage

FORMATS = {
    "png": TILE_FORMATS["TIFF_PNG_UINT8"],
    "jpeg": TILE_FORMATS["TIFF_JPG_UINT8"],
    "gray": JPEG_GRAY,
    "webp": WEBP,
    "pbf": TILE_FORMATS["TIFF_PBF_MVT"],
}


def flipped(payload: bytes) -> bytes:
    """Return a payload with all bits flipped: an encoding of its own."""
    return bytes(255 - value for value in payload)


class LooseIndex(TileIndex):
    """The one tile of a block: a whole file."""

    def __init__(self, storage: Storage, key: str) -> None:
        found = storage.stat(key)
        super().__init__(storage, key, found.version, found.modified)
        self.size = found.size

    @property
    def nbytes(self) -> int:
        return 100

    def tile(self, number: int) -> tuple[int, int] | None:
        return (0, self.size) if self.size else None


class LooseReader(TileReader):
    """Reads the tiles of a directory."""

    def __init__(
        self, level: Level, storage: Storage, indices: IndexCache, directory: str, extension: str
    ) -> None:
        super().__init__(level, storage, indices, f"{storage.full_name}/{directory}")
        self.directory, self.extension = directory, extension

    def key_of(self, slab: BlockKey) -> str:
        _, col, row = slab
        return f"{self.directory}/{col}/{row}.{self.extension}"

    def _load(self, slab: BlockKey) -> LooseIndex:
        return LooseIndex(self.storage, self.key_of(slab))

    def moved(self, storage: Storage, indices: IndexCache) -> LooseReader:
        return type(self)(self.level, storage, indices, self.directory, self.extension)


class FlippedDecoder:
    """Decodes tiles whose bits are flipped."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.nbytes = decoder.nbytes

    def decode(self, payload: bytes) -> Any:
        return self._decoder.decode(flipped(payload))


class AloneTile(StoredTile):
    """A tile that is not a range of an object."""

    is_addressable: ClassVar[bool] = False


class CodedReader(LooseReader):
    """Reads tiles in an encoding of their own."""

    tile_class = AloneTile
    deliver = staticmethod(flipped)
    etag_suffix = "flipped"

    @property
    def decoder(self) -> Any:  # type: ignore[override]
        from mastaba_render.api.decoding import TileDecoder

        matrix = self.level.matrix
        return FlippedDecoder(
            TileDecoder(FORMATS[self.extension], 3, matrix.tile_width, matrix.tile_height)
        )


class LooseTiles(Container):
    """Loose tiles; the document contains the names of the set, the format and the levels."""

    name: ClassVar[str] = "loose"
    suffixes: ClassVar[tuple[str, ...]] = (".loose",)
    options_schema: ClassVar[Mapping[str, Any]] = {"tile_matrix_set": {"type": "string"}}
    cannot: ClassVar[frozenset[str]] = frozenset(("batch", "symbolic"))

    @classmethod
    def open(cls, source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
        read = source.storage.read(source.key)
        try:
            document = json.loads(read.data)
        except ValueError as error:
            raise ContainerFormatError(f"{source}: {error}", "write it again") from error
        name = options.get("tile_matrix_set", document.get("tile_matrix_set"))
        found = context.named_set(name) if name else own_set(document, context)
        directory = source.key.rpartition("/")[0]
        extension, kind = document["format"], CodedReader if document.get("coded") else LooseReader
        levels, readers = {}, {}
        for identifier, limits in document["levels"].items():
            window = document.get("window")
            levels[identifier] = Level(
                *(found.matrices[identifier], 1, 1, TileLimits(*limits)),
                window=tuple(window) if window else None,
            )
            readers[identifier] = partial(
                kind,
                storage=source.storage,
                indices=context.indices,
                directory=f"{directory}/{identifier}",
                extension=extension,
            )
        channels = document.get("channels", 3)
        nodata = tuple(map(float, document.get("nodata", [255] * channels)))
        tile_format = FORMATS[extension]
        raster = RasterSpecification(channels, nodata, "rgb")
        pyramid = Pyramid(
            *(document.get("name", "loose"), found, tile_format),
            None if tile_format.is_vector else raster,
            dict(sorted(levels.items(), key=lambda item: -item[1].matrix.cell_size)),
            digest_of(cls.name, options, read.version or read.data),
        )
        report = (f"{len(levels)} levels of {tile_format.media_type}",)
        texts = document.get("title", ""), document.get("abstract", "")
        return OpenedContainer(pyramid, readers, *texts, report=report)


def own_set(document: dict[str, Any], context: Context) -> TileMatrixSet:
    """Return a set with the matrices of another one, under its own name."""
    plain = next(one for one in context.known_sets() if one.id == "PM")
    return TileMatrixSet.of(document["own_set"], plain.crs, plain.matrices.values(), "Own")


@hookimpl
def register_containers() -> list[type[Container]]:
    return [LooseTiles]


PLUGIN = SimpleNamespace(register_containers=register_containers)
