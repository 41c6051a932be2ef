"""Former names of what `mastaba_render.api.maps` contains (distribution mastaba-render)."""

from mastaba.api._deprecated import moved_names

_NAMES = """
Background DerivedTilePublisher Drawable EncodedMap LevelPixels MapImage MapLayer MapRequest Mask
Mosaic Pixels PreparedMap Renderer Sources StoredTiles Window as_data as_picture cache_control
coloured drawn_keys drawn_response finish_for identity_of is_bytes is_plausible joined
legend_palette legend_unit relief_name styled tiles_around
"""
__getattr__ = moved_names(__name__, {"mastaba_render.api.maps": _NAMES})
