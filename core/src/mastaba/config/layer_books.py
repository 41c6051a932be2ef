"""Everything that one load needs to create layers from descriptors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mastaba.config.book import Book
from mastaba.config.documents import DocumentReader
from mastaba.config.faults import Faults
from mastaba.config.layers import LayerLoader
from mastaba.config.pyramids import PyramidLoader
from mastaba.config.schema import SchemaValidator
from mastaba.config.server import ServerConfig
from mastaba.config.styles import make_style
from mastaba.config.tile_matrix_sets import make_tile_matrix_set
from mastaba.model.settings import Settings
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileMatrixSet
from mastaba.plugins.manager import Plugins
from mastaba.slab.index_cache import IndexCache
from mastaba.storage.pool import StoragePool

_NO_SETS: Mapping[str, TileMatrixSet] = MappingProxyType({})
_NO_STYLES: Mapping[str, Style] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LayerBooks:
    """Loaders of layers, and of the tile matrix sets and styles that these name."""

    layers: LayerLoader
    tile_matrix_sets: Book[TileMatrixSet]
    styles: Book[Style]


def open_layer_books(
    server: ServerConfig,
    plugins: Plugins,
    settings: Settings,
    pool: StoragePool,
    indices: IndexCache,
    faults: Faults,
    *,
    tile_matrix_sets: Mapping[str, TileMatrixSet] = _NO_SETS,
    styles: Mapping[str, Style] = _NO_STYLES,
) -> LayerBooks:
    """Return the loaders; they record all problems in ``faults``.

    Args:
        tile_matrix_sets, styles: loaded earlier, not read again.
    """
    reader = DocumentReader(pool, faults)
    set_book = Book(
        server.tile_matrix_sets,
        "tile matrix set",
        SchemaValidator("tile_matrix_set", plugins),
        make_tile_matrix_set,
        reader,
        faults,
        tile_matrix_sets,
    )
    style_book = Book(
        server.styles,
        "style",
        SchemaValidator("style", plugins),
        make_style,
        reader,
        faults,
        styles,
    )
    layers = LayerLoader(
        settings,
        PyramidLoader(set_book, SchemaValidator("pyramid", plugins), reader, pool, faults),
        style_book,
        set_book,
        SchemaValidator("layer", plugins),
        indices,
        faults,
    )
    return LayerBooks(layers, set_book, style_book)
