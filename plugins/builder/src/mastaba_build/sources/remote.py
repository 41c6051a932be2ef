"""Versions of files on HTTP servers, which GDAL does not report."""

from __future__ import annotations

from collections.abc import Iterable

_SECONDS = 10.0
"""The longest wait for a server; a build takes a file without a version as unchanged."""
_HEADERS = ("Last-Modified", "ETag")
"""The first one that there is: several servers behind one address may differ in ETags."""


def remote_version(names: Iterable[str]) -> str:
    """Return a text that changes with the files on HTTP servers, empty if nothing is known.

    Args:
        names: of files, as GDAL opens them, whose URLs may be opened. Others are left out.
    """
    urls = {name.removeprefix("/vsicurl/") for name in names}
    known = [
        f"{url} {version}"
        for url in sorted(urls)
        if url.startswith(("http://", "https://")) and (version := _version(url))
    ]
    return "\n".join(known)


def _version(url: str) -> str:
    """Return what a server says about the version of a file; empty if it says nothing."""
    # Imported here: few builds have such sources.
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url, method="HEAD"), timeout=_SECONDS) as answer:  # noqa: S310 - HTTP
            headers = answer.headers
    except (OSError, ValueError, HTTPException):
        return ""
    found = next((headers[name] for name in _HEADERS if headers[name]), "")
    return f"{headers['Content-Length'] or ''} {found}".strip()
