"""MapLibre styles of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba_ows.offers import stylesheets

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site


def default_stylesheet(layer: Layer, site: Site) -> str:
    """Return the URL of the default style of a layer; empty if no service has one."""
    return next((sheet.href for sheet in stylesheets(site, layer, "viewer")), "")
