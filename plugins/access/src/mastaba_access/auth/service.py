"""The service ``auth``: checks for front servers, sessions, signed addresses."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from mastaba.api.access import GRANT, PEER, Gate, Grant, Shown
from mastaba.api.services import Service, ServiceSettings, Site
from mastaba.api.web import STATUSES, Request, Response, problem, status_of
from mastaba.errors import (
    AccessError,
    OverloadedError,
    RequestError,
    UnknownPathError,
    public_message,
)
from mastaba_access.auth.addresses import quoted, taken_apart
from mastaba_access.auth.returning import safe_return
from mastaba_access.auth.signing import require_signable, signed
from mastaba_access.classes import ClassGrant
from mastaba_access.identifiers.faults import refuse
from mastaba_access.identifiers.fronts import Fronts
from mastaba_access.identifiers.issuers import issuer_of
from mastaba_access.identifiers.signed import COOKIE, secrets_of
from mastaba_access.identifiers.tokens import InvalidScopeError, Token, sign
from mastaba_access.keystore.record import instant
from mastaba_server.access.refusals import let_wait, refusal_headers
from mastaba_server.log import audit
from mastaba_server.threads.recent import Recent

_REFERER: Final = "HTTP_X_ORIGINAL_REFERER"
_FASTCGI: Final = "ORIGINAL_URI"
_MOST_KEPT: Final = 16_384
_MOST_CHARACTERS: Final = 2 * 1024**2
"""Of the credentials of kept grants: tokens may have thousands."""
_SECRETS: Final = ("HTTP_X_MASTABA_SECRET", "HTTP_X_ROK4_SECRET")
_NO_STORE: Final = ("Cache-Control", "no-store")


class MethodNotAllowedError(RequestError):
    """The path does not support the method."""


_STATUSES: Final = {**STATUSES, MethodNotAllowedError: 405}


class AuthService(Service):
    """Tells caches who may have a response, starts sessions and signs addresses.

    Raises:
        ConfigurationError: access is not limited, or a file cannot be used.
    """

    name = "auth"
    title = "Access"
    always_on: ClassVar[bool] = True
    sees_refusals: ClassVar[bool] = True
    is_viewed: ClassVar[bool] = False
    allows_cors: ClassVar[bool] = False
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    parameters: ClassVar[frozenset[str]] = frozenset(("return",))
    operations: ClassVar[tuple[str, ...]] = ("check", "session", "sign")
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "header": {
            "enum": ["X-Original-URI", "X-Forwarded-Uri", "path"],
            "default": "X-Original-URI",
            "description": "Where the front server puts the address that it asks about: a header, "
            "or the path behind `check`. Nothing else is read: clients can send the others.",
        },
        "prefix": {
            "type": "string",
            "pattern": r"^(/[A-Za-z0-9._-]+)*$",
            "default": "",
            "description": "Part of these addresses that the front server removes, such as /maps.",
        },
        "ttl": {
            "type": "integer",
            "minimum": 0,
            "maximum": 3600,
            "default": 5,
            "description": "Seconds for which front servers may keep the answer to a check.",
        },
        "longest": {
            "type": "integer",
            "minimum": 1,
            "maximum": 31622400,
            "default": 2678400,
            "description": "Seconds for which clients may have addresses signed.",
        },
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        access = site.plugin_settings.get("access")
        if access is None:
            refuse("", "is missing, and the service auth is on", "add it, or turn auth off")
        own = settings.own
        self._fronts = Fronts(access)
        self._secrets = secrets_of(access)
        self._bucket: int = access.get("bucket", 900)
        self._sessions: Mapping[str, Any] = access.get("sessions", {})
        self._prefix: str = own.get("prefix", "")
        self._longest: int = own.get("longest", 2_678_400)
        header: str = own.get("header", "X-Original-URI")
        self._header = "" if header == "path" else f"HTTP_{header.upper().replace('-', '_')}"
        # nginx takes any status but these for a failure of the check.
        self._knows_statuses = header != "X-Original-URI"
        self._ttl: float = own.get("ttl", 5)
        self._grants: Recent[Grant] = Recent(_MOST_KEPT, _MOST_CHARACTERS)

    def takes_credential_at(self, path: str) -> bool:
        return path in ("/session", "/sign")

    def respond(self, request: Request) -> Response:
        """Answer a check, or one of the requests of clients.

        Raises:
            UnknownPathError: nothing is here, or not for this client.
            MethodNotAllowedError: the method is another one.
            AccessError: the credential is missing or not accepted.
            RequestError: the request is invalid.
        """
        path = request.path
        is_check = path == "/check" or path.startswith("/check/")
        target = self._checked(request) if is_check else None
        if target is not None:
            request.name_operation("check")
            try:
                return self._check(target, request)
            except (AccessError, OverloadedError) as error:
                return self._refusal(error, request)
        refused = request.environ.get(GRANT)
        by_admin = path == "/sign" and self._shows_secret(request)
        if isinstance(refused, Exception) and not by_admin:
            # Whatever is answered: nothing here is for those who guess.
            let_wait(refused, request.environ)
        if path == "/session" and request.method == "GET":
            request.name_operation("session")
            return self._session(request)
        if path == "/sign" and request.method == "POST":
            request.name_operation("sign")
            return self._sign(request, by_admin=by_admin)
        if path in ("/session", "/sign"):
            raise MethodNotAllowedError("the method is not allowed here")
        raise UnknownPathError

    def error_response(self, error: Exception, request: Request) -> Response:
        response = problem(status_of(error, _STATUSES), public_message(error))
        response.headers.append(_NO_STORE)
        return response

    # ------------------------------------------------------------ checks

    def _checked(self, request: Request) -> str | None:
        """Return the address that a trusted front server asks about; None for anybody else."""
        environ = request.environ
        if self._fronts.by_fastcgi and (target := environ.get(_FASTCGI)):
            # A parameter without HTTP_ is never a header of the client.
            return str(target)
        peer = environ.get(PEER, environ.get("REMOTE_ADDR", ""))
        if not self._fronts.is_trusted({"REMOTE_ADDR": peer}):
            return None
        if self._header:
            found: str | None = environ.get(self._header) if request.path == "/check" else None
            return found
        below = quoted(request.path.removeprefix("/check"))
        query = f"?{request.query_string}" if request.query_string else ""
        return (below or "/") + query

    def _check(self, target: str, request: Request) -> Response:
        gate = self.site.gate
        if gate is None:
            raise UnknownPathError
        checked = taken_apart(target, self._prefix, self.site.roots, gate.query_names)
        environ = request.environ
        # What is sent besides must not make further entries, and what has no effect here decides
        # as little when the request arrives: its headers may then.
        shown = gate.deciding(checked.shown)
        if shown:
            referer = environ.get(_REFERER)
            sent = {**environ, "HTTP_REFERER": referer} if referer else environ
            grant = self._grant(gate, shown, sent)
            if grant.narrow is not None:
                grant = grant.narrow(sent)
        else:
            # Headers and cookies of the client: the gate has seen them on the way here.
            grant = _grant_of(request)
        lifetime = max(0, int(min(self._ttl, grant.ends - time.time())))
        headers = [
            ("X-Mastaba-Grant", quoted(grant.principal.id)),
            ("X-Mastaba-Uri", checked.uri),
            ("X-Mastaba-Class", _class_of(grant)),
            ("Cache-Control", f"private, max-age={lifetime}"),
        ]
        return Response(200, headers)

    def _grant(self, gate: Gate, shown: tuple[Shown, ...], environ: Mapping[str, Any]) -> Grant:
        found = self._grants.get(shown)
        if found is not None and found.epoch == gate.epoch and time.time() < found.ends:
            return found
        grant = gate.grant(shown, environ, environ.get("REMOTE_ADDR", ""))
        return self._grants.add(shown, grant, sum(len(one.text) for one in shown))

    def _refusal(self, error: AccessError | OverloadedError, request: Request) -> Response:
        """Return a refusal in a form that the front server passes on."""
        let_wait(error, request.environ)
        response = self.error_response(error, request)
        response.headers += refusal_headers(error, response.status, self.site.gate, request.environ)
        if not self._knows_statuses and response.status not in (401, 403):
            response.headers.append(("X-Mastaba-Status", str(response.status)))
            response.status = 403
        return response

    # ------------------------------------------------------------ clients

    def _session(self, request: Request) -> Response:
        secrets, endpoint = self._secrets, self.settings.endpoint_uri
        if secrets is None or not self._sessions.get("enabled", False):
            raise UnknownPathError
        if not endpoint.startswith("https://"):
            raise RequestError("sessions need https in the endpoint_uri of the service")
        grant = _grant_of(request)
        principal = grant.principal
        if principal.kind != "user" or not principal.is_strong:
            status = 401 if principal.is_anonymous else 403
            raise AccessError("a session needs a user whom a front server or a token names", status)
        require_signable(grant)
        now = time.time()
        ends = int(min(now + self._sessions.get("hours", 12) * 3600, principal.ends))
        token = Token(secrets.first, ends, {}, issuer_of(principal, "front", session=True))
        try:
            text = sign(token, secrets)
        except InvalidScopeError as error:
            text = f"the user and its groups cannot be written into a cookie: {error}"
            raise RequestError(text) from error
        audit.record("session started", user=principal.id, until=instant(ends))
        cookie = f"{COOKIE}={text}; Path=/; Max-Age={int(ends - now)}"
        headers = [_NO_STORE, ("Set-Cookie", f"{cookie}; Secure; HttpOnly; SameSite=Lax")]
        endpoints = [one.settings.endpoint_uri for one in self.site.services.values()]
        place = safe_return(request.query.get("return", ""), endpoint, endpoints)
        if place is not None:
            return Response(303, [*headers, ("Location", place)])
        return _json({"user": principal.id, "until": instant(ends)}, headers)

    def _sign(self, request: Request, *, by_admin: bool) -> Response:
        secrets = self._secrets
        if secrets is None:
            raise UnknownPathError
        principal = None
        if not by_admin:
            grant = _grant_of(request)
            require_signable(grant)
            principal = grant.principal
            if principal.is_anonymous:
                raise AccessError("a credential is required")
        longest, bucket = self._longest, self._bucket
        body, installed, now = request.body(), self.site.plugins.services, time.time()
        text, ends = signed(
            body, principal, secrets, now, longest=longest, bucket=bucket, installed=installed
        )
        who = "admin" if principal is None else principal.id
        audit.record("address signed", by=who, until=instant(ends))
        addresses = {
            name: f"{service.settings.endpoint_uri}/~{text}"
            for name, service in self.site.services.items()
            if service.is_viewed and not service.is_fallback
        }
        found = {"token": text, "until": instant(ends), "addresses": addresses}
        return _json(found, [_NO_STORE])

    def _shows_secret(self, request: Request) -> bool:
        """Return whether the request has the secret of the administration service."""
        admin = self.site.catalogue.services.get("admin")
        secret: str = "" if admin is None else admin.own.get("secret", "")
        shown = [str(request.environ.get(name) or "").encode("latin-1") for name in _SECRETS]
        matches = [hmac.compare_digest(secret.encode(), text) for text in shown]
        return bool(secret) and any(matches)


def _class_of(grant: Grant) -> str:
    """Return the tag by which caches tell classes apart.

    The empty tag of the public means something else after a reload or start with other rules;
    caches that outlive it must not find what the public could see before.
    """
    found = grant.found if isinstance(grant, ClassGrant) else None
    return grant.tag or ("open" if found is None else found.tag)


def _grant_of(request: Request) -> Grant:
    """Return the grant of a request. Raises the error with which its credential was refused."""
    grant = request.environ.get(GRANT)
    if isinstance(grant, Exception):
        raise grant
    if not isinstance(grant, Grant):
        raise UnknownPathError
    return grant


def _json(document: Mapping[str, Any], headers: list[tuple[str, str]]) -> Response:
    body = json.dumps(document, ensure_ascii=False).encode()
    return Response(200, [*headers, ("Content-Type", "application/json")], body)
