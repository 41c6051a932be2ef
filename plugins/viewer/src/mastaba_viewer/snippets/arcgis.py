"""ArcGIS: the address that it asks for to add a WMTS."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def address(offer: Offer) -> str | None:
    """Return the URL of the capabilities, and on another line the attribution."""
    if not offer.wmts:
        return None
    lines = (f"{offer.wmts}/1.0.0/WMTSCapabilities.xml", offer.attribution)
    return "".join(f"{line}\n" for line in lines if line)
