"""What services.json says, for all services and for each (services-config.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mastaba.model.crs import Equivalences
from mastaba.model.layer import Metadata


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
    max_source_bytes: int = 256 * 1024**2


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
class ServiceSettings:
    """The section of one service in services.json.

    Attributes:
        endpoint_uri: public URL, without final slash; used in every URL of every answer.
        root_path: internal path, ``/wmts``; empty for the service at ``/``.
        own: the service's own settings, validated by `Service.settings_schema`.
    """

    endpoint_uri: str
    root_path: str
    title: str
    abstract: str
    keywords: tuple[str, ...] = ()
    metadata: Metadata | None = None
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
