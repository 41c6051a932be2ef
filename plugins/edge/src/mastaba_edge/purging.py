"""Purging of responses from caches by surrogate key."""

from __future__ import annotations

import http.client
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mastaba.api.catalogue import DOCUMENTS_KEY, keys_within, layer_key

if TYPE_CHECKING:
    from mastaba.api.services import LayerChange, Site

logger = logging.getLogger("mastaba.edge")

SECRET: Final = "X-Purge-Secret"  # noqa: S105 - the name of the header
KEYS: Final = "Surrogate-Key"
_REPEAT_AFTER: Final = 10.0
_TIMEOUT: Final = 60.0
# Varnish accepts header lines of 8 KiB by default.
_MOST_BYTES: Final = 6000


class PurgeError(Exception):
    """A cache has not purged."""


def purge_changes(site: Site, changes: Sequence[LayerChange]) -> None:
    """Purge changed layers, or the changed areas of layers, from all caches, twice.

    Raises:
        PurgeError: a cache has not purged.
    """
    settings = site.plugin_settings.get("edge", {})
    if not settings.get("caches"):
        return
    keys = [DOCUMENTS_KEY]
    for change in changes:
        layer = site.catalogue.layers.get(change.layer)
        name = change.variant or change.layer
        if layer is None or change.bbox is None:
            keys.append(layer_key(name))
        else:
            keys += keys_within(replace(layer, key=name), change.bbox)
    purge(settings, keys)
    pause: float = settings.get("repeat_after", _REPEAT_AFTER)
    if pause:
        time.sleep(pause)
        purge(settings, keys)


def purge(settings: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Purge keys from all caches, also if one of them fails.

    Args:
        settings: of this plugin.

    Raises:
        PurgeError: a cache has not purged, or the secret cannot be read.
    """
    secret = read_secret(settings["secret_file"]) if "secret_file" in settings else ""
    failed = []
    for cache in settings.get("caches", ()):
        try:
            for part in _parts(keys):
                _send(cache, secret, part)
        except (OSError, http.client.HTTPException, PurgeError) as error:
            failed.append(f"{cache}: {error}")
        else:
            logger.info("purged from %s: %d keys", cache, len(keys))
    if failed:
        raise PurgeError("; ".join(failed))


def read_secret(path: str) -> str:
    """Return the secret in a file, without white space around it.

    Raises:
        PurgeError: it cannot be read, or is empty.
    """
    try:
        secret = Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise PurgeError(f"the secret cannot be read: {error}") from error
    if not secret.isprintable() or not secret:
        raise PurgeError(f"{path} must contain the secret as one line")
    return secret


def _parts(keys: Iterable[str]) -> Iterator[str]:
    """Yield all keys, joined to values of headers."""
    part = ""
    for key in keys:
        if part and len(part) + len(key) >= _MOST_BYTES:
            yield part
            part = ""
        part = f"{part} {key}" if part else key
    if part:
        yield part


def _send(cache: str, secret: str, keys: str) -> None:
    address = urlsplit(cache)
    is_secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_TIMEOUT)
    try:
        connection.request("PURGE", address.path or "/", headers={SECRET: secret, KEYS: keys})
        response = connection.getresponse()
        response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise PurgeError(f"the answer is {response.status} {response.reason}")
