"""Settings from services.json, global and per service (services-config.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mastaba.model.crs import Equivalences
from mastaba.model.layer import Metadata


@dataclass(frozen=True, slots=True)
class Contact:
    """Contact of the service provider; empty fields are omitted from documents."""

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
    """``global.map``: limits and choices of WMS and OGC API Maps (services-config.md 2.1).

    Attributes:
        overviews: whether a map that would need too many tiles of the coarsest level may be
            drawn from a sample of them.
    """

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
    max_source_bytes: int = 256 * 1024**2
    overviews: bool = True


@dataclass(frozen=True, slots=True)
class MapLimits:
    """Limits for all maps of one process together.

    Attributes:
        memory: bytes. A map that needs more is drawn alone.
        concurrent: maps drawn at a time; heavy ones take at most half of these places.
        waiting: maps that may wait for their turn; further ones are refused.
    """

    memory: int = 256 * 1024**2
    concurrent: int = 4
    waiting: int = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for all services.

    Attributes:
        enabled: whether services are turned on (health and admin always are).
        tile_reprojection: whether layers are offered in their extra tile matrix sets.
        cors: origins whose pages may read responses: False for none, True for all, or the allowed
            ones.
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
    cors: bool | str | tuple[str, ...] = False
    equivalences: Equivalences = field(default_factory=Equivalences, compare=False)
    default_style: str = "normal"


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The section of one service in services.json.

    Attributes:
        endpoint_uri: public URL without trailing slash; used in all URLs in responses.
        root_path: internal path, such as ``/wmts``; empty for the service at ``/``.
        own: service-specific settings, validated with `Service.settings_schema`.
    """

    endpoint_uri: str
    root_path: str
    title: str
    abstract: str
    keywords: tuple[str, ...] = ()
    metadata: Metadata | None = None
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
