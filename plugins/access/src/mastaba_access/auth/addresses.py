"""Addresses that a front server asks about."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from mastaba.api.access import Form, Shown
from mastaba.errors import AccessError
from mastaba_server.web.credentials import is_ambiguous, without_parameters, without_segment

_LONGEST: Final = 65_535
# What RFC 3986 allows in a path, and nothing that would be read otherwise.
_UNQUOTED: Final = "/~:@!$&'()*+,;=-._"
_PLAIN: Final = re.compile(r"[/~:@!$&'()*+,;=\-.\w]*", re.ASCII)


class CheckedAddress(NamedTuple):
    """An address, taken apart.

    Attributes:
        shown: credentials in it, the one that decides first.
        uri: path and query without them.
    """

    shown: tuple[Shown, ...]
    uri: str


def taken_apart(
    target: str, prefix: str, roots: Container[str], names: Container[str]
) -> CheckedAddress:
    """Take the credentials out of an address, as the server does when it gets the request.

    Args:
        target: path and query as the client has sent them.
        prefix: part of the path that the front server removes.
        roots: paths behind which a segment with ``~`` is a credential.
        names: parameters that contain credentials, in lower case.

    Raises:
        AccessError: 403; the address is damaged, can be read in two ways, or contains two
            different credentials.
    """
    path, _, query = target.partition("?")
    if not target.isascii() or not target.isprintable() or len(target) > _LONGEST:
        raise _refused()
    if prefix:
        if not path.startswith(prefix) or path[len(prefix) : len(prefix) + 1] not in ("", "/"):
            raise _refused()
        path = path[len(prefix) :]
    decoded = path
    if "%" in path:
        try:
            decoded = unquote_to_bytes(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _refused() from error
    if not decoded.startswith("/") or "#" in target or is_ambiguous(decoded, path):
        raise _refused()
    segment, decoded = without_segment(decoded, roots)
    values, query = without_parameters(query, names) if query else ([], "")
    if len(values) > 1:
        raise _refused()
    shown = [Shown(Form.PATH, segment)] if segment else []
    shown += [Shown(Form.QUERY, value) for value in values]
    # One spelling of each path: front servers keep one response for all of them.
    uri = prefix + quoted(decoded) + (f"?{query}" if query else "")
    return CheckedAddress(tuple(shown), uri)


def quoted(text: str) -> str:
    """Return a text as it stands in a path and in a header. Most texts stay as they are."""
    return text if _PLAIN.fullmatch(text) else quote(text, safe=_UNQUOTED)


def _refused() -> AccessError:
    return AccessError("the address cannot be checked", 403)
