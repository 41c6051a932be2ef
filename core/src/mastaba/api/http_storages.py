"""Former names of `mastaba_http` (mastaba-http): storage drivers over HTTP and an HTTP client."""

from mastaba.api._deprecated import former_names

_MOVED = (
    "HTTPAnswer",
    "HTTPClient",
    "HTTPStorage",
    "certificate_authorities",
    "failure_reason",
    "quoted_key",
)
__getattr__ = former_names(
    __name__,
    {
        "network_timeout": ("mastaba.api.storages.network_timeout", "2.0"),
        **{name: (f"mastaba_http.{name}", "2.0") for name in _MOVED},
    },
)
