"""GDAL: a command that describes the layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def command(offer: Offer) -> str | None:
    """Return the line for a shell."""
    if not offer.wmts:
        return None
    return f"gdalinfo {_shell(f'WMTS:{offer.capabilities},layer={offer.layer.id}')}\n"


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
