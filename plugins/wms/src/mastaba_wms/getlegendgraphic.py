"""GetLegendGraphic (OGC 05-078r4 clause 8; optional operation of the SLD profile)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from mastaba.api.catalogue import Style
from mastaba.api.web import Response, content_disposition, printable
from mastaba.errors import UnsupportedFormatError
from mastaba_ows.parameters import integer
from mastaba_render.api.encoders import Encoder
from mastaba_wms import params
from mastaba_wms.dimensions import LayerNames
from mastaba_wms.published import unknown_layer

if TYPE_CHECKING:
    from mastaba.api.services import Site

DEFAULT_FORMAT: Final = "image/png"
_MAX_SYMBOL: Final = 200
"""Pixels; WIDTH and HEIGHT are hints for one symbol, not for the whole image."""


class GetLegendGraphic:
    """Answers GetLegendGraphic.

    Args:
        names: finds the layers of the service.
        encoders: of the formats offered for maps, by media type in lower case; legends use only
            picture formats.
        site: its renderer reads the values of layers.
    """

    def __init__(
        self,
        names: LayerNames,
        encoders: Mapping[str, Encoder],
        site: Site,
    ) -> None:
        self._names = names
        self._site = site
        self._encoders = {name: e for name, e in encoders.items() if e.is_picture}

    @property
    def formats(self) -> list[str]:
        """Media types of legends."""
        return [encoder.media_type for encoder in self._encoders.values()]

    def respond(self, parameters: Mapping[str, str]) -> Response:
        """Return the legend for the layer's style that STYLE names, by default its default style.

        Raises:
            RequestError: a parameter is missing or invalid.
        """
        # Loaded on first use: drawing needs a library that maps do not need.
        from mastaba_wms.drawing import encoded
        from mastaba_wms.legend import Symbol, draw_legend, legend_of, with_values

        identifier, name = params.required(parameters, "LAYER"), parameters.get("style", "")
        published, layer = self._names.legend_of(identifier, parameters)
        if ("wms", "legend") in layer.withheld:
            raise unknown_layer(identifier, "LAYER")
        if name not in published.styled:
            raise published.unknown_style(name)
        style = published.styled[name].style
        assert style is not None
        value = parameters.get("format") or DEFAULT_FORMAT
        encoder = self._encoders.get(value.strip().lower())
        if encoder is None:
            raise UnsupportedFormatError(f"there is no format {printable(value)}", "FORMAT")
        transparent = params.transparent(parameters)
        default = Symbol()
        symbol = Symbol(
            _hint(parameters, "WIDTH", default.width), _hint(parameters, "HEIGHT", default.height)
        )
        legend = with_values(legend_of(layer, style), layer, style, self._site.renderer)
        image = draw_legend(legend, symbol, transparent=transparent and encoder.holds_alpha)
        disposition = content_disposition(encoder.media_type, None, encoder.extension)
        headers = [
            ("Content-Type", encoder.media_type),
            ("Content-Disposition", disposition),
        ]
        return Response(200, headers, encoded(image, encoder, transparent=transparent))


def legend_url(endpoint_uri: str, layer: str, style: Style, media_type: str) -> str:
    """Return the URL of a style's legend, as `GetLegendGraphic` draws it by default."""
    joint = "&" if "?" in endpoint_uri else "?"
    return (
        f"{endpoint_uri}{joint}SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic"
        f"&LAYER={quote(layer, safe='')}&STYLE={quote(style.identifier, safe='')}"
        f"&FORMAT={media_type}"
    )


def _hint(parameters: Mapping[str, str], name: str, default: int) -> int:
    value = parameters.get(name.lower())
    return integer(value, name, 1, _MAX_SYMBOL) if value else default
