"""Published layers (layer.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mastaba.model.bbox import BoundingBox
from mastaba.model.pyramid import Pyramid
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileLimits, TileMatrixSet


@dataclass(frozen=True, slots=True)
class Metadata:
    """A link to a metadata record.

    Attributes:
        media_type: of the record.
        url: address of the record.
        type: standard of the record, such as ``ISO19115:2003``.
    """

    media_type: str
    url: str
    type: str


@dataclass(frozen=True, slots=True)
class Logo:
    """The logo of a data provider.

    Attributes:
        media_type: of the image.
        url: address of the image.
        width: pixels.
        height: pixels.
    """

    media_type: str
    url: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Attribution:
    """The provider of a layer's data.

    Attributes:
        title: name of the provider.
        url: address of the provider's page; empty if only the title is known.
        logo: None if there is none.
    """

    title: str
    url: str
    logo: Logo | None = None


@dataclass(frozen=True, slots=True)
class FeatureInfo:
    """Source of GetFeatureInfo responses (layer.md section 8).

    Attributes:
        url: URL of an external WMS; None if the response contains pixel values of the pyramid.
        layers: value of LAYERS for the external WMS.
        query_layers: value of QUERY_LAYERS for the external WMS.
        extra_query_params: further query parameters for the external WMS.
    """

    url: str | None = None
    layers: str = ""
    query_layers: str = ""
    extra_query_params: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Layer:
    """One published layer.

    Attributes:
        id: identifier in requests and capabilities.
        title: name for people.
        abstract: description; may be empty.
        pyramid: composed of the level ranges of one or more pyramids.
        styles: at least one for raster layers, the first is the default; none for vector ones.
        native_bbox: around the data of all levels, or as configured; in the CRS of the tile
            matrix set.
        geographic_bbox: the same in WGS 84 degrees, longitude is x.
        resampling: kernel name, ``nn`` to ``lanczos_4``.
        keywords: may be empty.
        metadata: links to metadata records.
        attribution: provider of the data; None if not given.
        feature_info: source of GetFeatureInfo responses; None if the layer has none.
        extra_crs: codes offered for maps in addition to the native and the global ones.
        extra_tile_matrix_sets: offered by tile services when tiles may be reprojected.
        hidden_from: names of the services that do not publish the layer.
        withheld: pairs of a service and a word of its `Service.abilities`, or ``style:NAME``, that
            it does not offer for the layer, although it publishes it.
        cache_control: Cache-Control header of tiles and maps; None for no header of tiles.
        surrogate_keys: of all tiles and maps of the layer; empty if they are turned off.
        missing_tile_status: HTTP status for a tile inside the limits that is not stored. 200
            means a tile of nodata; None means the default of the protocol.
        own: what services have added to the descriptor (`Service.layer_schema`), by key.
        generation: 12 hexadecimal digits that change with the descriptor, the pyramids, the styles
            and the tile matrix sets of the layer; equal on all nodes that read equal files.
        headers: of all its tiles and maps: the generation of the pyramid, if services.json says so.
        registration: what a value of the finest level belongs to, ``area`` or ``post``: as the
            descriptor says, or else that of the pyramid.
        key: what identifies it among layers and their variants: ``id``, or the qualified name of a
            variant, ``ORTHO;time=1950``.
        dimensions: `mastaba_ows.dimensions.Dimension`, in the order of WMTS templates; empty for
            most layers.
        at: text of the value of each dimension, if they are known.
        interval: first and last instant of its time, ISO 8601; None without.
        tile_limits: of all variants together, by tile matrix identifier, coarse to fine; empty if
            those of the pyramid are meant.
        readers: of a variant, by tile matrix identifier; see `Catalogue.readers_of`.
        stored_cache_control: that of tiles as they are stored, if it differs.
        missing_headers: of responses for tiles that are not stored.
        open_variant: opens the layer from other pyramids: takes entries of ``pyramids`` and a key;
            see `mastaba.config.layers.LayerLoader.variant`. None if it cannot be done.
    """

    id: str
    title: str
    abstract: str
    pyramid: Pyramid
    native_bbox: BoundingBox
    geographic_bbox: BoundingBox
    styles: tuple[Style, ...]
    hidden_from: frozenset[str] = frozenset()
    keywords: tuple[str, ...] = ()
    metadata: tuple[Metadata, ...] = ()
    attribution: Attribution | None = None
    resampling: str = "lanczos_2"
    extra_crs: tuple[str, ...] = ()
    extra_tile_matrix_sets: tuple[TileMatrixSet, ...] = ()
    feature_info: FeatureInfo | None = None
    cache_control: str | None = None
    surrogate_keys: tuple[str, ...] = ()
    missing_tile_status: int | None = None
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
    generation: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    registration: str = "area"
    withheld: frozenset[tuple[str, str]] = frozenset()
    key: str = ""
    dimensions: tuple[Any, ...] = ()
    at: Mapping[str, str] = field(default_factory=dict, hash=False)
    interval: tuple[str, str] | None = None
    tile_limits: Mapping[str, TileLimits] = field(default_factory=dict, hash=False)
    readers: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    stored_cache_control: str | None = None
    missing_headers: tuple[tuple[str, str], ...] = ()
    open_variant: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", self.id)

    @property
    def is_vector(self) -> bool:
        """Whether its tiles contain features instead of pixels."""
        return self.pyramid.format.is_vector

    @property
    def default_style(self) -> Style | None:
        """The first of its styles; None for vector layers."""
        return self.styles[0] if self.styles else None

    def style(self, identifier: str) -> Style | None:
        """Return the style with this public name, or None."""
        return next((style for style in self.styles if style.identifier == identifier), None)

    @property
    def levels_id(self) -> str:
        """Published name of the native tile matrix set: ``<set>_<top level>_<bottom level>``."""
        names = list(self.tile_limits or self.pyramid.levels)
        return f"{self.pyramid.tile_matrix_set.id}_{names[0]}_{names[-1]}"
