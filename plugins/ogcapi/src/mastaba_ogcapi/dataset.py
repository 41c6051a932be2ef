"""The published collections, with their CRSs, tile matrix sets and formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import CRS84, TileMatrixSetLink
from mastaba.api.tiles import LayerTiles, Tiles
from mastaba.api.web import printable
from mastaba.errors import (
    InvalidParameterError,
    NoSuchValueError,
    UnknownNameError,
    UnknownPathError,
)
from mastaba_ogcapi.coverages.settings import coverage_settings, is_offered
from mastaba_ogcapi.formats import MapFormat, MapFormats
from mastaba_ogcapi.registered import registered_name
from mastaba_ogcapi.shown import Shown
from mastaba_ows.errors import GoneError
from mastaba_ows.offers import Stylesheet, sources_in, stylesheets
from mastaba_render.api.crs import CRSOffer
from mastaba_server.threads.recent import Recent

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Style, TileMatrixSet
    from mastaba.api.services import ServiceSettings, Site
    from mastaba_coverage import Coverage
    from mastaba_ogcapi.coverages.zarr import ZarrGroup
    from mastaba_render.api.geotiff import Origins

_MISSING: Final = 204
"""Status for a tile inside the limits that is not stored (OGC API Tiles, requirement tc-error)."""


_VARIANTS: Final = 256
"""Values and versions of layers whose collections a process keeps."""


class Collection:
    """One collection: a layer, or one of its values or versions.

    Args:
        name: in requests; that of the layer or value by default.

    Attributes:
        id: identifier of the layer, or the qualified name of the value.
        name: may lack values that ``id`` has, the defaults, which a request may give beside it.
    """

    def __init__(self, layer: Layer, dataset: Dataset, name: str = "") -> None:
        self.layer = layer
        self.id = layer.key
        self.name = name or layer.key
        self._dataset = dataset

    @cached_property
    def is_vector(self) -> bool:
        """Whether the tiles contain features instead of pixels."""
        return self.layer.is_vector

    @cached_property
    def whole(self) -> Shown | None:
        """What every request means; None for a layer with dimensions."""
        return None if self.layer.dimensions else Shown((self.layer,), cached=(self.layer,))

    def offers(self, ability: str) -> bool:
        """Return whether ``tiles``, ``maps`` or ``coverages`` of the layer are offered."""
        return ("ogcapi", ability) not in self.layer.withheld

    @property
    def has_map_tiles(self) -> bool:
        return self._dataset.tiles and not self.is_vector and self.offers("tiles")

    @property
    def has_vector_tiles(self) -> bool:
        return self._dataset.tiles and self.is_vector and self.offers("tiles")

    @property
    def has_map(self) -> bool:
        return (
            self._dataset.maps
            and not self.is_vector
            and bool(self._dataset.formats.all)
            and self.offers("maps")
        )

    @property
    def has_coverage(self) -> bool:
        return (
            self._dataset.coverages is not None
            and is_offered(self.layer)
            and self.offers("coverages")
        )

    @cached_property
    def stylesheets(self) -> Sequence[Stylesheet]:
        """The styles by which clients draw the tiles, the default first."""
        return stylesheets(self._dataset.site, self.layer, "ogcapi")

    @cached_property
    def coverage(self) -> Coverage:
        """The stored values, of a collection that has a coverage."""
        from mastaba_coverage import Coverage  # tiles and maps do not need it

        return Coverage.of(self.layer, self._dataset.site.catalogue.readers_of(self.layer))

    @cached_property
    def zarr(self) -> ZarrGroup | None:
        """The levels of the coverage as Zarr arrays; None if its tiles are no chunks of any."""
        from mastaba_ogcapi.coverages.zarr import ZarrGroup  # as `coverage`

        return ZarrGroup.of(self.coverage)

    @property
    def has_zarr(self) -> bool:
        return self.has_coverage and self.zarr is not None

    @cached_property
    def crs(self) -> tuple[str, ...]:
        """Codes of the CRSs in which maps are offered, the native one first."""
        return self._dataset.crs_of(self.layer)

    @property
    def sets(self) -> list[TileMatrixSetLink]:
        """The tile matrix sets in which tiles are offered, the one with the stored tiles first."""
        links = self._tiles.links
        return list({link.tile_matrix_set.id: link for link in links.values()}.values())

    def offered_set(self, name: str) -> TileMatrixSetLink:
        """Return a tile matrix set by one of its names.

        Raises:
            UnknownNameError: the collection is not offered in it.
        """
        return self._tiles.link(name)

    @cached_property
    def _tiles(self) -> LayerTiles:
        tiles = self._dataset.tiles_by_name
        # Documents describe all values, also of a layer whose requests must name one.
        return LayerTiles(self.layer, tiles) if self.layer.dimensions else tiles.layer(self.id)

    @cached_property
    def stored_names(self) -> frozenset[str]:
        """Values of ``f`` that request raster tiles as stored."""
        stored = self.layer.pyramid.format
        media_type, short = stored.media_type, stored.short_name
        longer = {"jpg": "jpeg", "tiff": "tif"}.get(short, short)
        return frozenset((short, longer, media_type, media_type.partition(";")[0]))

    def style(self, identifier: str) -> Style:
        """Return a style by its public identifier.

        Raises:
            UnknownPathError: the collection has no such style.
        """
        style = self.layer.style(identifier)
        if style is None:
            raise UnknownPathError(f"the collection has no style {printable(identifier)}")
        return style

    def natural_format(self, style: Style | None) -> MapFormat | None:
        """Return the default format of maps; None without any format."""
        return self._dataset.formats.natural(self.layer, style)


class Dataset:
    """Everything that the API publishes.

    Attributes:
        uri: public URL of the API.
        tiles, maps: whether tiles or maps are offered.
        coverages: limits of coverages; None if they are not offered.
        formats, tile_formats: of maps, and of tiles in other formats than the stored one.
        shared_crs: codes in which all collections are offered, ``CRS:84`` first; empty without
            reprojection.
        collections: by identifier, in the same order as the layers.
        tiles_by_name: finds the tiles of the collections.
    """

    def __init__(
        self, settings: ServiceSettings, site: Site, layers: Iterable[Layer], *, cors: bool = False
    ) -> None:
        self.settings = settings
        self.site = site
        self.uri = settings.endpoint_uri
        self.tiles: bool = settings.own.get("tiles", True)
        self.maps: bool = settings.own.get("maps", True)
        self.coverages = coverage_settings(settings.own)
        self.cors = cors
        self.formats = MapFormats(site)
        self.tile_formats = MapFormats(site, of_tiles=True)
        self._crs_offer = CRSOffer(site.catalogue.settings)
        shared = self._crs_offer.shared
        self.shared_crs = tuple(dict.fromkeys((CRS84, *shared))) if shared else ()
        self.collections = {layer.id: Collection(layer, self) for layer in layers}
        self.tiles_by_name = Tiles(
            site,
            (item.layer for item in self.collections.values()),
            missing_status=_MISSING,
            aliases=self.registered_names,
            noun="collection",
        )
        self._variants: Recent[Collection] = Recent(_VARIANTS)

    def crs_of(self, layer: Layer) -> tuple[str, ...]:
        """Return the CRS codes in which maps of a layer are offered: native, CRS:84, others."""
        own = self._crs_offer.of(layer).own
        return tuple(dict.fromkeys((own[0], *self.shared_crs[:1], *own, *self.shared_crs)))

    def collection(self, identifier: str, ability: str = "") -> Collection:
        """Return a collection.

        Args:
            ability: what it must offer, see `Collection.offers`; empty for nothing.

        Raises:
            UnknownPathError: there is no such collection.
        """
        found = self.find(identifier)
        if found is None or not found.offers(ability):
            raise UnknownPathError(f"there is no collection {printable(identifier)}")
        return found

    def find(self, name: str) -> Collection | None:
        """Return a collection by its identifier or a qualified name; None if there is none.

        Raises:
            InvalidDimensionError: a value in the name is malformed.
            GoneError, MovedError: as versions are found.
            OverloadedError: a value cannot be opened at the moment.
        """
        found = self.collections.get(name)
        if found is not None:
            return found
        try:
            layer = self.site.catalogue.resolve(name).layer
        except GoneError:
            raise
        except (UnknownNameError, NoSuchValueError):
            return None
        whole = self.collections.get(layer.id)
        return None if whole is None else self.of_layer(layer, name)

    def of_layer(self, layer: Layer, name: str = "") -> Collection:
        """Return the collection of a published layer, or of one of its values or versions.

        Args:
            name: in a request; that of the value by default.
        """
        if layer.key == layer.id:
            return self.collections[layer.id]
        name = name or layer.key
        found = self._variants.get(name)
        if found is None or found.layer is not layer:
            found = self._variants.add(name, Collection(layer, self, name))
        return found

    @cached_property
    def dimensions(self) -> frozenset[str]:
        """Names of the dimensions of all collections."""
        layers = (item.layer for item in self.collections.values())
        return frozenset(one.name for layer in layers for one in layer.dimensions)

    def raster_collection(self, identifier: str, ability: str = "") -> Collection:
        """Return a collection of maps.

        Args:
            ability: as in `collection`.

        Raises:
            UnknownPathError: there is no such collection.
            InvalidParameterError: it has vector tiles.
        """
        found = self.collection(identifier, ability)
        if found.layer.is_vector:
            raise InvalidParameterError("this collection has vector tiles, no maps", "collectionId")
        return found

    def vector_collection(self, identifier: str) -> Collection:
        """Return a collection of vector tiles.

        Raises:
            UnknownPathError: there is no such collection.
            InvalidParameterError: it has maps.
        """
        found = self.collection(identifier, "tiles")
        if not found.layer.is_vector:
            raise InvalidParameterError("this collection has maps, no vector tiles", "collectionId")
        return found

    @cached_property
    def raster(self) -> tuple[Collection, ...]:
        return tuple(item for item in self.collections.values() if not item.layer.is_vector)

    @cached_property
    def vector(self) -> tuple[Collection, ...]:
        return tuple(item for item in self.collections.values() if item.layer.is_vector)

    @cached_property
    def downloadable(self) -> tuple[Collection, ...]:
        """The collections whose stored values are offered."""
        return tuple(item for item in self.raster if item.has_coverage)

    @cached_property
    def with_zarr(self) -> tuple[Collection, ...]:
        """Those of them whose tiles are chunks of Zarr arrays."""
        return tuple(item for item in self.downloadable if item.has_zarr)

    @cached_property
    def has_picture_coverage(self) -> bool:
        """Whether stored values of a collection can be sent as PNG."""
        return "image/png" in self.site.encoders and any(
            item.layer.pyramid.format.sample == "uint8" for item in self.downloadable
        )

    @cached_property
    def style_names(self) -> list[str]:
        """Identifiers of all styles of maps, sorted."""
        return sorted({style.identifier for item in self.raster for style in item.layer.styles})

    @cached_property
    def stylesheets(self) -> Mapping[str, Stylesheet]:
        """The styles by which clients draw collections, by identifier."""
        return {sheet.id: sheet for item in self.collections.values() for sheet in item.stylesheets}

    def stylesheet(self, identifier: str) -> Stylesheet:
        """Return a style by which clients draw.

        Raises:
            UnknownPathError: there is no such style.
        """
        found = self.stylesheets.get(identifier)
        if found is None:
            raise UnknownPathError(f"there is no style {printable(identifier)}")
        return found

    @cached_property
    def has_dataset_map(self) -> bool:
        return self.maps and bool(self.pictures) and bool(self.formats.all)

    @cached_property
    def pictures(self) -> tuple[Collection, ...]:
        """The collections that are 8-bit images in their default style."""
        from mastaba_render.api.maps import is_bytes

        drawn = (item for item in self.raster if item.offers("maps"))
        return tuple(item for item in drawn if is_bytes(item.layer, item.layer.default_style))

    @cached_property
    def origins(self) -> Origins:
        """Where the pixels of maps come from."""
        from mastaba_render.api.geotiff import Origins

        return Origins(partial(sources_in, self.site))

    @cached_property
    def default_collections(self) -> tuple[Collection, ...]:
        """The collections in the dataset map when the request names none.

        Without reprojection, only collections that share a CRS with the first one can be combined.
        """
        chosen = list(self.pictures)
        if chosen and not self.shared_crs:
            code = chosen[0].crs[0]
            chosen = [item for item in chosen if code in item.crs]
        return tuple(chosen[: self.site.catalogue.settings.map.max_layers])

    @cached_property
    def dataset_crs(self) -> tuple[str, ...]:
        """CRS codes for the dataset map, the default first."""
        if self.shared_crs:
            return self.shared_crs
        return self.default_collections[0].crs if self.default_collections else ()

    @cached_property
    def tile_matrix_sets(self) -> Mapping[str, TileMatrixSet]:
        """All loaded sets, sorted by identifier."""
        loaded = dict(self.site.catalogue.tile_matrix_sets)
        for collection in self.collections.values():
            native = collection.layer.pyramid.tile_matrix_set
            loaded.setdefault(native.id, native)
        return dict(sorted(loaded.items()))

    @cached_property
    def registered_names(self) -> Mapping[str, str]:
        """Registered names of the sets in the OGC register, by identifier."""
        named = {key: registered_name(item) for key, item in self.tile_matrix_sets.items()}
        return {key: name for key, name in named.items() if name is not None}

    @cached_property
    def aliases(self) -> Mapping[str, TileMatrixSet]:
        """Sets by registered name, without those that have it as their identifier, sorted."""
        sets = self.tile_matrix_sets
        # Of several sets, the first.
        found = {name: sets[key] for key, name in reversed([*self.registered_names.items()])}
        return {name: found[name] for name in sorted(found) if name not in sets}

    def tile_matrix_set(self, name: str) -> TileMatrixSet:
        """Return a set by its identifier or registered name.

        Raises:
            UnknownPathError: there is no such set.
        """
        found = self.tile_matrix_sets.get(name) or self.aliases.get(name)
        if found is None:
            raise UnknownPathError(f"there is no tile matrix set {printable(name)}")
        return found
