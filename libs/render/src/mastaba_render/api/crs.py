"""CRSs in which maps are offered."""

from mastaba_render.crs_offer import CRSOffer, LayerCRS

__all__ = ["CRSOffer", "LayerCRS"]
