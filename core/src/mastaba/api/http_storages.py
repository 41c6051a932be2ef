"""Storage drivers over HTTP: a base class and an HTTP client with time limits."""

from mastaba.storage.http import HTTPStorage, quoted_key
from mastaba.storage.http_client import (
    HTTPAnswer,
    HTTPClient,
    certificate_authorities,
    failure_reason,
    network_timeout,
)

__all__ = [
    "HTTPAnswer",
    "HTTPClient",
    "HTTPStorage",
    "certificate_authorities",
    "failure_reason",
    "network_timeout",
    "quoted_key",
]
