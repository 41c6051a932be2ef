"""Maps of stored pyramids: levels, resampling, reprojection, styles, image formats, drawn tiles.

The core loads it for the first map (`mastaba.services.drawing`). `mastaba_render.api` is public.
"""
