"""Which representation of a resource a request asks for, by ``f`` or by Accept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from mastaba.errors import InvalidParameterError
from mastaba.http.request import Request, printable

JSON: Final = "application/json"
HTML: Final = "text/html"

# What Java sends with every request that says nothing of its own: no person reads the answer.
_JAVA_DEFAULT: Final = "text/html, image/gif, image/jpeg"
_USUAL_HEADER: Final = 300
_MAX_NAME: Final = 200
ANYTHING: Final = "*/*"


def document_kind(request: Request, offered: Mapping[str, str]) -> str:
    """Return the name of the representation of a document that a request asks for.

    A document is never refused for an Accept header: whoever takes none of its media types
    gets the first one.

    Args:
        offered: media types by the name that ``f`` gives them, the default first.

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
    """Return the value of ``f`` as formats are named: lower case, no blanks around ``;``.

    A plus sign in a query is a blank; no media type has one, but many have a plus sign.
    """
    parts = name[:_MAX_NAME].lower().split(";")
    return ";".join(part.strip().replace(" ", "+") for part in parts)


def preferred(
    header: str, offered: tuple[tuple[str, ...], ...], *, anything_is_first: bool = False
) -> int | None:
    """Return which of some representations an Accept header asks for (RFC 9110, 12.5.1).

    Args:
        offered: the media types that each goes by; the first one wins among equals.
        anything_is_first: whether a client that takes anything gets the first one, whatever
            else it likes. Browsers name some picture formats before they say so; they must not
            make us encode every tile again.

    Returns:
        None when the client takes none of them.
    """
    # A client must not be able to fill memory with headers of its own making.
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
