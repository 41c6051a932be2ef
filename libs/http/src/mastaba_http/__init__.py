"""Storage drivers over HTTP: a base class and an HTTP client with time limits."""

from mastaba_http.client import HTTPAnswer, HTTPClient, certificate_authorities, failure_reason
from mastaba_http.fetch import Fetcher
from mastaba_http.pages import Listed, Pages
from mastaba_http.storage import HTTPStorage, quoted_key

__all__ = [
    "Fetcher",
    "HTTPAnswer",
    "HTTPClient",
    "HTTPStorage",
    "Listed",
    "Pages",
    "certificate_authorities",
    "failure_reason",
    "quoted_key",
]
