"""What the heights of a layer mean: the object ``vertical`` of a layer descriptor (0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyproj
from pyproj.exceptions import CRSError

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer

KEY: Final = "vertical"

LAYER_SCHEMA: Final[Mapping[str, Any]] = {
    KEY: {
        "type": "object",
        "description": "What the heights of the layer mean. Nothing is computed from it but "
        "ellipsoidal heights.",
        "additionalProperties": False,
        "properties": {
            "crs": {
                "type": "string",
                "pattern": "^[A-Za-z]{1,16}:[A-Za-z0-9_.]{1,64}$",
                "description": "Code of the vertical or compound CRS, such as EPSG:5720.",
            },
            "kind": {
                "enum": ["terrain", "surface", "height-above-ground", "depth"],
                "description": "What the values measure.",
            },
            "accuracy": {
                "type": ["number", "string"],
                "description": "Metres (one standard deviation), or a text.",
            },
            "unit": {
                "type": "string",
                "minLength": 1,
                "default": "m",
                "description": "Unit of the heights, as legends and answers show it.",
            },
            "source": {"type": "string", "description": "Where the data come from."},
            "date": {"type": "string", "description": "Date of the data, RFC 3339."},
            "to_ellipsoid": {
                "type": ["number", "string"],
                "description": "Height of the zero surface above the WGS 84 ellipsoid: metres, or "
                "the name of a grid file of PROJ.",
            },
        },
    }
}


@dataclass(frozen=True, slots=True)
class Vertical:
    """Meaning of heights; empty texts and None where it is unknown.

    Attributes:
        crs: code of the vertical or compound CRS.
        name: its name in PROJ.
        kind: ``terrain``, ``surface``, ``height-above-ground`` or ``depth``.
        accuracy: metres (one standard deviation) or a text.
        unit: label of the unit of the heights.
        source, date: texts.
        to_ellipsoid: metres, or the name of a grid of PROJ.
    """

    crs: str = ""
    name: str = ""
    kind: str = ""
    accuracy: float | str | None = None
    unit: str = "m"
    source: str = ""
    date: str = ""
    to_ellipsoid: float | str | None = None

    @property
    def text(self) -> str:
        """One line for people, such as ``NGF-IGN69 height, ±0.5 m``; ``unknown`` without any."""
        accuracy = self.accuracy
        shown = f"±{accuracy:g} m" if isinstance(accuracy, int | float) else accuracy
        return ", ".join(filter(None, (self.name, shown))) or "unknown"

    def document(self) -> dict[str, Any]:
        """Return what is known, for answers."""
        known = {
            "crs": self.crs,
            "name": self.name,
            "kind": self.kind,
            "accuracy": self.accuracy,
            "source": self.source,
            "date": self.date,
        }
        return {key: value for key, value in known.items() if value not in ("", None)}


def vertical_of(layer: Layer) -> Vertical:
    """Return what the descriptor of a layer says about its heights.

    Raises:
        ValueError: the CRS is unknown, or has no vertical axis.
    """
    fields = dict(layer.own.get(KEY, {}))
    code = fields.get("crs", "")
    return Vertical(name=_name(code) if code else "", **fields)


def _name(code: str) -> str:
    try:
        crs = pyproj.CRS.from_user_input(code)
    except CRSError:
        raise ValueError(f"the vertical CRS {code} is unknown") from None
    if not crs.is_vertical:
        raise ValueError(f"the CRS {code} has no heights")
    parts = [part for part in crs.sub_crs_list if part.is_vertical]
    return str((parts or [crs])[-1].name)
