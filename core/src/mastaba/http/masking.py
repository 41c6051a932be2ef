"""Query strings fit to be written to a log: without the values of secrets."""

from __future__ import annotations

from typing import Final

from mastaba.http.request import decode

_SECRET_NAMES: Final = ("secret", "token", "password")
_MASK: Final = "***"


def masked(query: str) -> str:
    """Return a query string; what a parameter named after a secret holds is not shown.

    A name that contains one of the words, such as ``access_token``, counts as well.
    """
    # Nearly all queries have nothing to hide, nor to decode before that can be told.
    lowered = query.lower()
    if "%" not in query and not any(name in lowered for name in _SECRET_NAMES):
        return query
    return "&".join(_masked_item(item) for item in query.split("&"))


def _masked_item(item: str) -> str:
    name, equals, _ = item.partition("=")
    lowered = decode(name).lower()
    if equals and any(secret in lowered for secret in _SECRET_NAMES):
        return f"{name}={_MASK}"
    return item
