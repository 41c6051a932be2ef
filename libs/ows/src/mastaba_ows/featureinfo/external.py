"""GetFeatureInfo forwarded to another WMS (layer.md section 8, ``EXTERNALWMS``)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from mastaba import __version__
from mastaba.errors import NoResponseError
from mastaba_ows.errors import UpstreamError

if TYPE_CHECKING:
    from mastaba.api.catalogue import FeatureInfo
    from mastaba_http.fetch import Fetcher

logger = logging.getLogger("mastaba.ows.featureinfo")

_MAX_MEDIA_TYPE: Final = 256
_TOKEN: Final = frozenset(ascii_letters + digits + "!#$&^_.+-")
"""Characters of a type and a subtype (RFC 6838 clause 4.2)."""


@dataclass(frozen=True, slots=True)
class ExternalAnswer:
    """Response of the upstream server; none of it can be trusted.

    Attributes:
        body: as received.
        media_type: as received, checked for its form only.
    """

    body: bytes
    media_type: str


class ExternalWMS:
    """Client of upstream servers. Shared by all threads."""

    @cached_property
    def _fetcher(self) -> Fetcher:
        # HTTP and TLS take a while to load, and most installations forward nothing.
        from mastaba.api.storages import Environment
        from mastaba_http.fetch import Fetcher

        return Fetcher(Environment(), f"Mastaba/{__version__}")

    def ask(self, info: FeatureInfo, info_format: str, query: Mapping[str, str]) -> ExternalAnswer:
        """Return the response to a WMS 1.3.0 GetFeatureInfo.

        Args:
            info_format: requested media type.
            query: CRS, BBOX (in the axis order of the CRS), WIDTH, HEIGHT, I, J and
                FEATURE_COUNT.

        Raises:
            UpstreamError: there is no response, or it reports a failure.
        """
        try:
            answer = self._fetcher.get(_url(info, info_format, query))
        except ModuleNotFoundError as error:
            logger.error("GetFeatureInfo of another WMS needs mastaba-http: install it (%s)", error)
            raise UpstreamError("the upstream server cannot be asked") from None
        except NoResponseError as error:
            logger.warning("GetFeatureInfo: %s", error)
            raise UpstreamError("the upstream server does not answer") from None
        if not 200 <= answer.status <= 299:
            logger.warning("GetFeatureInfo: %s answers %d", info.url, answer.status)
            raise UpstreamError("the upstream server reports an error")
        media_type = _media_type(answer.headers.get("Content-Type", ""))
        return ExternalAnswer(answer.body, media_type or info_format)


def _media_type(content_type: str) -> str | None:
    """Return the Content-Type if it can be passed on unchanged, else None."""
    is_text = content_type.isascii() and content_type.isprintable()
    if not is_text or len(content_type) > _MAX_MEDIA_TYPE:
        return None
    kind, _, subtype = content_type.partition(";")[0].strip().partition("/")
    is_type = kind and subtype and _TOKEN.issuperset(kind + subtype)
    return content_type if is_type else None


def _url(info: FeatureInfo, info_format: str, query: Mapping[str, str]) -> str:
    """Return the URL of the request; standard parameters override configured ones."""
    assert info.url is not None
    parameters = {
        "VERSION": "1.3.0",
        "SERVICE": "WMS",
        "REQUEST": "GetFeatureInfo",
        "STYLES": "",
        "LAYERS": info.layers,
        "QUERY_LAYERS": info.query_layers,
        "INFO_FORMAT": info_format,
        "FORMAT": "image/tiff",
        **query,
    }
    extra = info.extra_query_params.items()
    parameters |= {name: value for name, value in extra if name.upper() not in parameters}
    url = info.url
    if "?" not in url:
        url += "?"
    elif not url.endswith(("?", "&")):
        url += "&"
    return url + urlencode(parameters)
