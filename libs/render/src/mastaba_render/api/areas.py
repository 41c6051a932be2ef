"""Areas: layers of which only a part of the ground is shown."""

from mastaba_render.areas.area import Area, Cut
from mastaba_render.areas.parsing import polygons_of
from mastaba_render.areas.reader import MaskedLevelReader
from mastaba_render.areas.views import masked_readers, narrowed

__all__ = ["Area", "Cut", "MaskedLevelReader", "masked_readers", "narrowed", "polygons_of"]
