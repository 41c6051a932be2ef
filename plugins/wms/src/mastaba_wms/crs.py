"""In which CRSs a layer is offered (layer.md section 6, services-config.md sections 2.1 and 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mastaba.model.crs import CRS, UnknownCRSError
from mastaba.model.layer import Layer
from mastaba.model.settings import Settings

# The same coordinates but for the order in which they are written.
_TWINS = {"CRS:84": "EPSG:4326", "EPSG:4326": "CRS:84"}


@dataclass(frozen=True, slots=True)
class LayerCRS:
    """The CRSs of one layer.

    Attributes:
        own: codes beside those that all layers share: the native one first, its equivalents,
            the extra ones.
        offered: every code that a request may name.
    """

    own: tuple[str, ...]
    offered: frozenset[str]


class CRSOffer:
    """Which CRSs are offered. Made once for a configuration; knows only codes that are offered.

    Attributes:
        shared: codes that all layers are offered in.
    """

    def __init__(self, settings: Settings) -> None:
        self._equivalences = settings.equivalences
        self._reprojection = settings.map.reprojection
        self.shared = self._with_equivalents(settings.map.crs if self._reprojection else ())
        self._shared = frozenset(self.shared)

    def of(self, layer: Layer) -> LayerCRS:
        """Return the CRSs of a layer."""
        native = layer.pyramid.tile_matrix_set.crs.code.upper()
        own = dict.fromkeys([native])
        own.update(dict.fromkeys(c for c in self._equivalents(native) if c not in self._shared))
        if self._reprojection:
            own.update(
                dict.fromkeys(
                    code
                    for code in map(str.upper, layer.extra_crs)
                    if code not in self._shared and _meets(code, layer)
                )
            )
        # Equivalents of the native CRS need no reprojection, so they count in any case.
        return LayerCRS(tuple(own), self._shared | own.keys())

    def common(self, layers: Iterable[LayerCRS]) -> tuple[str, ...]:
        """Return the codes for the root layer: those that each of some layers is offered in."""
        layers = list(layers)
        if not layers:
            return self.shared
        further = frozenset.intersection(*(frozenset(layer.own) for layer in layers))
        return self.shared + tuple(c for c in layers[0].own if c in further - self._shared)

    def _equivalents(self, code: str) -> list[str]:
        return [*([_TWINS[code]] if code in _TWINS else []), *self._equivalences.declared(code)]

    def _with_equivalents(self, codes: Iterable[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for code in map(str.upper, codes):
            found[code] = None
            if code in _TWINS:
                found[_TWINS[code]] = None
        return tuple(found)


def _meets(code: str, layer: Layer) -> bool:
    """Tell whether the area of use of a CRS has something in common with a layer."""
    try:
        area = CRS.from_code(code).area_of_use
    except UnknownCRSError:
        return False
    return area.intersection(layer.geographic_bbox) is not None
