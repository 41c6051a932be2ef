"""Former names of `mastaba_http` (mastaba-http): storage drivers over HTTP and an HTTP client."""

from mastaba.api._deprecated import moved_names

_PLACES = {
    "mastaba.api.storages": "network_timeout",
    "mastaba_http": "HTTPAnswer HTTPClient HTTPStorage certificate_authorities failure_reason "
    "quoted_key",
}
__getattr__ = moved_names(__name__, _PLACES)
