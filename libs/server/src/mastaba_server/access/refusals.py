"""Headers of answers that refuse a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mastaba_server.access.gate import Gate
from mastaba_server.messages import CLIENT, Headers


def shown_challenges(challenges: Iterable[str], headers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the challenges that a request may get.

    ``Basic`` is for requests that a browser makes for a page, and for clients that are no browsers:
    an image must not open a window for a password.

    Args:
        challenges: values of WWW-Authenticate (RFC 9110, 11.6.1).
        headers: of the request, by their keys in the WSGI environment.
    """
    is_page = headers.get("HTTP_SEC_FETCH_MODE", "navigate") == "navigate"
    return tuple(one for one in challenges if is_page or not one.lower().startswith("basic"))


def refusal_headers(
    error: Exception, status: int, gate: Gate | None, headers: Mapping[str, Any]
) -> Headers:
    """Return WWW-Authenticate, for the status 401, Retry-After and what the error adds.

    Args:
        error: may have the attributes ``challenges``, instead of those of the gate,
            ``retry_after`` and ``headers``.
        status: HTTP status of the answer.
        headers: of the request, by their keys in the WSGI environment.
    """
    found: Headers = []
    if status == 401:
        own = getattr(error, "challenges", ())
        challenges = own or (gate.challenges(headers) if gate is not None else ())
        found += [("WWW-Authenticate", one) for one in shown_challenges(challenges, headers)]
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        found.append(("Retry-After", str(retry_after)))
    return found + list(getattr(error, "headers", ()))


def let_wait(error: Exception | None, environ: Mapping[str, Any]) -> None:
    """Let the answer to a refused request wait, if the error says so and the transport can."""
    seconds: float = getattr(error, "delay", 0.0)
    # Transports of others may know nothing of it.
    delay = getattr(environ.get(CLIENT), "delay", None)
    if seconds > 0 and delay is not None:
        delay(seconds)
