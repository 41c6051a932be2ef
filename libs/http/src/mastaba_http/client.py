"""The HTTP client for object storages, forwarded queries and checks of public addresses."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, ProtocolError, ProxyError
from urllib3.util import make_headers, parse_url

from mastaba_http.addresses import to_allowed_addresses
from mastaba_http.exchanges import Exchange, with_deadlines
from mastaba_server.errors import NoResponseError, reason_of
from mastaba_server.threads.per_process import PerProcess
from mastaba_storage.environment import Environment
from mastaba_storage.retry import network_timeout, read_timeout

_CONNECTIONS: Final = 64
_MAX_ERROR_BODY: Final = 256 * 1024
# Longer numbers are not sizes, and Python refuses to convert very long ones.
_SIZE: Final = re.compile(r"[0-9]{1,19}")
# How http.client reports a proxy that wants other credentials before it connects.
_DENIED_TUNNEL: Final = "Tunnel connection failed: 407"


@dataclass(frozen=True, slots=True)
class HTTPAnswer:
    """A response of an HTTP server.

    Attributes:
        status: HTTP status.
        headers: by name, in any case.
        body: bytes that were read.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def announced_size(self) -> int | None:
        """Bytes of the body according to Content-Length; None if unknown."""
        size = self.headers.get("Content-Length", "")
        return int(size) if _SIZE.fullmatch(size) else None

    @property
    def size(self) -> int:
        """Bytes of the body, even if it was not read."""
        return max(len(self.body), self.announced_size or 0)


