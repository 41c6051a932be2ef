"""Former names of `mastaba_ows.featureinfo` (mastaba-ows): feature information."""

from mastaba.api._deprecated import moved_names

_PLACES = {
    "mastaba_ows.featureinfo": "INFO_EXTENSIONS INFO_FORMATS",
    "mastaba_ows.featureinfo.answers": "Part=LayerAnswer PixelAnswer "
    "feature_info_response position_of",
    "mastaba_ows.featureinfo.external": "ExternalAnswer ExternalWMS",
    "mastaba_ows.errors": "UpstreamError",
}
__getattr__ = moved_names(__name__, _PLACES)
