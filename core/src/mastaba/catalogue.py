"""Everything that one configuration publishes: an immutable snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mastaba.model.crs import Equivalences
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileMatrixSet
from mastaba.service import ServiceSettings
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.reader import LevelReader
from mastaba.storage.pool import StoragePool


@dataclass(frozen=True, slots=True)
class Contact:
    """Who answers for the service; empty texts are not written anywhere."""

    name: str = ""
    position: str = ""
    voice: str = ""
    facsimile: str = ""
    address_type: str = ""
    delivery_point: str = ""
    city: str = ""
    administrative_area: str = ""
    post_code: str = ""
    country: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class MapSettings:
    """``global.map``: limits and choices of WMS and OGC API Maps (services-config.md 2.1)."""

    reprojection: bool = True
    formats: tuple[str, ...] = (
        "image/jpeg",
        "image/png",
        "image/tiff",
        "image/geotiff",
        "image/x-bil;bits=32",
    )
    crs: tuple[str, ...] = ()
    max_layers: int = 1
    max_width: int = 5000
    max_height: int = 5000
    max_tiles_x: int = 32
    max_tiles_y: int = 32
    max_pixels: int = 5000 * 5000
    max_source_bytes: int = 1024**3


@dataclass(frozen=True, slots=True)
class Settings:
    """What services.json says for all services.

    Attributes:
        enabled: whether services answer at all (health and admin do in any case).
        tile_reprojection: whether layers are offered in their extra tile matrix sets.
        cors: False, True for every origin, or the one origin that browsers may read from.
        default_style: file id of the style for raster layers that have no usable one.
    """

    enabled: bool = True
    provider: str = ""
    site: str = ""
    fee: str = ""
    access_constraint: str = ""
    contact: Contact = Contact()
    inspire: bool = False
    map: MapSettings = MapSettings()
    tile_reprojection: bool = False
    cors: bool | str = False
    equivalences: Equivalences = field(default_factory=Equivalences, compare=False)
    default_style: str = "normal"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What is published, complete and validated; never changed once built.

    Attributes:
        settings: of all services.
        services: settings of each enabled service by name.
        layers: by identifier, in byte order of identifiers.
        readers: for each layer, the reader of each level by tile matrix identifier.
        tile_matrix_sets: those loaded so far, by identifier.
        styles: those loaded so far, by file id.
        storages: open containers.
        indices: cache of slab indices.
        decoded_tiles_size: bytes of decoded tiles that each process may keep for maps.
        configured_layers: number of layers that should be there, faulty ones included.
    """

    settings: Settings
    services: Mapping[str, ServiceSettings]
    layers: Mapping[str, Layer]
    readers: Mapping[str, Mapping[str, LevelReader]]
    tile_matrix_sets: Mapping[str, TileMatrixSet]
    styles: Mapping[str, Style]
    storages: StoragePool
    indices: IndexCache
    decoded_tiles_size: int = 64 * 1024**2
    configured_layers: int = 0
