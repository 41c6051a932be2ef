"""Cross-origin resource sharing: origins that may read responses (Fetch standard, CORS)."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from mastaba_server.web.response import Headers

# With credentials, an asterisk is an ordinary name (Fetch standard, 3.2.3).
_EXPOSED: Final = "Accept-Ranges, Content-Disposition, Content-Range, ETag, Link, Retry-After"
_NAMES: Final = re.compile(r"[A-Za-z0-9-]{1,64}(?: ?, ?[A-Za-z0-9-]{1,64}){0,31}")


class CrossOrigin:
    """The origins whose pages may read responses; false if there are none.

    Args:
        setting: false for none, true or ``*`` for every origin, one origin, or several.
        exposed: names of the headers that scripts may read.
    """

    def __init__(self, setting: bool | str | Iterable[str], exposed: str = "*") -> None:
        if isinstance(setting, bool):
            setting = "*" if setting else ""
        origins = (setting,) if isinstance(setting, str) else setting
        self._origins = frozenset(filter(None, origins))
        self._for_all = "*" in self._origins
        self._exposed = ("Access-Control-Expose-Headers", exposed)
        self._trusted: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self._origins or self._trusted)

    def with_credentials(self, origins: Iterable[str]) -> Self:
        """Return what also lets the pages of some origins send cookies."""
        found = copy.copy(self)
        found._trusted = frozenset(origins)
        return found

    def headers(self, environ: Mapping[str, Any]) -> Headers:
        """Return the headers to add to the response, whatever its status."""
        if self._trusted:
            origin = environ.get("HTTP_ORIGIN")
            if origin in self._trusted:
                exposed = self._exposed[1] if self._exposed[1] != "*" else _EXPOSED
                return [
                    ("Access-Control-Allow-Origin", origin),
                    ("Access-Control-Allow-Credentials", "true"),
                    ("Access-Control-Expose-Headers", exposed),
                    ("Vary", "Origin"),
                ]
            found = self._headers(origin)
            return found if ("Vary", "Origin") in found else [*found, ("Vary", "Origin")]
        return self._headers(environ.get("HTTP_ORIGIN"))

    def _headers(self, origin: str | None) -> Headers:
        if self._for_all:
            return [("Access-Control-Allow-Origin", "*"), self._exposed]
        if not self._origins:
            return []
        # Caches must not reuse the response to one origin for another.
        varies = ("Vary", "Origin")
        if origin is None or origin not in self._origins:
            return [varies]
        return [("Access-Control-Allow-Origin", origin), self._exposed, varies]

    def preflight(self, environ: Mapping[str, Any], allowed: str) -> Headers:
        """Return the additional headers of the response to OPTIONS.

        Args:
            allowed: methods, separated by commas.
        """
        if not self or not environ.get("HTTP_ACCESS_CONTROL_REQUEST_METHOD"):
            return []
        found = [("Access-Control-Allow-Methods", allowed), ("Access-Control-Max-Age", "86400")]
        wanted = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS")
        if wanted and environ.get("HTTP_ORIGIN") in self._trusted:
            if _NAMES.fullmatch(wanted):
                found.append(("Access-Control-Allow-Headers", wanted))
        elif wanted:
            # The asterisk does not cover this header (Fetch standard, 4.8).
            is_shown = "authorization" in wanted.lower()
            found.append(("Access-Control-Allow-Headers", "*, Authorization" if is_shown else "*"))
        return found
