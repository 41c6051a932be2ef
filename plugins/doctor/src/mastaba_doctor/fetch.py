"""One HTTP GET with a timeout, which follows no redirects."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Final

from mastaba import __version__
from mastaba.environment import Environment
from mastaba_doctor.answer import SEEN, Answer, media_type

TIMEOUT: Final = 5.0
"""Seconds to connect, and between two parts of the response."""


class UnreachableError(Exception):
    """There is no response; the message says why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def get(url: str, environment: Environment, timeout: float = TIMEOUT) -> Answer:
    """Return the response to a GET, whatever its status.

    Proxies come from HTTP_PROXY, HTTPS_PROXY and NO_PROXY; SSL_NO_VERIFY accepts any certificate.

    Args:
        url: http or https URL; the caller rejects other schemes.

    Raises:
        UnreachableError: no response in time, or not an HTTP response.
    """
    context = ssl.create_default_context()
    if environment.flag("SSL_NO_VERIFY"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(
        _NoRedirect(), urllib.request.HTTPSHandler(context=context)
    )
    headers = {"User-Agent": f"Mastaba/{__version__} check", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the caller checked it
    try:
        try:
            with opener.open(request, timeout=timeout) as response:
                return _answer(response.status, response.headers, response)
        except urllib.error.HTTPError as error:
            # Raised for any status other than 2xx, which is still a response.
            with error:
                return _answer(error.code, error.headers, error)
    except urllib.error.URLError as error:
        raise UnreachableError(_reason(error.reason)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise UnreachableError(_reason(error)) from error


def _answer(status: int, headers: Any, stream: IO[bytes]) -> Answer:
    return Answer(
        status,
        media_type(headers.get("Content-Type") or ""),
        stream.read(SEEN),
        headers.get("Location") or "",
    )


def _reason(error: object) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
