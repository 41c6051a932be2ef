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
from mastaba.config.containers import ContainerLoader
from mastaba.config.documents import DocumentReader
from mastaba.config.identifiers import problem_of, shortened
from mastaba.config.pyramids import PyramidLoader, coarse_to_fine
from mastaba.config.resources import ResourceLoader
from mastaba.config.server import ServerConfig
from mastaba.config.services import ServicesConfig, load_metadata
from mastaba.config.source import version_of
from mastaba.config.styles import make_style
from mastaba.config.tile_matrix_sets import make_tile_matrix_set
from mastaba.containers.base import MakeReader
from mastaba.containers.index_cache import IndexCache
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, WGS84, geographic_bbox, is_known_crs
from mastaba.model.digest import digest_of
from mastaba.model.extent import pyramid_bbox
from mastaba.model.layer import Attribution, FeatureInfo, Layer, Logo
from mastaba.model.pyramid import Level, Part, Pyramid
from mastaba.model.style import Style
from mastaba.model.surrogate_keys import layer_keys
from mastaba.model.tile_matrix_set import TileMatrix, TileMatrixSet
from mastaba.plugins.manager import Plugins
from mastaba.storage_pool import StoragePool
from mastaba.variants import VariantSource
from mastaba_documents.faults import FileFaults, UnusableError
from mastaba_server.threads.recent import Recent
from mastaba_storage.path import ResourcePath

Entries = Sequence[Mapping[str, Any]]

_ONE_CHANNEL: Final = frozenset(("estompage", "pente", "exposition", "terrainrgb"))

_SHIFT: Final = 0.01
_DRIFT: Final = 0.1
"""Pixels by which the levels of one layer may differ: at the origin, and at the far edge."""

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
        self._pyramids = PyramidLoader(self.tile_matrix_sets, reader, indices)
        self.reports: dict[str, tuple[str, ...]] = {}
        self._containers = ContainerLoader(self.tile_matrix_sets, reader, plugins, indices)
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
        pyramid, make, texts = self._compose(document["pyramids"], faults)
        document = texts | document
        for key in ("title", "abstract"):
            if key not in document:
                faults.error(f"$.{key}", "is missing", f'add the key "{key}"')
        faults.require_usable()
        try:
            pyramid, native, geographic = _extent(document.get("bbox"), pyramid, file)
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
        other, sets = copy(self), self.tile_matrix_sets
        other._indices = indices or self._indices
        other.reader, other.reports = self.reader.silent(pool), {}
        other._pyramids = PyramidLoader(sets, other.reader, other._indices)
        other._containers = ContainerLoader(sets, other.reader, self._plugins, other._indices)
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
        pyramid, make, _ = self._compose(parts, faults, may_be_whole=True)
        try:
            if is_alike:
                _require_match(layer.pyramid, pyramid, is_hybrid=bool(self.reports))
            pyramid, native, geographic = _extent(bbox, pyramid, file)
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

    def _compose(
        self, entries: list[dict[str, Any]], faults: FileFaults, *, may_be_whole: bool = False
    ) -> tuple[Pyramid, dict[str, MakeReader], dict[str, Any]]:
        """Return the union of the level ranges of all pyramids of a layer (layer.md section 3).

        The third item are texts of containers, for those that the layer does not have.

        Args:
            may_be_whole: whether a pyramid may be named without levels.
        """
        texts: dict[str, Any] = {}
        sources: dict[str, str] = {}
        taken: dict[str, str] = {}
        containers: list[ResourcePath] = []
        levels: dict[str, Level] = {}
        readers: dict[str, MakeReader] = {}
        pyramids: list[Pyramid] = []
        parts: list[Part] = []
        for position, entry in enumerate(entries):
            at = f"$.pyramids[{position}]"
            with faults.attempt():
                path = self.reader.path(entry["path"], faults.file, f"{at}.path")
                # Problems of the descriptor are recorded once, for the descriptor itself.
                named_by = f"pyramids[{position}].path of {faults.file}"
                key = self._containers.key_of(entry, path, at, faults)
                opened = (
                    self._pyramids.get(path, named_by)
                    if key is None
                    else self._containers.get(key, named_by)
                )
                pyramid = opened.pyramid
                if key is not None:
                    containers.append(path)
                    self.reports[str(path)] = opened.report
                    texts.setdefault("abstract", opened.abstract)
                    if opened.title:
                        texts.setdefault("title", opened.title)
                    if opened.attribution:
                        sources[opened.attribution] = opened.attribution_url
                        url = opened.attribution_url if len(sources) == 1 else ""
                        texts["attribution"] = {"title": ", ".join(sources), "url": url}
                else:
                    ends = () if may_be_whole else ("bottom_level", "top_level")
                    missing = [end for end in ends if end not in entry]
                    for end in missing:
                        faults.error(f"{at}.{end}", "is missing", f'add the key "{end}"')
                    if missing:
                        continue
                    levels_of = (entry.get(end, "") for end in ("bottom_level", "top_level"))
                    parts.append(Part(str(path), pyramid.generation, *levels_of))
                pyramids.append(pyramid)
                try:
                    _require_match(pyramids[0], pyramid, is_hybrid=bool(containers))
                    for level in _range(entry, pyramid):
                        name = level.matrix.id
                        if name in levels:
                            raise ValueError(
                                f"the level {name!r} is taken from an earlier pyramid, "
                                f"{taken[name]}"
                            )
                        matrix = _fitting(level, pyramids[0])
                        levels[name] = replace(level, matrix=matrix)
                        readers[name], taken[name] = opened.readers[name], str(path)
                except ValueError as error:
                    faults.refuse(at, str(error), "correct the pyramid or its levels")
        faults.require_usable()
        composed = replace(
            pyramids[0],
            levels=coarse_to_fine(levels),
            parts=() if containers else tuple(parts),
        )
        if len(pyramids) > 1:
            generation = digest_of([pyramid.generation for pyramid in pyramids])
            composed = replace(composed, generation=generation, update=None, bbox=None)
        return composed, readers, texts

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
                problem = _unusable(style, pyramid.raster.channels)
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
        problem = _unusable(default, pyramid.raster.channels)
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


