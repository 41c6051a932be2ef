"""Getting tokens, natively or from Keystone (storage.md sections 6.1 and 6.2)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final, Self

from mastaba.environment import Environment
from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError
from mastaba.storage.http import HTTPAnswer, HTTPClient
from mastaba.storage.settings import required

_STORAGE = "swift://"
_MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes; the catalogue of services that Keystone sends with a token is of no use to us."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are, and who is to be asked for a token.

    Attributes:
        auth_url: of native authentication, or the token URL of Keystone.
        user: user name.
        password: its password.
        account: of native authentication; the project id for Keystone.
        domain: domain id of Keystone, None for native authentication.
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
            AccessDeniedError: one that is needed is not set; the message names it.
        """
        domain = (environment.text("KEYSTONE_DOMAINID") or "").strip() or None
        account = "SWIFT_ACCOUNT" if domain is None else "KEYSTONE_PROJECTID"
        return cls(
            auth_url=environment.text("SWIFT_AUTHURL") or "http://localhost:8080/auth/v1.0",
            user=required(environment, "SWIFT_USER", _STORAGE),
            password=required(environment, "SWIFT_PASSWD", _STORAGE),
            account=required(environment, account, _STORAGE),
            domain=domain,
        )


def fetch_token(credentials: Credentials, client: HTTPClient) -> str:
    """Return a new token.

    Raises:
        AccessDeniedError: the credentials are refused.
        StorageUnavailableError: there is no answer, or none that can be used now.
    """
    ask, header = (
        (_ask_natively, "X-Auth-Token")
        if credentials.domain is None
        else (_ask_keystone, "X-Subject-Token")
    )
    answer = ask(credentials, client)
    url, status = credentials.auth_url, answer.status
    if status in (401, 403):
        account = "SWIFT_ACCOUNT" if credentials.domain is None else "KEYSTONE_PROJECTID"
        raise AccessDeniedError(
            f"{url} refuses the user of MASTABA_SWIFT_USER ({status}): check "
            f"MASTABA_SWIFT_PASSWD and MASTABA_{account}",
            storage=_STORAGE,
        )
    if status in (408, 429) or status >= 500:
        raise StorageUnavailableError(f"{url} answers {status}", storage=_STORAGE)
    token = answer.headers.get(header, "").strip()
    if not 200 <= status < 300 or not token:
        raise StorageError(
            f"{url} gives no token (status {status}): check MASTABA_SWIFT_AUTHURL",
            storage=_STORAGE,
        )
    return token


def _ask_natively(credentials: Credentials, client: HTTPClient) -> HTTPAnswer:
    user = f"{credentials.account}:{credentials.user}"
    # Servers look at one pair or the other.
    headers = {
        "X-Storage-User": user,
        "X-Storage-Pass": credentials.password,
        "X-Auth-User": user,
        "X-Auth-Key": credentials.password,
    }
    return client.request("GET", credentials.auth_url, headers, limit=_MAX_BODY)


def _ask_keystone(credentials: Credentials, client: HTTPClient) -> HTTPAnswer:
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
