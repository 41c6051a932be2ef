"""Cross-origin resource sharing: origins that may read responses (Fetch standard, CORS)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mastaba_server.web.response import Headers


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

    def __bool__(self) -> bool:
        return bool(self._origins)

    def headers(self, environ: Mapping[str, Any]) -> Headers:
        """Return the headers to add to the response, whatever its status."""
        if self._for_all:
            return [("Access-Control-Allow-Origin", "*"), self._exposed]
        if not self._origins:
            return []
        # Caches must not reuse the response to one origin for another.
        varies = ("Vary", "Origin")
        origin = environ.get("HTTP_ORIGIN")
        if origin not in self._origins:
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
        if wanted:
            # The asterisk does not cover this header (Fetch standard, 4.8).
            is_shown = "authorization" in wanted.lower()
            found.append(("Access-Control-Allow-Headers", "*, Authorization" if is_shown else "*"))
        return found
