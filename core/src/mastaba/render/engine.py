"""The rendering engine: maps of layers in any extent, CRS and style."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mastaba import trace
from mastaba.catalogue import Catalogue
from mastaba.errors import InvalidParameterError
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.settings import MapSettings
from mastaba.render.admission import Admission
from mastaba.render.compose import joined, merge, merge_memory
from mastaba.render.float_pictures import FloatPictures
from mastaba.render.layer_map import Extent
from mastaba.render.limits import check_size
from mastaba.render.map_request import MapImage, MapLayer, MapRequest
from mastaba.render.mosaic import LevelPixels, latest
from mastaba.render.styled_layer import StyledLayer, is_bytes
from mastaba.render.tile_cache import TileCache

_SMALL_THINGS: Final = 1024**2
"""Bytes of positions, weights and tile descriptions."""


class PreparedMap:
    """A map within the limits, ready to draw. No tile has been read yet.

    Attributes:
        width, height: pixels.
        strip_height: rows drawn at a time by default.
    """

    def __init__(
        self, layers: Sequence[StyledLayer], width: int, height: int, limits: MapSettings
    ) -> None:
        self._layers = layers
        self.width = width
        self.height = height
        for layer in layers:
            layer.check(limits)
        # Only now each layer has chosen what it is drawn from.
        self.strip_height = min(layer.strip_height for layer in layers)
        for layer in layers:
            layer.check_strips(limits, self._cuts(self.strip_height))

    @property
    def is_empty(self) -> bool:
        """Whether all pixels are nodata because none has a position in any layer."""
        return all(layer.is_empty for layer in self._layers)

    def version(self) -> str | None:
        """Return a text that changes with the stored tiles of the map.

        Reads only slab indices that are not yet known. The text does not cover the other inputs
        of the pixels (extent, CRS, kernel, style).

        Returns:
            None if a storage cannot distinguish generations of a slab.

        Raises:
            SlabFormatError, StorageError: an index cannot be read.
        """
        versions = [layer.version() for layer in self._layers]
        known = [version for version in versions if version is not None]
        return ",".join(known) if len(known) == len(versions) else None

    def modified(self) -> float | None:
        """Return when the slabs of the map were last modified; see `LevelPixels.modified`."""
        return latest(layer.modified() for layer in self._layers)

    @property
    def blank(self) -> MapImage:
        """A pixel without data, with the channels, sample type and nodata value of the map."""
        return merge([layer.blank for layer in self._layers])

    @property
    def memory(self) -> int:
        """Upper estimate of the bytes held at once while drawing, without those of an encoder."""
        cuts = self._cuts(self.strip_height)
        layers = [layer.memory(cuts) for layer in self._layers]
        merging = merge_memory(self.blank, len(layers)) * self.strip_height * self.width
        return (
            _SMALL_THINGS
            + sum(layer.kept + layer.drawn for layer in layers)
            + max(merging, *(layer.drawing for layer in layers))
        )

    def strips(self, height: int | None = None) -> Iterator[MapImage]:
        """Yield the map in strips of rows, from the top.

        Args:
            height: rows of each strip except the last, instead of `strip_height`. The pixels do
                not depend on it.

        Raises:
            SlabFormatError, StorageError: the data cannot be read.
        """
        cuts = self._cuts(height or self.strip_height)
        layers = [layer.strips(cuts) for layer in self._layers]
        for _ in cuts:
            with trace.step("draw"):
                image = merge([next(layer) for layer in layers])
            yield image

    def draw(self) -> MapImage:
        """Return the whole map. Raises what `strips` raises."""
        return joined(list(self.strips()), axis=0)

    def _cuts(self, height: int) -> Sequence[slice]:
        return [
            slice(start, min(start + height, self.height))
            for start in range(0, self.height, height)
        ]


class Renderer:
    """Renders maps of one catalogue. Shared by all threads.

    Callers draw and encode the map of a request inside ``admission.map``.

    Args:
        tiles: cache of decoded tiles to use instead of a new one.
    """

    def __init__(self, catalogue: Catalogue, tiles: TileCache | None = None) -> None:
        self._catalogue = catalogue
        self._settings = catalogue.settings.map
        self.tiles = TileCache(catalogue.decoded_tiles_size) if tiles is None else tiles
        self.admission = Admission(catalogue.map_limits)
        self._levels: dict[str, dict[str, LevelPixels]] = {}
        self._float_pictures = FloatPictures()

    def of(self, catalogue: Catalogue) -> Renderer:
        """Return a renderer of another catalogue with the caches and limits of this one."""
        renderer = Renderer(catalogue, self.tiles)
        renderer.admission = self.admission
        return renderer

    def prepare(self, request: MapRequest, limits: MapSettings | None = None) -> PreparedMap:
        """Decide how to draw a map, and refuse one beyond the limits.

        Args:
            limits: limits to use instead of those of the catalogue.

        Raises:
            InvalidParameterError: sizes, number of layers, source tiles or bytes beyond the
                limits; layers whose pixels have different sample types.
        """
        limits = limits or self._settings
        check_size(request, limits)
        if len({is_bytes(entry.layer, entry.style) for entry in request.layers}) > 1:
            raise InvalidParameterError(
                "8-bit pictures and float values cannot go into one map", "LAYERS"
            )
        layers = [self._styled_layer(request, entry) for entry in request.layers]
        return PreparedMap(layers, request.width, request.height, limits)

    def in_picture(self, entry: MapLayer) -> MapLayer:
        """Return a layer in a style that a picture format can hold; see `FloatPictures.styled`."""
        return self._float_pictures.styled(entry, self._level_pixels(entry.layer))

    def render(self, request: MapRequest) -> MapImage:
        """Prepare and draw a map. Raises what `prepare` and `PreparedMap.draw` raise."""
        return self.prepare(request).draw()

    def _styled_layer(self, request: MapRequest, entry: MapLayer) -> StyledLayer:
        return StyledLayer(
            entry,
            self._level_pixels(entry.layer),
            Extent(request.bbox, request.crs, request.width, request.height),
            same_crs=self._same_crs(request.crs, entry.layer),
            resolution_factor=request.resolution_factor,
        )

    def _same_crs(self, crs: CRS, layer: Layer) -> bool:
        native = layer.pyramid.tile_matrix_set.crs
        return self._catalogue.settings.equivalences.equal(crs.code, native.code)

    def _level_pixels(self, layer: Layer) -> dict[str, LevelPixels]:
        levels = self._levels.get(layer.id)
        if levels is None:
            # Two threads may create it at a time; the second replaces an equal one.
            levels = self._levels[layer.id] = {
                name: LevelPixels(layer.pyramid, reader, self.tiles)
                for name, reader in self._catalogue.readers[layer.id].items()
            }
        return levels
