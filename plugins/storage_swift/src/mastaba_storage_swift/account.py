"""An account of Swift: credentials and token, through keystoneauth1 (storage.md section 6)."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from keystoneauth1 import exceptions
from keystoneauth1.identity.v3 import Password
from keystoneauth1.loading import get_plugin_loader
from keystoneauth1.session import Session
from swiftclient.authv1 import PasswordPlugin

from mastaba.api.storages import (
    BoundedCalls,
    Environment,
    PerProcess,
    network_timeout,
    read_timeout,
)
from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError
from mastaba_http import certificate_authorities, failure_reason
from mastaba_storage_swift.token_file import read_token, write_token

logger = logging.getLogger(__name__)

_STORAGE: Final = "swift://"
_DEFAULT_AUTH_URL: Final = "http://localhost:8080/auth/v1.0"
_DEFAULT_PUBLIC_URL: Final = "http://localhost:8080/api/v1"
_FRESH: Final = 60.0
"""Seconds during which a token fetched by this process cannot have expired."""


class Account:
    """An account with its token. Only one thread at a time requests a new token.

    The credentials are in the variables SWIFT_* and KEYSTONE_*. If none of these is set, they are
    in the variables OS_* of OpenStack, for every method of authentication that keystoneauth1 knows.

    Args:
        environment: the variables.

    Raises:
        AccessDeniedError: required variables are not set; the message names them.
    """

    def __init__(self, environment: Environment) -> None:
        self._domain = (environment.text("KEYSTONE_DOMAINID") or "").strip()
        account = "KEYSTONE_PROJECTID" if self._domain else "SWIFT_ACCOUNT"
        names = ("SWIFT_USER", "SWIFT_PASSWD", account)
        given = [(environment.text(name) or "").strip() for name in names]
        self._user, self._password, self._account = given
        variables = [f"MASTABA_{name}" for name in names]
        unset = [name for name, value in zip(variables, given, strict=True) if not value]
        self._is_openstack = not any(given) and bool(os.environ.get("OS_AUTH_URL"))
        if self._is_openstack:
            self._auth_url = os.environ["OS_AUTH_URL"]
            self._remedy = "check the variables OS_*"
        elif unset:
            raise AccessDeniedError(
                f"{', '.join(unset)} {'is' if len(unset) == 1 else 'are'} not set in the "
                "environment of the server",
                storage=_STORAGE,
            )
        else:
            self._auth_url = environment.text("SWIFT_AUTHURL") or _DEFAULT_AUTH_URL
            self._remedy = f"check MASTABA_SWIFT_AUTHURL, {', '.join(variables)}"
        self.timeout = network_timeout(environment)
        self._bounded = BoundedCalls(read_timeout(environment))
        self.verify: bool | str = not environment.flag("SSL_NO_VERIFY") and (
            certificate_authorities() or True
        )
        self._public_url = environment.text("SWIFT_PUBLICURL")
        self._path = environment.text("SWIFT_TOKEN_FILE") or None
        self._session: PerProcess[Session] = PerProcess(self._open_session)
        # Per process: a lock held during a fork would stay locked in the child.
        self._lock = PerProcess(threading.Lock)
        self._token: str | None = None
        self._fetched = float("-inf")

    def url(self) -> str:
        """Return the URL of the account. Raises the errors of `token`."""
        if not self._is_openstack:
            return self._public_url or _DEFAULT_PUBLIC_URL
        return self._public_url or self._ask(
            lambda session: session.get_endpoint(
                service_type="object-store",
                interface=os.environ.get("OS_INTERFACE", "public"),
                region_name=os.environ.get("OS_REGION_NAME"),
            )
        )

    def token(self) -> str:
        """Return the current token. At first, read it from the file or fetch a new one.

        Raises:
            AccessDeniedError: the server refuses the credentials.
            StorageUnavailableError: the server does not answer, or reports a temporary error.
            StorageError: the response contains no token.
        """
        token = self._token
        if token is not None:
            return token
        with self._lock.get():
            if self._token is None and self._path is not None:
                self._token = read_token(self._path)
            return self._token or self._fetch()

    def renew(self, refused: str) -> str:
        """Return a token other than the refused one. Raises the errors of `token`."""
        with self._lock.get():
            if self._token is not None and self._token != refused:
                return self._token
            self._token = None
            logger.info("%s: token refused, requesting a new one", self._auth_url)
            return self._fetch()

    def is_fresh(self, token: str) -> bool:
        """Return whether a token was fetched so recently that it cannot have expired."""
        return token == self._token and time.monotonic() - self._fetched < _FRESH

    def _fetch(self) -> str:
        def new_token(session: Session) -> str | None:
            session.invalidate()
            return session.get_token()

        token = self._ask(new_token)
        self._token, self._fetched = token, time.monotonic()
        if self._path is not None:
            write_token(self._path, token)
        return token

    def _ask(self, question: Callable[[Session], str | None]) -> str:
        """Return the answer of the server that issues tokens."""
        kind, reason = StorageError, "no token in the response"
        try:
            session = self._session.get()
            answer = self._bounded.run(lambda: question(session))
            if answer:
                return answer
        except (exceptions.ConnectionError, TimeoutError) as error:
            kind, reason = StorageUnavailableError, f"no answer: {failure_reason(error)}"
        except exceptions.HttpError as error:
            status, reason = error.http_status, f"status {error.http_status}"
            if status in (401, 403):
                kind, reason = AccessDeniedError, f"access denied (status {status})"
            elif status in (408, 429) or status >= 500:
                kind = StorageUnavailableError
        except (exceptions.ClientException, KeyError, ValueError) as error:
            reason = f"no token: {error}"
        raise kind(f"{self._auth_url}: {reason}; {self._remedy}", storage=_STORAGE)

    def _open_session(self) -> Session:
        plugin: Any
        if self._is_openstack:
            loader: Any = get_plugin_loader(os.environ.get("OS_AUTH_TYPE", "password"))
            plugin = loader.load_from_options_getter(
                lambda option: os.environ.get(f"OS_{option.dest.upper()}")
            )
        elif self._domain:
            plugin = Password(
                self._auth_url.removesuffix("/auth/tokens"),
                user_domain_id=self._domain,
                username=self._user,
                password=self._password,
                project_id=self._account,
            )
        else:
            plugin = PasswordPlugin(self._auth_url, f"{self._account}:{self._user}", self._password)
        return Session(auth=plugin, verify=self.verify, timeout=self.timeout)


shared_account = lru_cache(maxsize=1)(Account)
"""Return the account of an environment: the same object for the same environment."""
