"""Settings from services.json, global and per service (services-config.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from mastaba.model.crs import Equivalences
from mastaba.model.layer import Layer, Metadata


@dataclass(frozen=True, slots=True)
class Contact:
    """Contact of the service provider; empty fields are omitted from documents.

    Attributes:
        name: name of the person.
        position: of the person in the organisation.
        voice: telephone number.
        facsimile: fax number.
        address_type: such as ``postal``.
        delivery_point: street and number.
        city: name of the city.
        administrative_area: state or province.
        post_code: postal code.
        country: name of the country.
        email: electronic mail address.
    """

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
        reprojection: whether maps are offered in other CRSs than the native one.
        formats: offered media types, the default one first.
        crs: codes of the CRSs in which all layers are offered.
        max_layers: layers of one map.
        max_width: pixels.
        max_height: pixels.
        max_tiles_x: columns of source tiles that one layer of a map may read.
        max_tiles_y: rows of source tiles that one layer of a map may read.
        max_pixels: pixels of one map.
        max_source_bytes: bytes of decoded source tiles of one map.
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
class CachingSettings:
    """``global.caching``: headers for browsers and for caches in front of the server.

    Attributes:
        layers: Cache-Control of layers that have no value of their own, or None.
        documents: Cache-Control of documents, or None.
        surrogate_keys: whether responses have surrogate keys.
    """

    layers: str | None = None
    documents: str | None = None
    surrogate_keys: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for all services.

    Attributes:
        enabled: whether services are turned on (health and admin always are).
        provider: name of the organisation that provides the services.
        site: address of the provider's pages.
        fee: price of use; may be empty.
        access_constraint: legal constraints on use; may be empty.
        contact: of the provider.
        inspire: whether all services meet the INSPIRE requirements.
        map: limits and choices for maps.
        caching: headers for caches.
        tile_reprojection: whether layers are offered in their extra tile matrix sets.
        cors: origins whose pages may read responses: False for none, True for all, or the allowed
            ones.
        equivalences: CRS codes that denote the same coordinates.
        default_style: file id of the style for raster layers that have no usable one.
        generation_headers: whether responses name the generations of what they show.
        tile_formats: media types of the pictures of tiles.
    """

    enabled: bool = True
    provider: str = ""
    site: str = ""
    fee: str = ""
    access_constraint: str = ""
    contact: Contact = Contact()
    inspire: bool = False
    map: MapSettings = MapSettings()
    caching: CachingSettings = CachingSettings()
    tile_reprojection: bool = False
    cors: bool | str | tuple[str, ...] = False
    equivalences: Equivalences = field(default_factory=Equivalences, compare=False)
    default_style: str = "normal"
    generation_headers: bool = False
    tile_formats: tuple[str, ...] = ("image/png", "image/jpeg", "image/webp")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The section of one service in services.json.

    Attributes:
        endpoint_uri: public URL without trailing slash; used in all URLs in responses.
        root_path: internal path, such as ``/wmts``; empty for the service at ``/``.
        title: name for people.
        abstract: description; may be empty.
        keywords: may be empty.
        metadata: link to the metadata record of the service; None if there is none.
        own: service-specific settings, validated with `Service.settings_schema`.
        cors: origins whose pages may read responses, as in `Settings`, if that allows none.
    """

    endpoint_uri: str
    root_path: str
    title: str
    abstract: str
    keywords: tuple[str, ...] = ()
    metadata: Metadata | None = None
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
    cors: bool | str | tuple[str, ...] = False


@dataclass(frozen=True, slots=True)
class VirtualSettings:
    """A virtual service: some of the layers, with settings and addresses of their own.

    Attributes:
        layers: which ones: identifiers, patterns (``PLAN_*``) and ``keyword:WORD``.
        exclusive: whether the main services do not publish these layers.
        settings: for all its services.
        services: settings of each of its services, by the name of the main one.
        root_path: internal path of its list of services.
    """

    layers: tuple[str, ...]
    exclusive: bool
    settings: Settings
    services: Mapping[str, ServiceSettings]
    root_path: str

    def includes(self, layer: Layer) -> bool:
        """Return whether it publishes a layer."""
        words = {f"keyword:{word}" for word in layer.keywords}
        return any(one in words or fnmatchcase(layer.id, one) for one in self.layers)