def _extent(
    bbox: dict[str, float] | None, pyramid: Pyramid, file: str
) -> tuple[Pyramid, BoundingBox, BoundingBox]:
    """Return the pyramid inside the configured box, and its native and geographic box.

    Args:
        bbox: WGS 84 degrees, as in the descriptor.

    Raises:
        ValueError: the box is invalid, or contains no tile of a level.
    """
    crs = pyramid.tile_matrix_set.crs
    if bbox is None:
        native = pyramid_bbox(pyramid)
        geographic = geographic_bbox(native, crs)
    else:
        sides = (float(bbox[side]) for side in ("west", "south", "east", "north"))
        geographic = BoundingBox(*sides)
        if geographic.xmin > geographic.xmax or geographic.ymin > geographic.ymax:
            raise ValueError("its west is east of its east, or its south north of its north")
        native = WGS84.transform_bbox(geographic, crs)
        pyramid = _narrowed(pyramid, native, f"{file}: $.bbox")
    if not native.is_finite:
        raise ValueError("its coordinates are too large")
    return pyramid, native, geographic


def _require_match(first: Pyramid, other: Pyramid, *, is_hybrid: bool) -> None:
    """Check that two pyramids can form one layer."""
    kinds = _kind(first, is_hybrid).items(), _kind(other, is_hybrid).values()
    for (word, one), two in zip(*kinds, strict=False):
        if one != two:
            raise ValueError(f"its {word} {two} differs from that of the first pyramid, {one}")


def _kind(pyramid: Pyramid, is_hybrid: bool) -> dict[str, object]:
    """Return what all pyramids of a layer have in common, the format before what it implies."""
    kind: dict[str, object] = {"tile matrix set": pyramid.tile_matrix_set.id}
    kind["format"] = pyramid.format.name
    if is_hybrid:
        kind = {"CRS": pyramid.tile_matrix_set.crs.code, "media type": pyramid.format.media_type}
        kind["compression"] = pyramid.format.codec.value
    if pyramid.raster is not None:
        if not is_hybrid:
            kind["photometric"] = pyramid.raster.photometric
        kind["channel count"] = pyramid.raster.channels
        if is_hybrid and pyramid.format.sample == "float32":
            kind["nodata"] = pyramid.raster.nodata
    return kind


def _fitting(level: Level, first: Pyramid) -> TileMatrix:
    """Return the matrix of a level in the set of the first pyramid.

    Raises:
        ValueError: tiles of the level have other places there.
    """
    one, limits = level.matrix, level.limits
    other = first.tile_matrix_set.matrices.get(one.id)
    if other is None or (one.tile_width, one.tile_height) != (other.tile_width, other.tile_height):
        raise ValueError(
            f"the level {one.id!r} does not fit into {first.tile_matrix_set.id}, the tile matrix "
            "set of the first pyramid"
        )
    for corner in ("origin_x", "origin_y"):
        if abs(getattr(one, corner) - getattr(other, corner)) > _SHIFT * other.cell_size:
            raise ValueError(f"the level {one.id!r} has another origin than in the first pyramid")
    pixels = max((limits.max_col + 1) * one.tile_width, (limits.max_row + 1) * one.tile_height)
    if abs(one.cell_size / other.cell_size - 1) * pixels > _DRIFT:
        raise ValueError(f"the level {one.id!r} has another cell size than in the first pyramid")
    return other


def _range(entry: dict[str, str], pyramid: Pyramid) -> list[Level]:
    """Return the levels from bottom_level to top_level."""
    ends = {"bottom_level": pyramid.finest.matrix.id, "top_level": pyramid.coarsest.matrix.id}
    entry = {**ends, **entry}
    for key in ends:
        if entry[key] not in pyramid.levels:
            known = ", ".join(pyramid.levels)
            reason = f"{key} {entry[key]!r} is not a level of {pyramid.name} (levels: {known})"
            raise ValueError(reason)
    finest = pyramid.levels[entry["bottom_level"]].matrix.cell_size
    coarsest = pyramid.levels[entry["top_level"]].matrix.cell_size
    if finest > coarsest:
        raise ValueError("bottom_level is coarser than top_level")
    levels = pyramid.levels.values()
    return [level for level in levels if finest <= level.matrix.cell_size <= coarsest]


def _narrowed(pyramid: Pyramid, bbox: BoundingBox, named_by: str) -> Pyramid:
    """Return the pyramid with only the tiles that meet a bbox in its native CRS."""
    levels: dict[str, Level] = {}
    for identifier, level in pyramid.levels.items():
        limits = level.matrix.limits_of(bbox)
        common = None if limits is None else limits.intersection(level.limits)
        if common is None:
            raise ValueError(f"it contains no tile of level {identifier}")
        if common != level.limits:
            level = replace(level, limits=common, limits_from=named_by)
        levels[identifier] = level
    return replace(pyramid, levels=MappingProxyType(levels))


def _unusable(style: Style, channels: int) -> str | None:
    """Return why a style cannot be used for a pyramid, or None if it can."""
    if (style.palette or _ONE_CHANNEL & style.processing.keys()) and channels != 1:
        return f"needs one channel, the pyramid has {channels}"
    source = style.processing.get("colorize", {}).get("source", (255, 255, 255))
    if "colorize" in style.processing and len(source) != channels:
        return f"needs {len(source)} channels, the pyramid has {channels}"
    return None


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
