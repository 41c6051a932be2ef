"""Layer list and layer descriptors (server-config.md section 4, layer.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl

from mastaba.catalogue import Catalogue, LoadedLayer
from mastaba.config.composition import Composer, require_match
from mastaba.config.documents import DocumentReader
from mastaba.config.extents import with_extent
from mastaba.config.identifiers import problem_of, shortened
from mastaba.config.resources import ResourceLoader
from mastaba.config.server import ServerConfig
from mastaba.config.services import ServicesConfig, load_metadata
from mastaba.config.source import version_of
from mastaba.config.styles import make_style, unusable_reason
from mastaba.config.tile_matrix_sets import make_tile_matrix_set
from mastaba.containers.index_cache import IndexCache
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, is_known_crs
from mastaba.model.digest import digest_of
from mastaba.model.layer import Attribution, FeatureInfo, Layer, Logo
from mastaba.model.pyramid import Pyramid
from mastaba.model.style import Style
from mastaba.model.surrogate_keys import layer_keys
from mastaba.model.tile_matrix_set import TileMatrixSet
from mastaba.plugins.manager import Plugins
from mastaba.storage_pool import StoragePool
from mastaba.variants import VariantSource
from mastaba_documents.faults import FileFaults, UnusableError
from mastaba_server.threads.recent import Recent
from mastaba_storage.path import ResourcePath

Entries = Sequence[Mapping[str, Any]]

# A blank tile is an ordinary response.
_MISSING_TILE_STATUS: Final = {"404": 404, "204": 204, "blank": 200}


class LayerLoader:
    """Loader of layers from descriptors, and of the tile matrix sets and styles that they name.

    Args:
        shared: the settings of the services.
        known: catalogue whose tile matrix sets and styles are not loaded again.
    """

    def __init__(
        self,
        server: ServerConfig,
        plugins: Plugins,
        shared: ServicesConfig | Catalogue,
        indices: IndexCache,
        reader: DocumentReader,
        known: Catalogue | None = None,
    ) -> None:
        known_sets = known.tile_matrix_sets if known else None
        self.tile_matrix_sets: ResourceLoader[TileMatrixSet] = ResourceLoader(
            server.tile_matrix_sets, "tile_matrix_set", make_tile_matrix_set, reader, known_sets
        )
        known_styles = known.styles if known else None
        self.styles: ResourceLoader[Style] = ResourceLoader(
            server.styles, "style", make_style, reader, known_styles
        )
        self._composer = Composer(self.tile_matrix_sets, reader, plugins, indices)
        self._indices, self._plugins = indices, plugins
        self.opened: Recent[Layer] = known.opened if known else Recent(server.variants)
        self._installed = plugins.services.keys()
        self._services = {name: plugins.services[name] for name in shared.services}
        classes = self._services.values()
        self._raster_only = frozenset(item.name for item in classes if item.is_raster_only)
        self._own_keys = frozenset(key for item in classes for key in item.layer_schema)
        self._settings = shared.settings
        self._has_virtual = bool(shared.virtual)
        self.reader = reader

    @property
    def reports(self) -> dict[str, tuple[str, ...]]:
        """What containers say about themselves, by path."""
        return self._composer.reports

    def load(self, identifier: str, document: Any, file: str, listing: Any = None) -> LoadedLayer:
        """Return a layer and the readers of its levels; the document may be modified.

        Args:
            listing: of its variants, which are then not read; None to read them.
        """
        faults = FileFaults(self.reader.faults, file)
        # Before anything is removed from it.
        digest, descriptor = digest_of(document), None
        keys = document.keys() & {"dimensions", "variants"} if isinstance(document, dict) else ()
        if keys:
            descriptor = deepcopy(document)
            if not self._plugins.dimensions:
                reason = f"nothing installed reads it{self._plugins.dimensions.left_out}"
                faults.refuse(f"$.{min(keys)}", reason, "pip install mastaba-dimensions")
        hidden = self._switched_off(document)
        document = self.reader.validated(document, "layer", file, self._services)
        _check_identifier(identifier, faults)
        if identifier == "v" and self._has_virtual:
            text = "the layer v would have the addresses of virtual services"
            faults.refuse("$", text, "rename the layer, or remove the virtual services")
        pyramid, make, texts = self._composer.compose(document["pyramids"], faults)
        document = texts | document
        for key in ("title", "abstract"):
            if key not in document:
                faults.error(f"$.{key}", "is missing", f'add the key "{key}"')
        faults.require_usable()
        try:
            pyramid, native, geographic = with_extent(document.get("bbox"), pyramid, file)
        except ValueError as error:
            remedy = "correct bbox, or the tile limits of the pyramid"
            faults.refuse("$.bbox", f"the extent of the layer cannot be used: {error}", remedy)
        resampling, caching = document.get("resampling", "lanczos"), self._settings.caching
        styles = self._layer_styles(document, pyramid, faults)
        extra_sets = self._extra_sets(document, pyramid, file)
        sets = [_described(one) for one in (pyramid.tile_matrix_set, *extra_sets)]
        header = ("Mastaba-Pyramid", pyramid.generation)
        layer = Layer(
            id=identifier,
            title=document["title"],
            abstract=document["abstract"],
            pyramid=pyramid,
            native_bbox=native,
            geographic_bbox=geographic,
            styles=styles,
            hidden_from=hidden | self._raster_only if pyramid.format.is_vector else hidden,
            keywords=tuple(document.get("keywords", ())),
            metadata=tuple(load_metadata(entry) for entry in document.get("metadata", ())),
            attribution=_attribution(document.get("attribution")),
            resampling="lanczos_2" if resampling == "lanczos" else resampling,
            extra_crs=_extra_crs(document, geographic, faults),
            extra_tile_matrix_sets=extra_sets,
            feature_info=_feature_info(document.get("get_feature_info"), pyramid),
            cache_control=document.get("cache_control", caching.layers),
            surrogate_keys=layer_keys(identifier, pyramid) if caching.surrogate_keys else (),
            missing_tile_status=_MISSING_TILE_STATUS.get(document.get("missing_tile", "")),
            own={key: document[key] for key in document if key in self._own_keys},
            generation=digest_of(digest, pyramid.generation, styles, sets),
            headers=(header,) if self._settings.generation_headers else (),
            registration=document.get("registration", pyramid.registration),
        )
        readers = {name: make[name](level) for name, level in pyramid.levels.items()}
        table = None
        if descriptor is not None:
            faults = FileFaults(self.reader.faults, file)
            source = VariantSource(
                *(layer, document, file, self.reader, self.again(), self.opened, listing),
                *(faults.refuse, faults.warning),
            )
            tables = (kind.open(source) for kind in self._plugins.dimensions.values())
            table = next(filter(None, tables), None)
        if table is not None:
            layer, table.descriptor, table.file = table.layer, descriptor, file
        layer = replace(
            layer, open_variant=partial(_opened, self, layer, file, bbox=document.get("bbox"))
        )
        return LoadedLayer(layer, MappingProxyType(readers), table)

    def again(
        self, pool: StoragePool | None = None, indices: IndexCache | None = None
    ) -> LayerLoader:
        """Return a loader that loads pyramids again; it has problems of its own."""
        other = copy(self)
        other._indices = indices or self._indices
        other.reader = self.reader.silent(pool)
        other._composer = Composer(
            self.tile_matrix_sets, other.reader, self._plugins, other._indices
        )
        return other

    def variant(
        self,
        layer: Layer,
        entries: Entries,
        bbox: dict[str, float] | None,
        file: str,
        key: str,
        *,
        is_alike: bool = True,
    ) -> Layer:
        """Return a variant of a layer; call it once of each loader.

        Args:
            entries: its ``pyramids``; the levels may be absent.
            bbox: as in the descriptor of the layer.
            file: what messages call the variant.
            is_alike: whether it must have the grid and the format of the layer.

        Raises:
            UnusableError: it cannot be used.
        """
        faults = FileFaults(self.reader.faults, file)
        parts = [dict(entry) for entry in entries]
        pyramid, make, _ = self._composer.compose(parts, faults, may_be_whole=True)
        try:
            if is_alike:
                require_match(layer.pyramid, pyramid, is_hybrid=bool(self.reports))
            pyramid, native, geographic = with_extent(bbox, pyramid, file)
        except ValueError as error:
            remedy = "convert the pyramid with mastaba build, or make it a layer of its own"
            faults.refuse("$.pyramids", str(error), remedy)
        readers = {name: make[name](level) for name, level in pyramid.levels.items()}
        return replace(
            layer,
            key=key,
            pyramid=pyramid,
            native_bbox=native,
            geographic_bbox=geographic,
            surrogate_keys=layer.surrogate_keys and layer_keys(layer.id, pyramid, key),
            headers=layer.headers and (("Mastaba-Pyramid", pyramid.generation),),
            readers=MappingProxyType(readers),
        )

    def stamp_of(self, entries: Entries) -> str:
        """Return a digest of the versions of pyramids: as this loader read them, or as they are.

        Raises:
            ValueError, MastabaError: a path is invalid, or a storage does not answer.
        """
        paths, seen = [ResourcePath.parse(entry["path"]) for entry in entries], self.reader.source
        pool = self.reader.pool
        return digest_of([seen.versions.get(one) or version_of(pool, one) for one in paths])

    def _switched_off(self, document: Any) -> frozenset[str]:
        """Return the services that do not publish a layer.

        The switches of services that are not installed are removed from the descriptor.
        """
        hidden = set()
        for name, section in list(document.items()) if isinstance(document, dict) else ():
            is_enabled = section.get("enabled") if isinstance(section, dict) else None
            if is_enabled is False:
                hidden.add(name)
            if isinstance(is_enabled, bool) and name not in self._installed:
                del document[name]
        return frozenset(hidden)

    def _layer_styles(
        self, document: dict[str, Any], pyramid: Pyramid, faults: FileFaults
    ) -> tuple[Style, ...]:
        """Return the usable styles, or else the default style; none for a vector layer."""
        if pyramid.raster is None:
            return ()
        found: dict[str, Style] = {}
        for position, identifier in enumerate(document.get("styles", ())):
            with suppress(UnusableError):
                style = self.styles.get(identifier, f"styles[{position}] of {faults.file}")
                problem = unusable_reason(style, pyramid.raster.channels)
                if problem is None:
                    found.setdefault(style.identifier, style)
                    continue
                reason = f"the style {identifier!r} {problem}, it is skipped"
                remedy = "remove it from the list, or correct the style"
                faults.warning(f"$.styles[{position}]", reason, remedy)
        if found:
            return tuple(found.values())
        name = self._settings.default_style
        named_by = f"global.default_style of services.json, for {faults.file}"
        default = self.styles.get(name, named_by)
        problem = unusable_reason(default, pyramid.raster.channels)
        if problem is not None:
            reason = f"no style is usable, and the default style {name!r} {problem}"
            remedy = "name a style in styles, or correct global.default_style of services.json"
            faults.refuse("$.styles", reason, remedy)
        return (default,)

    def _extra_sets(
        self, document: dict[str, Any], pyramid: Pyramid, file: str
    ) -> tuple[TileMatrixSet, ...]:
        if not self._settings.tile_reprojection or pyramid.raster is None:
            return ()
        found: dict[str, TileMatrixSet] = {}
        for position, identifier in enumerate(document.get("extra_tilematrixsets", ())):
            if identifier != pyramid.tile_matrix_set.id:
                named_by = f"extra_tilematrixsets[{position}] of {file}"
                with suppress(UnusableError):
                    found[identifier] = self.tile_matrix_sets.get(identifier, named_by)
        return tuple(found.values())


def _opened(
    loader: LayerLoader,
    layer: Layer,
    file: str,
    entries: Entries,
    key: str,
    *,
    bbox: Any,
    **how: Any,
) -> Layer:
    return loader.again().variant(layer, entries, bbox, f"{file} ({key})", key, **how)


def _described(one: TileMatrixSet) -> tuple[object, ...]:
    # Not its CRS itself, whose area of use comes from the database of PROJ.
    matrices = tuple(one.matrices.values())
    return one.id, one.crs.code, matrices, one.title, one.abstract, one.keywords


def _extra_crs(document: dict[str, Any], bbox: BoundingBox, faults: FileFaults) -> tuple[str, ...]:
    """Return the codes that PROJ knows and whose area of use meets the layer."""
    codes: dict[str, None] = {}
    for position, code in enumerate(document.get("extra_crs", ())):
        problem, remedy = "is unknown", "write AUTHORITY:CODE, as in EPSG:3857"
        if is_known_crs(code):
            if CRS.from_code(code).area_of_use.intersection(bbox) is not None:
                codes[code.upper()] = None
                continue
            problem, remedy = "has an area of use that does not meet the layer", "remove it"
        reason = f"the CRS {code!r} {problem}, it is skipped"
        faults.warning(f"$.extra_crs[{position}]", reason, remedy)
    return tuple(codes)


def _check_identifier(identifier: str, faults: FileFaults) -> None:
    problem = problem_of(identifier)
    if problem is not None:
        reason = f"{shortened(identifier)} cannot be the identifier of a layer: {problem}"
        faults.refuse("$", reason, "rename the file")
    if not identifier or any(c in '<>"/' or not c.isprintable() for c in identifier):
        reason = f"{identifier!r} cannot be the identifier of a layer"
        faults.refuse("$", reason, 'rename the file: no <, >, ", / or control characters')
    if "," in identifier:
        reason = f"the layer {identifier!r} cannot be named in a list of layers"
        faults.warning("$", reason, "rename the file: no comma")


def _attribution(document: dict[str, Any] | None) -> Attribution | None:
    if document is None:
        return None
    logo = document.get("logo")
    return Attribution(
        document["title"],
        document["url"],
        logo and Logo(logo["format"], logo["url"], int(logo["width"]), int(logo["height"])),
    )


def _feature_info(document: dict[str, str] | None, pyramid: Pyramid) -> FeatureInfo | None:
    if document is None or pyramid.format.is_vector:
        return None
    if document["type"] == "PYRAMID":
        return FeatureInfo()
    return FeatureInfo(
        document["url"],
        document["layers"],
        document["query_layers"],
        MappingProxyType(dict(parse_qsl(document.get("extra_query_params", "")))),
    )
