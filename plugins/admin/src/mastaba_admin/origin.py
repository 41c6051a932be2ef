"""Requests that a page of another site makes a browser send (Fetch standard).

Without a secret, nothing else distinguishes them from those of an administrator.
"""

from __future__ import annotations

from ipaddress import ip_address
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
    origin = (request.header("Origin") or "").lower()
    host = (request.header("Host") or "").lower()
    own = urlsplit(endpoint_uri.lower())
    own_origins = [f"{own.scheme}://{own.netloc}"]
    # The owner of any other name may have given it the address of this server.
    is_own_host = host == own.netloc or _is_this_machine(host)
    if is_own_host:
        own_origins += [f"http://{host}", f"https://{host}"]
    if (
        site not in (None, "same-origin", "none")
        or (origin and origin not in own_origins)
        or (site == "same-origin" and not origin and not is_own_host)
    ):
        raise CrossSiteError("the page that sends the request is of another origin")


def _is_this_machine(host: str) -> bool:
    """Return whether a host, with or without a port, is an address or ``localhost``."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False


def check_json(request: Request) -> None:
    """Check that a body is JSON: browsers send that type to another origin only after asking.

    Raises:
        MediaTypeError: it has another type.
    """
    kind = request.media_type
    if kind != "application/json" and not kind.endswith("+json"):
        raise MediaTypeError("the body must have the Content-Type application/json")
