"""CRSs in which maps are offered (layer.md section 6, services-config.md sections 2.1 and 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mastaba.model.layer import Layer
from mastaba.model.settings import Settings


@dataclass(frozen=True, slots=True)
class LayerCRS:
    """The CRSs of one layer.

    Attributes:
        own: codes that are not shared by all layers: the native one, its equivalents, and the
            extra ones.
        offered: all codes that a request may name.
    """

    own: tuple[str, ...]
    offered: frozenset[str]


class CRSOffer:
    """The CRSs offered by a configuration.

    Args:
        settings: settings of the configuration.

    Attributes:
        shared: codes in which all layers are offered; empty without reprojection.
    """

    def __init__(self, settings: Settings) -> None:
        self._equivalences = settings.equivalences
        self._reprojection = settings.map.reprojection
        found: dict[str, None] = {}
        for code in settings.map.crs:
            found |= dict.fromkeys((code, *self._equivalences.equivalents(code)))
        self.shared = tuple(found)
        self._shared = frozenset(found)

    def of(self, layer: Layer) -> LayerCRS:
        """Return the CRSs of a layer."""
        native = layer.pyramid.tile_matrix_set.crs.code
        # Equivalents of the native CRS need no reprojection, so they are always offered.
        further = self._equivalences.equivalents(native)
        if self._reprojection:
            further += layer.extra_crs
        own = dict.fromkeys((native, *(code for code in further if code not in self._shared)))
        return LayerCRS(tuple(own), self._shared | own.keys())

    def common(self, layers: Iterable[LayerCRS]) -> tuple[str, ...]:
        """Return the codes in which all given layers are offered; `shared` for no layers."""
        own = [layer.own for layer in layers]
        further = [code for code in own[0] if all(code in codes for codes in own)] if own else []
        return tuple(dict.fromkeys((*self.shared, *further)))
