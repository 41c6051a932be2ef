"""Native and Keystone authentication (storage.md sections 6.1 and 6.2)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final, Self

from mastaba.environment import Environment
from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError
from mastaba.storage.http import HTTPAnswer, HTTPClient
from mastaba.storage.settings import require_set

_STORAGE = "swift://"
_MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes; the catalogue of services that Keystone sends with a token is of no use to us."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials and the server that issues tokens.

    Attributes:
        auth_url: URL of native authentication, or the token URL of Keystone.
        user: user name.
        password: password of the user.
        account: account for native authentication, or project id for Keystone.
        domain: Keystone domain id; None for native authentication.
    """

    auth_url: str
    user: str
    password: str = field(repr=False)
    account: str
    domain: str | None = None

    @classmethod
    def from_environment(cls, environment: Environment) -> Self:
        """Read the variables SWIFT_* and KEYSTONE_*.

        Raises:
            AccessDeniedError: a required variable is not set; the message names it.
        """
        domain = (environment.text("KEYSTONE_DOMAINID") or "").strip() or None
        account = "SWIFT_ACCOUNT" if domain is None else "KEYSTONE_PROJECTID"
        require_set(environment, ("SWIFT_USER", "SWIFT_PASSWD", account), _STORAGE)
        return cls(
            auth_url=environment.text("SWIFT_AUTHURL") or "http://localhost:8080/auth/v1.0",
            user=(environment.text("SWIFT_USER") or "").strip(),
            password=(environment.text("SWIFT_PASSWD") or "").strip(),
            account=(environment.text(account) or "").strip(),
            domain=domain,
        )


def fetch_token(credentials: Credentials, client: HTTPClient) -> str:
    """Return a new token.

    Raises:
        AccessDeniedError: the server refuses the credentials.
        StorageUnavailableError: the server does not answer, or reports a temporary error.
        StorageError: the response contains no token.
    """
    authenticate, header = (
        (_authenticate_natively, "X-Auth-Token")
        if credentials.domain is None
        else (_authenticate_with_keystone, "X-Subject-Token")
    )
    answer = authenticate(credentials, client)
    url, status = credentials.auth_url, answer.status
    if status in (401, 403):
        account = "SWIFT_ACCOUNT" if credentials.domain is None else "KEYSTONE_PROJECTID"
        raise AccessDeniedError(
            f"{url} refuses the user in MASTABA_SWIFT_USER (status {status}): check "
            f"MASTABA_SWIFT_PASSWD and MASTABA_{account}",
            storage=_STORAGE,
        )
    if status in (408, 429) or status >= 500:
        raise StorageUnavailableError(f"{url} returned status {status}", storage=_STORAGE)
    token = answer.headers.get(header, "").strip()
    if not 200 <= status < 300 or not token:
        raise StorageError(
            f"{url} returned no token (status {status}): check MASTABA_SWIFT_AUTHURL",
            storage=_STORAGE,
        )
    return token


def _authenticate_natively(credentials: Credentials, client: HTTPClient) -> HTTPAnswer:
    user = f"{credentials.account}:{credentials.user}"
    # Servers read one pair of headers or the other.
    headers = {
        "X-Storage-User": user,
        "X-Storage-Pass": credentials.password,
        "X-Auth-User": user,
        "X-Auth-Key": credentials.password,
    }
    return client.request("GET", credentials.auth_url, headers, limit=_MAX_BODY)


def _authenticate_with_keystone(credentials: Credentials, client: HTTPClient) -> HTTPAnswer:
    user = {
        "domain": {"id": credentials.domain},
        "name": credentials.user,
        "password": credentials.password,
    }
    body = {
        "auth": {
            "scope": {"project": {"id": credentials.account}},
            "identity": {"methods": ["password"], "password": {"user": user}},
        }
    }
    headers = {"Content-Type": "application/json"}
    return client.request(
        "POST", credentials.auth_url, headers, json.dumps(body).encode(), _MAX_BODY
    )
