"""Requests that a page of another site makes a browser send (Fetch standard).

Without a secret, nothing else distinguishes them from those of an administrator.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from mastaba.api.web import Request
from mastaba_admin.errors import CrossSiteError
from mastaba_ows.errors import MediaTypeError


def check_same_origin(request: Request, endpoint_uri: str) -> None:
    """Check that no page of another origin sends a request.

    Args:
        endpoint_uri: public URL of the service.

    Raises:
        CrossSiteError: a page of another origin sends it.
    """
    site = request.header("Sec-Fetch-Site")
    origin = request.header("Origin")
    if site not in (None, "same-origin", "none"):
        raise CrossSiteError("the page that sends the request is of another origin")
    if origin is not None:
        own = urlsplit(endpoint_uri)
        host = request.header("Host") or ""
        if origin.lower() not in (
            f"{own.scheme}://{own.netloc}".lower(),
            f"http://{host}".lower(),
            f"https://{host}".lower(),
        ):
            raise CrossSiteError("the page that sends the request is of another origin")


def check_json(request: Request) -> None:
    """Check that a body is JSON: browsers send that type to another origin only after asking.

    Raises:
        MediaTypeError: it has another type.
    """
    kind = request.media_type
    if kind != "application/json" and not kind.endswith("+json"):
        raise MediaTypeError("the body must have the Content-Type application/json")