class HTTPClient:
    """Sends requests to one server, over keep-alive connections shared by all threads.

    No request is repeated, and no redirect is followed. The variables HTTP_PROXY, HTTPS_PROXY
    and NO_PROXY determine the proxy.

    Args:
        url: URL of the server.
        timeout: seconds to connect, and between two pieces of a response; None for no limit.
        verify: whether to verify the server's certificate.
        seconds: limit for a whole exchange; None for no limit.
        allows: whether a connection to an IP address may be opened; None for any address. It is
            called for each address of the host, not for that of a proxy.

    Attributes:
        path: path of the URL, without a slash at its end.

    Raises:
        NoResponseError: the URL is not an HTTP or HTTPS URL.
    """

    def __init__(
        self,
        url: str,
        timeout: float | None,
        *,
        verify: bool = True,
        seconds: float | None = None,
        allows: Callable[[str], bool] | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port is not None else ""
        except ValueError as error:
            raise NoResponseError(f"{url!r} is not a URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NoResponseError(f"{url!r} is not an HTTP URL")
        # Without user information, which may contain a password.
        self._host = parts.netloc.rpartition("@")[2].removesuffix(port) + port
        self._scheme = parts.scheme
        self.path = parts.path.rstrip("/")
        self._timeout = timeout
        self._verify = verify
        self._seconds = seconds
        self._allows = allows
        self._pool = PerProcess(self._open_pool)
        if not verify:
            urllib3.disable_warnings(InsecureRequestWarning)

    @classmethod
    def from_environment(
        cls, url: str, environment: Environment, allows: Callable[[str], bool] | None = None
    ) -> HTTPClient:
        """Create a client from NETWORK_TIMEOUT, OBJECT_READ_TIMEOUT and SSL_NO_VERIFY."""
        verify, seconds = not environment.flag("SSL_NO_VERIFY"), read_timeout(environment)
        timeout = network_timeout(environment)
        return cls(url, timeout, verify=verify, seconds=seconds, allows=allows)

    def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        limit: int | None = None,
        seconds: float | None = None,
        body: bytes | None = None,
    ) -> HTTPAnswer:
        """Send one request and return the response.

        A proxy that denies access answers with status 407, also where the request is for HTTPS.

        Args:
            target: path and query.
            limit: maximum bytes of the body to read; a body that announces more is not read.
            seconds: limit for the whole exchange; None for that of the client.
            body: of the request; None for a request without one.

        Raises:
            NoResponseError: the response is missing, incomplete or too late.
        """
        try:
            with Exchange(self._seconds if seconds is None else seconds) as exchange:
                pool = self._pool.get()
                if pool.proxy is not None and self._scheme == "http":
                    target = f"http://{self._host}{target}"
                response = pool.urlopen(
                    method,
                    target,
                    body,
                    headers,
                    retries=False,
                    redirect=False,
                    timeout=exchange.timeout(self._timeout),
                    preload_content=False,
                    assert_same_host=False,
                )
                try:
                    return _answer(response, limit)
                except BaseException:
                    response.close()
                    raise
        except (HTTPError, OSError) as error:
            reason = failure_reason(error)
            if _DENIED_TUNNEL in reason:
                return HTTPAnswer(407, urllib3.HTTPHeaderDict(), b"")
            reason = f"{self._scheme}://{self._host} does not answer: {reason}"
            raise NoResponseError(reason) from error

    def close(self) -> None:
        """Close the connections of this process; the next request opens new ones."""
        pool = self._pool.drop()
        if pool is not None:
            pool.close()

    def _open_pool(self) -> urllib3.HTTPConnectionPool:
        settings: dict[str, Any] = {
            "maxsize": _CONNECTIONS,
            "ssl_context": _tls_context(self._verify) if self._scheme == "https" else None,
        }
        proxy = "" if proxy_bypass(self._host) else getproxies().get(self._scheme, "")
        manager = urllib3.PoolManager(**settings)
        if proxy:
            headers = make_headers(proxy_basic_auth=parse_url(proxy).auth)
            manager = urllib3.ProxyManager(proxy, proxy_headers=headers, **settings)
        pool = manager.connection_from_url(f"{self._scheme}://{self._host}")
        if self._allows is not None and pool.proxy is None:
            pool.ConnectionCls = to_allowed_addresses(pool.ConnectionCls, self._allows)
        pool.ConnectionCls = with_deadlines(pool.ConnectionCls)
        return pool


def _answer(response: urllib3.BaseHTTPResponse, limit: int | None) -> HTTPAnswer:
    """Return a response; its connection is used again if nothing of it is left unread."""
    answer = HTTPAnswer(response.status, response.headers, b"")
    if answer.status >= 300:
        limit = _MAX_ERROR_BODY
    elif limit is not None and (answer.announced_size or 0) > limit:
        response.close()
        return answer
    try:
        data = response.read(limit, decode_content=False)
    except (ProtocolError, urllib3.exceptions.TimeoutError):
        if answer.status < 300:
            raise
        response.close()
        return answer  # the status says enough
    is_cut = limit is not None and len(data) < limit and bool(response.length_remaining)
    if is_cut and answer.status < 300:
        raise ProtocolError("the response is truncated")
    if is_cut or (limit is not None and len(data) >= limit):
        response.close()  # unread data makes the connection unusable
    else:
        response.release_conn()
    return HTTPAnswer(answer.status, answer.headers, data)


def certificate_authorities() -> str | None:
    """Return the file of the system's certificate authorities; None if there is none.

    For libraries that otherwise trust a list of their own.
    """
    paths = ssl.get_default_verify_paths()
    debian = os.path.join(paths.capath or "", "ca-certificates.crt")
    return paths.cafile or (debian if os.path.isfile(debian) else None)


def failure_reason(error: Exception) -> str:
    """Return why a request failed, from an error of urllib3 or of a library based on it."""
    cause: Exception | None = error
    by = ""
    while cause is not None:
        error = cause
        if isinstance(error, ProxyError):
            by = "the proxy: "
        if isinstance(error, TimeoutError):
            break  # what was cut then has failed in other ways
        # The libraries keep the original error in different places.
        places = (error.__cause__, getattr(error, "reason", None), *error.args, error.__context__)
        cause = next((place for place in places if isinstance(place, Exception)), None)
    if isinstance(error, TimeoutError | urllib3.exceptions.TimeoutError):
        return f"{by}no response in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate is not accepted: {error.verify_message} "
            "(MASTABA_SSL_NO_VERIFY=1 accepts any certificate)"
        )
    return by + (reason_of(error) or type(error).__name__)


@lru_cache(maxsize=2)
def _tls_context(verify: bool) -> ssl.SSLContext:
    # Loading all CA certificates takes longer than many responses.
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
