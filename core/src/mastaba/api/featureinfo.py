"""Feature information: values of the stored pixels, or answers of another WMS."""

from mastaba.services.featureinfo import INFO_EXTENSIONS, INFO_FORMATS
from mastaba.services.featureinfo.answers import (
    Part,
    PixelAnswer,
    feature_info_response,
    position_of,
)
from mastaba.services.featureinfo.external import ExternalAnswer, ExternalWMS, UpstreamError

__all__ = [
    "INFO_EXTENSIONS",
    "INFO_FORMATS",
    "ExternalAnswer",
    "ExternalWMS",
    "Part",
    "PixelAnswer",
    "UpstreamError",
    "feature_info_response",
    "position_of",
]
