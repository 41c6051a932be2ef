"""Webhooks: publications are sent to addresses of the settings, signed."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mastaba.errors import MastabaError
from mastaba_history.feeds import Entry, item
from mastaba_history.layers import layer_histories

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import LayerChange, Site

logger = logging.getLogger("mastaba.history")

SIGNATURE: Final = "X-Mastaba-Signature"
_TIMEOUT: Final = 10.0


class WebhookError(Exception):
    """An address has not accepted a publication."""


def announce(site: Site, changes: Sequence[LayerChange]) -> None:
    """Send the last publications of changed layers to all webhooks, also if one of them fails.

    A call that is repeated sends all again; the ``id`` of a publication stays.

    Raises:
        WebhookError: an address has not accepted a publication, or a secret cannot be read.
    """
    hooks = site.plugin_settings.get("history", {}).get("webhooks", ())
    if not hooks:
        return
    items = list(_items(site, changes))
    failed = []
    for hook in hooks:
        wanted = hook.get("layers")
        chosen = [one for layer, one in items if wanted is None or layer in wanted]
        try:
            secret = _secret(hook["secret_file"])
            for one in chosen:
                _send(hook["url"], secret, json.dumps(one, ensure_ascii=False).encode())
        except (OSError, http.client.HTTPException, WebhookError) as error:
            failed.append(f"{hook['url']}: {error}")
        else:
            logger.info("sent to %s: %d publications", hook["url"], len(chosen))
    if failed:
        raise WebhookError("; ".join(failed))


def signature_of(secret: bytes, body: bytes) -> str:
    """Return the value of the header with the signature: HMAC with SHA-256."""
    return f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"


def _items(site: Site, changes: Sequence[LayerChange]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the last publication of each changed layer or value, with the name of its layer."""
    settings = site.catalogue.services.get("history")
    endpoint = settings.endpoint_uri if settings is not None else "/history"
    layers = site.catalogue.layers
    changed: dict[str, Layer] = {}
    for one in changes:
        # Other rules of access, or another virtual service, are no publications.
        if one.layer not in layers or one.before == one.after:
            continue
        if not one.variant:
            changed[one.layer] = layers[one.layer]
        elif one.after is not None:
            try:
                changed[one.variant] = site.catalogue.resolve(one.variant).layer
            except MastabaError as error:
                logger.warning("%s cannot be announced: %s", one.variant, error)
    for name, history in layer_histories(changed, site.catalogue.storages).items():
        published, before = next(history.changed())
        entry = Entry(changed[name], published, before)
        yield changed[name].id, item(endpoint, entry)


def _secret(path: str) -> bytes:
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as error:
        raise WebhookError(f"the secret cannot be read: {error}") from error
    if not secret:
        raise WebhookError(f"{path} must contain the secret")
    return secret


@contextmanager
def _ended(connection: socket) -> Iterator[None]:
    """Cut a connection after the timeout, however slowly the receiver sends."""

    def cut() -> None:
        # Not the method of TLS, which would take the keys from the thread that reads.
        with suppress(OSError):
            socket.shutdown(connection, SHUT_RDWR)

    timer = Timer(_TIMEOUT, cut)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _send(url: str, secret: bytes, body: bytes) -> None:
    address = urlsplit(url)
    is_secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_TIMEOUT)
    target = (address.path or "/") + (f"?{address.query}" if address.query else "")
    headers = {"Content-Type": "application/json", SIGNATURE: signature_of(secret, body)}
    try:
        connection.connect()
        # The timeout of a socket begins again with each byte; caches are purged after this.
        with _ended(connection.sock):
            connection.request("POST", target, body, headers)
            response = connection.getresponse()
    finally:
        connection.close()
    # A redirect could lead to any host.
    if not 200 <= response.status < 300:
        raise WebhookError(f"the answer is {response.status} {response.reason}")
