"""The public keys of a provider: fetched, shared by the workers of a node, kept on disk."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from mastaba.api.storages import replaced_file
from mastaba.errors import MastabaError, NoResponseError, reason_of
from mastaba_access_oidc.settings import Provider
from mastaba_access_oidc.shared_text import SharedText
from mastaba_http import HTTPClient
from mastaba_server.threads.lasting import lasting

logger = logging.getLogger("mastaba.access")

PublicKey = RSAKey | ECKey | OKPKey

LARGEST: Final = 1024 * 1024
"""Bytes of a key set."""
_SECONDS: Final = 5.0
"""Seconds in which the provider must have answered with its keys."""
_PAUSE: Final = 60.0
"""Seconds between two requests to the provider, of all workers of a node."""
_AGE: Final = 3600.0
"""Seconds after which keys are fetched again."""
_MOST_KEYS: Final = 100
_SMALLEST_RSA: Final = 2048
_DISCOVERY: Final = "/.well-known/openid-configuration"
_KINDS: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "PS256": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "EdDSA": ("OKP", "Ed25519"),
}


class KeySetError(MastabaError):
    """The provider does not answer, or with something else than keys."""


class ProviderKeys:
    """Keys by their id. Made before the fork: all workers of a node share what one fetches.

    Args:
        provider: whose keys they are.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        # A reload while the provider does not answer takes over what is known.
        self._shared = lasting(_shared_text, provider.issuer, provider.jwks_uri)
        self._version = 0
        self._keys: list[tuple[str | None, str, PublicKey, str | None]] = []
        if not self.refresh() and not self._shared.version:
            self._read_file()
        self._update()

    @property
    def is_empty(self) -> bool:
        """Whether no keys are known: the provider has never answered."""
        return not self._version

    def find(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """Return the key that a token names; an unknown one is looked for at the provider.

        Args:
            key_id: ``kid`` of the token; without it, there must be one key only.
            algorithm: ``alg`` of the token.
        """
        self._update()
        found = self._find(key_id, algorithm)
        if found is None and key_id is not None and self.refresh():
            self._update()
            found = self._find(key_id, algorithm)
        return found

    def has_changed(self) -> bool:
        """Fetch the keys again if it is time, and return whether this process got others."""
        if self._shared.may_replace(_PAUSE, _AGE):
            # Aside: the caller also looks for other changes, which must not wait for the provider.
            threading.Thread(target=self._fetch, name="oidc", daemon=True).start()
        return self._update()

    def refresh(self) -> bool:
        """Fetch the keys if no worker has done so within a minute; return whether it worked."""
        return self._shared.may_replace(_PAUSE) and self._fetch()

    def _fetch(self) -> bool:
        try:
            text = fetched(self._provider)
            _parsed(text)
        except KeySetError as error:
            logger.error("the keys of %s are not renewed: %s", self._provider.issuer, error)
            return False
        self._shared.write(text)
        self._write_file(text)
        return True

    def _update(self) -> bool:
        """Take over what another worker has fetched."""
        if self._shared.version == self._version:
            return False
        version, text = self._shared.read()
        self._keys = _parsed(text)
        self._version = version
        return True

    def _find(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        kind, curve = _KINDS[algorithm]
        fitting = [
            key
            for name, key_kind, key, only in self._keys
            if key_kind == kind
            and (key_id is None or name == key_id)
            and only in (None, algorithm)
            and (curve is None or key.as_dict(private=False).get("crv") == curve)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _read_file(self) -> None:
        path = self._provider.keys_file
        if path is None:
            return
        try:
            with open(path, "rb") as stream:
                text = stream.read(LARGEST + 1)
            kept = json.loads(text)
            # Those of another provider may be there.
            if kept.get("issuer") == self._provider.issuer and len(text) <= LARGEST:
                text = json.dumps(kept["jwks"]).encode()
                _parsed(text)
                self._shared.write(text)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, AttributeError, KeySetError) as error:
            logger.error("the keys in %s cannot be used: %s", path, reason_or_text(error))

    def _write_file(self, text: bytes) -> None:
        path = self._provider.keys_file
        if path is None:
            return
        document = {"issuer": self._provider.issuer, "jwks": json.loads(text)}
        try:
            with replaced_file(path) as stream:
                stream.write(json.dumps(document).encode())
        except OSError as error:
            logger.error("the keys cannot be written to %s: %s", path, reason_of(error))


def _shared_text() -> SharedText:
    return SharedText(LARGEST)


def reason_or_text(error: Exception) -> str:
    """Return why a file cannot be used."""
    return (reason_of(error) if isinstance(error, OSError) else None) or str(error)


def fetched(provider: Provider) -> bytes:
    """Return the key set of a provider.

    Raises:
        KeySetError: it does not answer in time, or not as OpenID Connect says.
    """
    ends = time.monotonic() + _SECONDS
    address = provider.jwks_uri
    if address is None:
        # "{issuer}/.well-known/…", with one slash.
        text = _get(provider.issuer.rstrip("/") + _DISCOVERY, ends)
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise KeySetError("its configuration is not JSON") from error
        if not isinstance(document, dict) or document.get("issuer") != provider.issuer:
            raise KeySetError("its configuration names another issuer")
        address = document.get("jwks_uri")
        if not isinstance(address, str) or not address.startswith("https://"):
            raise KeySetError("its configuration names no https address of keys")
    return _get(address, ends)


def _get(address: str, ends: float) -> bytes:
    try:
        parts = urlsplit(address)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not target.isascii() or not target.isprintable() or " " in target:
            raise KeySetError("the address of its keys is damaged")
        seconds = max(0.1, ends - time.monotonic())
        client = HTTPClient(address, seconds, seconds=seconds)
        try:
            answer = client.request("GET", target, {"Accept": "application/json"}, LARGEST + 1)
        finally:
            client.close()
    except (NoResponseError, ValueError) as error:
        raise KeySetError(str(error)) from error
    # A redirect is not followed: it may lead anywhere.
    if answer.status != 200:
        raise KeySetError(f"{parts.scheme}://{parts.netloc} answers {answer.status}")
    if answer.size > LARGEST:
        raise KeySetError("the answer is larger than 1 MiB")
    return answer.body


def _parsed(text: bytes) -> list[tuple[str | None, str, PublicKey, str | None]]:
    """Return id, kind, key and only algorithm of the keys that verify signatures.

    Raises:
        KeySetError: it is not a key set, or none of its keys can be used.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise KeySetError("the key set is not JSON") from error
    items = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(items, list) or len(items) > _MOST_KEYS:
        raise KeySetError("the answer is not a key set")
    found = []
    for item in items:
        key = _key(item)
        if key is not None:
            only = item.get("alg")
            found.append((item.get("kid"), item["kty"], key, only))
    if not found:
        raise KeySetError("the key set contains no key that can be used")
    return found


def _key(item: Any) -> PublicKey | None:
    """Return a public key; None for one of another kind, for encryption, or a weak one."""
    if not isinstance(item, dict) or item.get("use", "sig") != "sig":
        return None
    if not isinstance(item.get("kid"), str | None) or not isinstance(item.get("alg"), str | None):
        return None
    operations = item.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    # Only what is public, and what a library needs.
    names = {"RSA": "kty n e", "EC": "kty crv x y", "OKP": "kty crv x"}.get(str(item.get("kty")))
    if names is None:
        return None
    public: dict[str, str | list[str]] = {name: str(item.get(name, "")) for name in names.split()}
    try:
        match item["kty"]:
            case "RSA":
                key = RSAKey.import_key(public)
                return key if key.raw_value.key_size >= _SMALLEST_RSA else None
            case "EC":
                return ECKey.import_key(public)
            case _:
                return OKPKey.import_key(public)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None
