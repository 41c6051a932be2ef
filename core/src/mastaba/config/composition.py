"""The pyramids of a layer as one: the union of their levels (layer.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mastaba.config.containers import ContainerLoader
from mastaba.config.documents import DocumentReader
from mastaba.config.pyramids import PyramidLoader, coarse_to_fine
from mastaba.config.resources import ResourceLoader
from mastaba.containers.base import MakeReader
from mastaba.containers.index_cache import IndexCache
from mastaba.errors import RendererMissingError
from mastaba.model.digest import digest_of
from mastaba.model.pyramid import Level, Pyramid, PyramidLevels
from mastaba.model.tile_matrix_set import TileMatrix, TileMatrixSet
from mastaba.plugins.manager import Plugins
from mastaba.services import drawing
from mastaba_documents.faults import FileFaults
from mastaba_storage.path import ResourcePath

_SHIFT: Final = 0.01
_DRIFT: Final = 0.1
"""Pixels by which the levels of one layer may differ: at the origin, and at the far edge."""


class Composer:
    """Opens the pyramids of layers, and unites their levels.

    Args:
        sets: tile matrix sets that pyramids may name.

    Attributes:
        reports: what containers say about themselves, by path.
    """

    def __init__(
        self,
        sets: ResourceLoader[TileMatrixSet],
        reader: DocumentReader,
        plugins: Plugins,
        indices: IndexCache,
    ) -> None:
        self.reports: dict[str, tuple[str, ...]] = {}
        self._reader = reader
        self._pyramids = PyramidLoader(sets, reader, indices)
        self._containers = ContainerLoader(sets, reader, plugins, indices)

    def compose(
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
        parts: list[PyramidLevels] = []
        for position, entry in enumerate(entries):
            at = f"$.pyramids[{position}]"
            with faults.attempt():
                path = self._reader.path(entry["path"], faults.file, f"{at}.path")
                # Problems of the descriptor are recorded once, for the descriptor itself.
                named_by = f"pyramids[{position}].path of {faults.file}"
                key = self._containers.key_of(entry, path, at, faults)
                opened = (
                    self._pyramids.get(path, named_by)
                    if key is None
                    else self._containers.get(key._replace(is_hybrid=len(entries) > 1), named_by)
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
                    parts.append(PyramidLevels(str(path), pyramid.generation, *levels_of))
                pyramids.append(pyramid)
                try:
                    require_match(pyramids[0], pyramid, is_hybrid=bool(containers))
                    made = _in_one_coding(opened.readers, pyramid, pyramids[0], at, faults)
                    for level in _range(entry, pyramid):
                        name = level.matrix.id
                        if name in levels:
                            raise ValueError(
                                f"the level {name!r} is taken from an earlier pyramid, "
                                f"{taken[name]}"
                            )
                        matrix = _fitting(level, pyramids[0])
                        levels[name] = replace(level, matrix=matrix)
                        readers[name], taken[name] = made[name], str(path)
                except (ValueError, RendererMissingError) as error:
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


def require_match(first: Pyramid, other: Pyramid, *, is_hybrid: bool) -> None:
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
        kind = {"CRS": pyramid.tile_matrix_set.crs.code}
        kind["type"] = pyramid.format.sample or pyramid.format.media_type
    if pyramid.raster is not None:
        if not is_hybrid:
            kind["photometric"] = pyramid.raster.photometric
        kind["channel count"] = pyramid.raster.channels
        if is_hybrid and pyramid.format.sample == "float32":
            kind["nodata"] = pyramid.raster.nodata
    return kind


def _in_one_coding(
    readers: Mapping[str, MakeReader], pyramid: Pyramid, first: Pyramid, at: str, faults: FileFaults
) -> Mapping[str, MakeReader]:
    """Return what makes readers that deliver the format of the first pyramid of a layer."""
    ours, wanted = ((one.format.media_type, one.format.codec) for one in (pyramid, first))
    if ours == wanted:
        return readers
    reason = f"its tiles, {pyramid.format.name}, are decoded and sent as {first.format.name}"
    faults.warning(at, reason, "prefer the format of the first pyramid")
    return drawing.load("recoding").recoded(readers, pyramid, first.format)  # type: ignore[no-any-return]


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
