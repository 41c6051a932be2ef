"""The door: takes credentials out of requests, and asks the gate who the client is."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from time import time
from typing import Any, Final
from urllib.parse import quote

from mastaba_server.access.gate import Gate
from mastaba_server.access.principal import GRANT, PEER, Form, Grant, Shown
from mastaba_server.errors import AccessError
from mastaba_server.web.credentials import (
    Addresses,
    Written,
    is_ambiguous,
    without_credential,
    without_parameters,
    without_segment,
)
from mastaba_server.web.response import ADDRESSES, Response

VISIT: Final = "mastaba.visit"
"""Key of the WSGI environment for the `Visit` of a request."""

IN_PATH: Final = "mastaba.credential_in_path"
"""Key of the WSGI environment if a segment for a credential was taken out of the path."""

_IN_ADDRESSES: Final = frozenset((Form.PATH, Form.QUERY))
# The address as the client has sent it, in the words of other servers.
_COPIES: Final = (
    *("REQUEST_URI", "RAW_URI", "UNENCODED_URL", "DOCUMENT_URI", "PATH_TRANSLATED"),
    *("REDIRECT_URL", "REDIRECT_QUERY_STRING", "HTTP_REFERER"),
    *("HTTP_AUTHORIZATION", "HTTP_COOKIE"),
)
_SIGNED: Final = "links=signed"
_MOST_GRANTS: Final = 8192
_MOST_CHARACTERS: Final = 2 * 1024**2
"""Of the credentials of kept grants: keys are short, but tokens may have thousands."""
_MOST_NARROWED: Final = 256


class Visit:
    """What a credential means for the answers.

    Attributes:
        grant: of the credential.
        addresses: as its documents contain them.
        is_shared: whether caches distinguish its answers from others by the address alone.
        is_anonymous: whether no credential was accepted.
        is_private: whether shared caches must not store answers that are no documents.
        narrowed: by grants that rules for single requests have given.
    """

    __slots__ = ("addresses", "grant", "is_anonymous", "is_private", "is_shared", "narrowed")

    def __init__(self, grant: Grant, addresses: Addresses, *, is_shared: bool) -> None:
        self.grant = grant
        self.addresses = addresses
        self.is_shared = is_shared
        self.is_anonymous = grant.principal.is_anonymous
        self.is_private = not self.is_anonymous and (grant.is_restricted or not is_shared)
        self.narrowed: dict[Grant, Visit] = {}


class Door:
    """The way in, while a gate is active.

    Args:
        gate: decides.
        mark: in the addresses of documents.
        roots: paths directly behind which a segment is a credential.
    """

    def __init__(self, gate: Gate, mark: str, roots: Collection[str]) -> None:
        self._gate = gate
        self._mark = mark
        self._roots = frozenset((*roots, ""))
        self._written = Written()
        self._key = gate.secret or secrets.token_bytes(32)
        # Grants by what was shown: those that were used since the dictionary was full, and others.
        self._kept: dict[tuple[Shown, ...], Visit] = {}
        self._older: dict[tuple[Shown, ...], Visit] = {}
        self._characters = 0
        # The same ones, by the text of their only credential.
        self._by_path: dict[str, Visit] = {}
        self._by_query: dict[str, Visit] = {}
        self._names = [f"&{name}=" for name in gate.query_names]
        cookie = ("HTTP_COOKIE",) if gate.cookie else ()
        self._keys = ("HTTP_AUTHORIZATION", *gate.header_keys, *cookie)
        self._removed = (*_COPIES, *gate.header_keys, *gate.removed_keys)
        self._anonymous = self._visit(gate.grant((), {}, ""), ())

    def around(self, application: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a WSGI application, which sees no credentials."""

        def wrapped(environ: dict[str, Any], start_response: Any) -> Any:
            self._enter(environ)
            return application(environ, start_response)

        return wrapped

    def around_tiles(
        self, find: Callable[[str, str, Mapping[str, Any], Visit], Response | None]
    ) -> Callable[[str, str, Mapping[str, Any]], Response | None]:
        """Wrap what answers quickly; requests that are not certainly granted have no answer."""
        roots, names, keys, epochs = self._roots, self._names, self._keys, self._gate.epochs
        by_path, by_query = self._by_path, self._by_query

        def wrapped(path: str, query: str, headers: Mapping[str, Any]) -> Response | None:
            visit: Visit | None
            if "/~" in path:
                at = path.find("/~")
                if path[:at] not in roots:
                    return None
                end = path.find("/", at + 2)
                if end < 0:
                    end = len(path)
                visit = by_path.get(path[at + 2 : end])
                path = path[:at] + path[end:]
                if "/~" in path:
                    return None
            else:
                visit = self._anonymous
                for key in keys:
                    if key in headers:
                        return None
            if query:
                padded = f"&{query}"
                for name in names:
                    if name not in padded:
                        continue
                    before, _, rest = padded.partition(name)
                    text, _, after = rest.partition("&")
                    # Only the first one, and none beside it.
                    visit = by_query.get(text) if visit is self._anonymous else None
                    padded = f"{before}&{after}" if after else before
                    if visit is None or name in padded:
                        return None
                    query = padded[1:]
            if visit is None or (
                "REQUEST_URI" in headers and "%" in headers["REQUEST_URI"].partition("?")[0]
            ):
                return None
            grant = visit.grant
            if grant.epoch != epochs[0] or grant.ends < time():
                return None
            if grant.narrow is not None:
                try:
                    visit = self._narrowed(visit, headers)
                except Exception:  # noqa: BLE001 - raised again on the general path
                    return None
            return find(path, query, headers, visit)

        return wrapped

    def _enter(self, environ: dict[str, Any]) -> None:
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        text, below = without_segment(path, self._roots)
        query = environ.get("QUERY_STRING", "")
        values, kept = without_parameters(query, self._gate.query_names) if query else ([], "")
        address = self._gate.client_address(environ)
        visit = self._anonymous
        try:
            if kept:
                for credential in (text, *values):
                    kept = without_credential(kept, credential) if credential else kept
            if is_ambiguous(path, environ.get("REQUEST_URI", "")) or len(values) > 1:
                raise AccessError("the address can be read in more than one way", 400)
            if environ["REQUEST_METHOD"] != "OPTIONS":
                # What is shown besides, or has no effect, must not make further entries.
                shown = self._gate.deciding(self._shown(text, values, environ))
                visit = self._visit_of(shown, environ, address)
                if _SIGNED in kept.lower():
                    visit, kept = self._with_signed_links(visit, kept)
            environ[GRANT] = visit.grant
        except AccessError as error:
            # Its frames know the environment: a cycle, which only the garbage collector would end.
            environ[GRANT] = error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - reported by the addressed service
            environ[GRANT] = error
        environ[VISIT] = visit
        environ[ADDRESSES] = visit.addresses
        if below is not path:
            environ["SCRIPT_NAME"], environ["PATH_INFO"], environ[IN_PATH] = "", below, True
        environ["QUERY_STRING"] = kept
        for key in self._removed:
            # Few of them are there, and a call takes longer.
            if key in environ:
                del environ[key]  # noqa: RUF051
        environ[PEER] = environ.get("REMOTE_ADDR") or ""
        environ["REMOTE_ADDR"] = address

    def _with_signed_links(self, visit: Visit, query: str) -> tuple[Visit, str]:
        """Return the visit of a client that asks for addresses of its own, and the query without.

        Raises the errors of `Gate.signed`.
        """
        items = query.split("&")
        kept = [item for item in items if item.lower() != _SIGNED]
        if len(kept) == len(items):
            return visit, query
        # An address with a credential gives such addresses anyway.
        if not (visit.is_shared or visit.is_anonymous):
            text = self._gate.signed(visit.grant)
            addresses = Addresses(self._mark, text, self._key, self._written)
            visit = Visit(visit.grant, addresses, is_shared=False)
        return visit, "&".join(kept)

    def _shown(self, text: str, values: list[str], environ: Mapping[str, Any]) -> list[Shown]:
        """Return the credentials of a request, in the order in which they decide."""
        found = [Shown(Form.PATH, text)] if text else []
        for value in values:
            found.append(Shown(Form.QUERY, value))
        if authorization := environ.get("HTTP_AUTHORIZATION"):
            scheme, _, rest = authorization.partition(" ")
            if scheme.lower() in (Form.BEARER, Form.BASIC) and (rest := rest.strip()):
                found.append(Shown(Form(scheme.lower()), rest))
        for key in self._gate.header_keys:
            if sent := environ.get(key):
                found.append(Shown(Form.HEADER, sent))
        cookie = self._gate.cookie
        if cookie and "HTTP_COOKIE" in environ and environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            for item in environ["HTTP_COOKIE"].split(";"):
                name, _, value = item.strip().partition("=")
                if name == cookie and value:
                    found.append(Shown(Form.COOKIE, value))
        return found

    def _visit_of(
        self, shown: tuple[Shown, ...], headers: Mapping[str, Any], address: str
    ) -> Visit:
        """Return the visit for credentials. Raises the errors of `Gate.grant`."""
        visit: Visit | None = self._anonymous
        if shown:
            visit = self._kept.get(shown) or self._older.get(shown)
        if visit is None or visit.grant.epoch != self._gate.epoch or visit.grant.ends < time():
            visit = self._visit(self._gate.grant(shown, headers, address), shown)
            if not shown:
                self._anonymous = visit
        if shown and not visit.is_anonymous and self._kept.get(shown) is not visit:
            size = sum(len(one.text) for one in shown)
            if len(self._kept) >= _MOST_GRANTS or self._characters + size > _MOST_CHARACTERS:
                self._older = self._kept.copy()
                for kept in (self._kept, self._by_path, self._by_query):
                    kept.clear()
                self._characters = 0
            self._characters += size
            self._kept[shown] = visit
            if len(shown) == 1 and shown[0].form is Form.PATH:
                self._by_path[shown[0].text] = visit
            # Other spellings take the general path.
            plain = quote(shown[0].text, safe="~") == shown[0].text
            if len(shown) == 1 and shown[0].form is Form.QUERY and plain:
                self._by_query[shown[0].text] = visit
        return visit if visit.grant.narrow is None else self._narrowed(visit, headers)

    def _visit(self, grant: Grant, shown: tuple[Shown, ...]) -> Visit:
        in_addresses = [one.text for one in shown if one.form in _IN_ADDRESSES]
        credential = in_addresses[0] if grant.in_addresses and in_addresses else ""
        addresses = Addresses(self._mark, credential, self._key, self._written)
        is_shared = not shown or shown[0].form in _IN_ADDRESSES
        return Visit(grant, addresses, is_shared=is_shared)

    def _narrowed(self, visit: Visit, headers: Mapping[str, Any]) -> Visit:
        assert visit.grant.narrow is not None
        grant = visit.grant.narrow(headers)
        if grant is visit.grant:
            return visit
        found = visit.narrowed.get(grant)
        if found is None:
            # An anonymous client that becomes another one is identified by headers.
            is_shared = visit.is_shared and grant.principal.is_anonymous >= visit.is_anonymous
            found = Visit(grant, visit.addresses, is_shared=is_shared)
            if len(visit.narrowed) >= _MOST_NARROWED:
                visit.narrowed.clear()
            visit.narrowed[grant] = found
        return found
