"""Layer list and layer descriptors (server-config.md section 4, layer.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl

from mastaba.config.book import Book
from mastaba.config.documents import DocumentReader
from mastaba.config.faults import Faults
from mastaba.config.pyramids import PyramidLoader, SlabPlace, StoredPyramid
from mastaba.config.schema import SchemaValidator, json_path
from mastaba.config.services import load_metadata
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, WGS84, geographic_bbox, is_known_crs
from mastaba.model.extent import pyramid_bbox
from mastaba.model.layer import Attribution, FeatureInfo, Layer, Logo
from mastaba.model.pyramid import Level, Pyramid
from mastaba.model.settings import Settings
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileMatrixSet
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.reader import LevelReader
from mastaba.storage.path import ResourcePath

_ONE_CHANNEL: Final = frozenset(("estompage", "pente", "exposition", "terrainrgb"))
_RASTER_ONLY: Final = frozenset(("wms", "wmts"))

# A blank tile is an ordinary response.
_MISSING_TILE_STATUS: Final = {"404": 404, "204": 204, "blank": 200}

LoadedLayer = tuple[Layer, Mapping[str, LevelReader]]


def read_layer_list(
    path: ResourcePath, reader: DocumentReader, faults: Faults, named_by: str
) -> dict[str, tuple[ResourcePath, str]] | None:
    """Return the path of each layer descriptor and the line that names it, by layer identifier.

    Return None if the list cannot be read.

    Args:
        named_by: key and file that name the list.
    """
    # An installation may start without layers and get them later.
    text = reader.text(path, named_by, may_be_empty=True)
    if text is None:
        return None
    paths: dict[str, tuple[ResourcePath, str]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            layer_path = ResourcePath.parse(line)
        except ValueError as error:
            faults.error(str(path), f"line {number}", str(error), "correct the path")
            continue
        other, _ = paths.setdefault(layer_path.stem, (layer_path, f"line {number} of {path}"))
        if other is not layer_path:
            faults.error(
                str(path),
                f"line {number}",
                f"the layer {layer_path.stem!r} is listed before, as {other}, which is used",
                "rename one of the descriptors",
            )
    return paths


class LayerLoader:
    """Loader of layers from descriptors.

    Args:
        settings: from services.json.
    """

    def __init__(
        self,
        settings: Settings,
        pyramids: PyramidLoader,
        styles: Book[Style],
        tile_matrix_sets: Book[TileMatrixSet],
        validator: SchemaValidator,
        indices: IndexCache,
        faults: Faults,
    ) -> None:
        self._settings = settings
        self._default_style = settings.default_style
        self._pyramids = pyramids
        self._styles = styles
        self._tile_matrix_sets = tile_matrix_sets
        self._validator = validator
        self._indices = indices
        self._faults = faults

    def load(self, identifier: str, document: Any, file: str) -> LoadedLayer | None:
        """Return a layer and the readers of its levels, or None after recording a problem."""
        document = self._validator.validate(document, file, self._faults)
        named = self._check_identifier(identifier, file)
        if document is None or not named:
            return None
        composed = self._compose(document["pyramids"], file)
        if composed is None:
            return None
        pyramid, places = composed
        crs = pyramid.tile_matrix_set.crs
        try:
            if "bbox" in document:
                corners = document["bbox"]
                geographic = BoundingBox(
                    *(float(corners[side]) for side in ("west", "south", "east", "north"))
                )
                if geographic.xmin > geographic.xmax or geographic.ymin > geographic.ymax:
                    raise ValueError(
                        "its west is east of its east, or its south north of its north"
                    )
                native = WGS84.transform_bbox(geographic, crs)
                pyramid = _narrowed(pyramid, native, f"{file}: $.bbox")
            else:
                native = pyramid_bbox(pyramid)
                geographic = geographic_bbox(native, crs)
            if not native.is_finite:
                raise ValueError("its coordinates are too large")
        except ValueError as error:
            self._faults.error(
                file,
                "$.bbox",
                f"the extent of the layer cannot be used: {error}",
                "correct bbox, or the tile limits of the pyramid",
            )
            return None
        styles = self._layer_styles(document, pyramid, file)
        if styles is None:
            return None
        layer = Layer(
            id=identifier,
            title=document["title"],
            abstract=document["abstract"],
            pyramid=pyramid,
            native_bbox=native,
            geographic_bbox=geographic,
            styles=styles,
            hidden_from=_hidden_from(document, pyramid),
            keywords=tuple(document.get("keywords", ())),
            metadata=tuple(load_metadata(entry) for entry in document.get("metadata", ())),
            attribution=_attribution(document.get("attribution")),
            resampling=_resampling(document.get("resampling", "lanczos_2")),
            extra_crs=self._extra_crs(document, geographic, file),
            extra_tile_matrix_sets=self._extra_sets(document, pyramid, file),
            feature_info=_feature_info(document.get("get_feature_info"), pyramid),
            cache_control=document.get("cache_control"),
            missing_tile_status=_MISSING_TILE_STATUS.get(document.get("missing_tile", "")),
        )
        readers = {
            name: places[name].reader(level, self._indices)
            for name, level in pyramid.levels.items()
        }
        return layer, MappingProxyType(readers)

    def _check_identifier(self, identifier: str, file: str) -> bool:
        if not identifier or any(c in '<>"/' or not c.isprintable() for c in identifier):
            self._faults.error(
                file,
                "$",
                f"{identifier!r} cannot be the identifier of a layer",
                'rename the file: no <, >, ", / nor control characters',
            )
            return False
        if "," in identifier:
            self._faults.warning(
                file,
                "$",
                f"the layer {identifier!r} cannot be named in a WMS request",
                "rename the file: no comma",
            )
        return True

    def _compose(
        self, entries: list[dict[str, str]], file: str
    ) -> tuple[Pyramid, dict[str, SlabPlace]] | None:
        """Return the union of the level ranges of all pyramids of a layer (layer.md section 3)."""
        levels: dict[str, Level] = {}
        places: dict[str, SlabPlace] = {}
        first: Pyramid | None = None
        usable = True
        for position, entry in enumerate(entries):
            at = json_path(["pyramids", position])
            stored = self._load_pyramid(entry["path"], f"{at}.path", file)
            if stored is None:
                usable = False
                continue
            first = first or stored.pyramid
            problem = _mismatch(first, stored.pyramid) or _bad_range(entry, stored.pyramid)
            if problem is None:
                for level in _range(entry, stored.pyramid):
                    identifier = level.matrix.id
                    if identifier in levels:
                        problem = f"the level {identifier!r} is taken from an earlier pyramid"
                        break
                    levels[identifier] = level
                    places[identifier] = stored.places[identifier]
            if problem is not None:
                self._faults.error(file, at, problem, "correct the pyramid or its levels")
                usable = False
        if not usable or first is None:
            return None
        ordered = sorted(levels.values(), key=lambda level: -level.matrix.cell_size)
        return (
            replace(first, levels=MappingProxyType({level.matrix.id: level for level in ordered})),
            places,
        )

    def _load_pyramid(self, text: str, at: str, file: str) -> StoredPyramid | None:
        try:
            path = ResourcePath.parse(text)
        except ValueError as error:
            self._faults.error(file, at, str(error), "correct the path")
            return None
        # Problems are recorded once, for the descriptor itself.
        return self._pyramids.load(path, f"{at.removeprefix('$.')} of {file}")

    def _layer_styles(
        self, document: dict[str, Any], pyramid: Pyramid, file: str
    ) -> tuple[Style, ...] | None:
        """Return the usable styles, or the default style; None if a raster layer has neither."""
        if pyramid.raster is None:
            return ()
        found: dict[str, Style] = {}
        for position, identifier in enumerate(document.get("styles", ())):
            style = self._styles.get(identifier, f"styles[{position}] of {file}")
            if style is None:  # already recorded
                continue
            problem = _unusable(style, pyramid)
            if problem is None:
                found.setdefault(style.identifier, style)
            else:
                self._faults.warning(
                    file,
                    json_path(["styles", position]),
                    f"the style {identifier!r} {problem}, it is skipped",
                    "remove it from the list, or correct the style",
                )
        if found:
            return tuple(found.values())
        default = self._styles.get(
            self._default_style, f"global.default_style of services.json, for {file}"
        )
        if default is None:
            return None
        problem = _unusable(default, pyramid)
        if problem is not None:
            self._faults.error(
                file,
                "$.styles",
                f"no style is usable, and the default style {self._default_style!r} {problem}",
                "name a style in styles, or correct global.default_style of services.json",
            )
            return None
        return (default,)

    def _extra_crs(self, document: dict[str, Any], bbox: BoundingBox, file: str) -> tuple[str, ...]:
        """Return the codes that PROJ knows and whose area of use meets the layer."""
        codes: dict[str, None] = {}
        for position, code in enumerate(document.get("extra_crs", ())):
            problem, remedy = "is not known", "write AUTHORITY:CODE, as in EPSG:3857"
            if is_known_crs(code):
                if CRS.from_code(code).area_of_use.intersection(bbox) is not None:
                    codes[code.upper()] = None
                    continue
                problem, remedy = "is not made for the place of this layer", "remove it"
            self._faults.warning(
                file,
                json_path(["extra_crs", position]),
                f"the CRS {code!r} {problem}, it is skipped",
                remedy,
            )
        return tuple(codes)

    def _extra_sets(
        self, document: dict[str, Any], pyramid: Pyramid, file: str
    ) -> tuple[TileMatrixSet, ...]:
        if not self._settings.tile_reprojection or pyramid.raster is None:
            return ()
        found: dict[str, TileMatrixSet] = {}
        for position, identifier in enumerate(document.get("extra_tilematrixsets", ())):
            if identifier == pyramid.tile_matrix_set.id:
                continue
            tile_matrix_set = self._tile_matrix_sets.get(
                identifier, f"extra_tilematrixsets[{position}] of {file}"
            )
            if tile_matrix_set is not None:
                found[identifier] = tile_matrix_set
        return tuple(found.values())


def _mismatch(first: Pyramid, other: Pyramid) -> str | None:
    """Return why two pyramids cannot form one layer, or None if they can."""
    pairs = [
        ("tile matrix set", first.tile_matrix_set.id, other.tile_matrix_set.id),
        ("format", first.format.name, other.format.name),
    ]
    if first.raster and other.raster:
        pairs += [
            ("photometric", first.raster.photometric, other.raster.photometric),
            ("channel count", str(first.raster.channels), str(other.raster.channels)),
        ]
    for word, one, two in pairs:
        if one != two:
            return f"its {word} {two} is not that of the first pyramid, {one}"
    return None


def _bad_range(entry: dict[str, str], pyramid: Pyramid) -> str | None:
    for key in ("bottom_level", "top_level"):
        if entry[key] not in pyramid.levels:
            known = ", ".join(pyramid.levels)
            return f"{key} {entry[key]!r} is no level of {pyramid.name} (levels: {known})"
    bottom = pyramid.levels[entry["bottom_level"]].matrix.cell_size
    if bottom > pyramid.levels[entry["top_level"]].matrix.cell_size:
        return "bottom_level is coarser than top_level"
    return None


def _range(entry: dict[str, str], pyramid: Pyramid) -> list[Level]:
    finest = pyramid.levels[entry["bottom_level"]].matrix.cell_size
    coarsest = pyramid.levels[entry["top_level"]].matrix.cell_size
    return [
        level for level in pyramid.levels.values() if finest <= level.matrix.cell_size <= coarsest
    ]


def _narrowed(pyramid: Pyramid, bbox: BoundingBox, named_by: str) -> Pyramid:
    """Return the pyramid with only the tiles that meet a bbox in its native CRS.

    Args:
        named_by: file and key of the bbox.

    Raises:
        ValueError: a level has no tile that meets it.
    """
    levels: dict[str, Level] = {}
    for identifier, level in pyramid.levels.items():
        limits = level.matrix.limits_of(bbox)
        common = None if limits is None else limits.intersection(level.limits)
        if common is None:
            raise ValueError(f"no tile of level {identifier} lies in it")
        if common != level.limits:
            level = replace(level, limits=common, limits_from=named_by)
        levels[identifier] = level
    return replace(pyramid, levels=MappingProxyType(levels))


def _unusable(style: Style, pyramid: Pyramid) -> str | None:
    """Return why a style cannot be used for a pyramid, or None if it can."""
    channels = pyramid.raster.channels if pyramid.raster else 0
    if (style.palette or _ONE_CHANNEL & style.processing.keys()) and channels != 1:
        return f"needs one channel, the pyramid has {channels}"
    source = style.processing.get("colorize", {}).get("source", (255, 255, 255))
    if "colorize" in style.processing and len(source) != channels:
        return f"needs {len(source)} channels, the pyramid has {channels}"
    return None


def _hidden_from(document: dict[str, Any], pyramid: Pyramid) -> frozenset[str]:
    hidden = {
        name
        for name, section in document.items()
        if isinstance(section, dict) and section.get("enabled") is False
    }
    return frozenset(hidden | _RASTER_ONLY if pyramid.format.is_vector else hidden)


def _attribution(document: dict[str, Any] | None) -> Attribution | None:
    if document is None:
        return None
    logo = document.get("logo")
    return Attribution(
        document["title"],
        document["url"],
        logo and Logo(logo["format"], logo["url"], int(logo["width"]), int(logo["height"])),
    )


def _resampling(name: str) -> str:
    return "lanczos_2" if name == "lanczos" else name


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
