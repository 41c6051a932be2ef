"""Stores of archives: files, S3, Swift and a web server, with small servers of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from tests.storage_http.test_conformance import Site

from mastaba_conformance.object_server import (
    S3_KEYS,
    SWIFT_PASSWORD,
    SWIFT_USER,
    ObjectServer,
)

_HOUR = 3600 * 1_000_000_000
"""Nanoseconds."""

STORES = ("file", "s3", "swift", "http")


@dataclass(frozen=True, slots=True)
class Store:
    """A store with a container ``maps``.

    Attributes:
        prefix: of the paths of its objects.
        put: replaces an object in one step.
    """

    prefix: str
    put: Callable[[str, bytes], None]


@contextmanager
def store_of(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Start a store, and set the variables of its driver."""
    if name == "file":
        times = count(time.time_ns() - _HOUR, 1_000_000)

        def put(key: str, data: bytes) -> None:
            part = directory / f"{key}.part"
            part.write_bytes(data)
            # Files that have not changed for a while are not examined for each read.
            os.utime(part, ns=(next(times),) * 2)
            os.replace(part, directory / key)

        yield Store(f"{directory}/", put)
        return
    if name == "http":
        with closing(Site()) as site:
            monkeypatch.setenv("MASTABA_HTTP_HOSTS", site.host)
            yield Store(f"http://{site.host}/", site.put)
        return
    with ObjectServer() as server:
        server.make_container("maps")
        ((key, secret),) = S3_KEYS.items()
        account, _, user = SWIFT_USER.partition(":")
        for variable, value in {
            "S3_URL": server.url,
            "S3_KEY": key,
            "S3_SECRETKEY": secret,
            "SWIFT_AUTHURL": f"{server.url}/auth/v1.0",
            "SWIFT_PUBLICURL": f"{server.url}/v1/AUTH_account",
            "SWIFT_ACCOUNT": account,
            "SWIFT_USER": user,
            "SWIFT_PASSWD": SWIFT_PASSWORD,
        }.items():
            monkeypatch.setenv(f"MASTABA_{variable}", value)
        yield Store(f"{name}://maps/", lambda key, data: server.put("maps", key, data))
