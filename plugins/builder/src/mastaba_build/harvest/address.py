"""The address of a service as a source: ``wms:URL#layers=...`` or ``wmts:URL#layer=...``."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from mastaba.api.catalogue import BoundingBox
from mastaba_build.errors import PlanError

SERVICE = re.compile(r"(wms|wmts):")
"""Beginning of a source that is a service. In capital letters, it is that of a driver of GDAL."""
_OPTIONS = {
    "wms": ("layers", "styles", "crs", "format", "bbox"),
    "wmts": ("layer", "set", "style", "format", "bbox"),
}
_OWN = frozenset(
    [
        *("service", "request", "layers", "layer", "styles", "style", "crs", "srs", "format"),
        *("bbox", "width", "height", "transparent", "bgcolor", "exceptions", "tilematrixset"),
        *("tilematrix", "tilerow", "tilecol"),
    ]
)
"""Parameters in the query of a URL that requests have anyway."""
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is, and what is harvested.

    Attributes:
        kind: ``wms`` or ``wmts``.
        url: without user, password and parameters that requests have anyway.
        options: what follows ``#``.
        version: of the protocol, if the URL contains it.
        authorization: value of the header; empty without a user.
        secrets: texts that no message may contain.
    """

    kind: str
    url: str
    options: Mapping[str, str]
    version: str = ""
    authorization: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def host(self) -> str:
        """Host and port, for messages."""
        return urlsplit(self.url).netloc

    @property
    def place(self) -> str:
        """The URL without its query, which may contain a key."""
        return urlunsplit(urlsplit(self.url)._replace(query=""))

    @property
    def map_file(self) -> str:
        """The parameter of MapServer that chooses a map; empty without one."""
        query = parse_qsl(urlsplit(self.url).query)
        return next((value for key, value in query if key.lower() == "map"), "")

    @property
    def box(self) -> BoundingBox | None:
        """The area to harvest, x before y; None for that of the layer.

        Raises:
            PlanError: it is invalid.
        """
        text = self.options.get("bbox")
        if text is None:
            return None
        try:
            left, lower, right, upper = map(float, text.split(","))
        except ValueError:
            left = lower = right = upper = 0.0
        if not (left < right and lower < upper):  # also if one is not a number
            raise PlanError(f"bbox={text}: is not of the form XMIN,YMIN,XMAX,YMAX")
        return BoundingBox(left, lower, right, upper)

    def with_query(self, values: Mapping[str, str | int | float]) -> str:
        """Return the URL with further parameters."""
        parts = urlsplit(self.url)
        added = urlencode(values, quote_via=quote, safe=",:/")
        return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, added)))))

    def without_secrets(self, text: str) -> str:
        """Return a text in which credentials are replaced."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def address_of(path: str) -> Address:
    """Return the address in a source.

    Raises:
        PlanError: it is invalid.
    """
    kind, _, located = path.partition(":")
    url, _, fragment = located.partition("#")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # its text may contain a part of the password
        raise PlanError(f"{kind}: its URL is invalid") from None
    if parts.scheme not in ("http", "https") or not host:
        raise PlanError(f"{kind}: the URL of a service starts with http:// or https://")
    pairs = parse_qsl(fragment, keep_blank_values=True)
    unknown = [key for key, _ in pairs if key not in _OPTIONS[kind]]
    if unknown:
        known = ", ".join(_OPTIONS[kind])
        raise PlanError(f"{kind}: unknown {unknown[0]!r} after #; use {known}")
    query = parse_qsl(parts.query, keep_blank_values=True)
    query = [pair for pair in query if pair[0].lower() not in _OWN]
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    authorization = ""
    if user or password:
        authorization = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
    version = next((value for key, value in query if key.lower() == "version"), "")
    query = [pair for pair in query if pair[0].lower() != "version"]
    values = [value for key, value in query if key.lower() != "map"]
    secrets = {password, authorization.removeprefix("Basic "), *values, *map(quote, values)}
    name = f"[{host}]" if ":" in host else host
    rest = urlencode(query, quote_via=quote, safe="/,:")
    place = name if port is None else f"{name}:{port}"
    return Address(
        kind,
        urlunsplit((parts.scheme, place, parts.path or "/", rest, "")),
        dict(pairs),
        version,
        authorization,
        tuple(sorted((one for one in secrets if len(one) >= _SHORTEST_SECRET), key=len)[::-1]),
    )


def name_of(path: str) -> str:
    """Return a name for the pyramid of a service: that of its layers, without the address."""
    options = dict(parse_qsl(path.partition("#")[2]))
    return options.get("layers") or options.get("layer") or "layer"
