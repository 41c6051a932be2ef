"""Selection of a resource's representation by ``f`` or Accept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from mastaba.api.web import Request, printable
from mastaba.errors import InvalidParameterError

LANGUAGES: Final = ("en", "fr")
"""Languages of the page of the definition, the default first."""

# The default header of Java programs: no person reads the answer.
_JAVA_DEFAULT: Final = "text/html, image/gif, image/jpeg"
_USUAL_HEADER: Final = 300
_MAX_NAME: Final = 200
ANYTHING: Final = "*/*"


def document_kind(request: Request, offered: Mapping[str, str]) -> str:
    """Return the name of the requested representation of a document.

    A document is never refused because of an Accept header: a client that accepts none of its
    media types gets the first one.

    Args:
        offered: media types by name in ``f``, the default first.

    Raises:
        InvalidParameterError: ``f`` names none of them.
    """
    wanted = request.query.get("f")
    if wanted is not None:
        wanted = normalized(wanted)
        for name, media_type in offered.items():
            if wanted in (name, media_type):
                return name
        raise InvalidParameterError(f"there is no format {printable(wanted)}", "f")
    names = list(offered)
    header = request.environ.get("HTTP_ACCEPT") or ANYTHING
    if header == ANYTHING or header.startswith(_JAVA_DEFAULT):
        return names[0]
    media_types = tuple((media_type,) for media_type in offered.values())
    position = preferred(header, media_types)
    return names[0] if position is None else names[position]


def normalized(name: str) -> str:
    """Return the value of ``f`` in lower case, without spaces around ``;``.

    A plus sign in a query is decoded as a space. Media types contain no spaces, but many contain
    a plus sign.
    """
    parts = name[:_MAX_NAME].lower().split(";")
    return ";".join(part.strip().replace(" ", "+") for part in parts)


def preferred(
    header: str, offered: tuple[tuple[str, ...], ...], *, anything_is_first: bool = False
) -> int | None:
    """Return the index of the representation that an Accept header requests (RFC 9110, 12.5.1).

    Args:
        offered: media types of each representation; the first one wins among equals.
        anything_is_first: whether a client that accepts anything gets the first one, even if it
            prefers another. Browsers name some picture formats before ``*/*``, which must not
            cause every tile to be encoded again.

    Returns:
        None if the client accepts none of them.
    """
    # Long headers are not cached, so clients cannot fill the memory with them.
    choose = _preferred if len(header) <= _USUAL_HEADER else _preferred.__wrapped__
    return choose(header, offered, anything_is_first)


@lru_cache(maxsize=1024)
def _preferred(
    header: str, offered: tuple[tuple[str, ...], ...], anything_is_first: bool
) -> int | None:
    accepted = parse_accept_header(header, MIMEAccept)
    qualities = [
        max(float(accepted[media_type]) for media_type in media_types) for media_types in offered
    ]
    if (
        anything_is_first
        and qualities[0] > 0
        and any(name == ANYTHING and quality > 0 for name, quality in accepted)
    ):
        return 0
    best = max(qualities)
    return qualities.index(best) if best > 0 else None
