"""A store, or a server of tokens, that sends a byte now and then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.hanging import Trickle

from mastaba.errors import StorageUnavailableError
from mastaba_conformance.object_server import Faults, ObjectServer
from mastaba_storage.base import ByteRange
from mastaba_storage_swift.storage import SwiftStorage

from .conftest import OpenContainer


@pytest.mark.parametrize("operation", ["range", "whole", "stat", "dots"])
def test_every_read_is_given_up(
    server: ObjectServer, open_container: OpenContainer, operation: str
) -> None:
    server.put("maps", "key", b"x" * 1000)
    with closing(open_container(OBJECT_READ_TIMEOUT="2")) as storage:
        reads = {
            "range": lambda: storage.read("key", ByteRange(0, 1000)),
            "whole": lambda: storage.read("key"),
            "stat": lambda: storage.stat("key"),
            "dots": lambda: storage.exists("a/../key"),
        }
        server.faults = Faults(trickles=1.0, trickle_time=0.1)
        if operation == "dots":
            server.put("maps", "a/../key", b"x" * 1000)
        with pytest.raises(StorageUnavailableError, match=r"no (response in|answer within 2)"):
            reads[operation]()
        server.faults = Faults()
        reads[operation]()


@pytest.fixture
def tokens() -> Iterator[Trickle]:
    with closing(Trickle(b"HTTP/1.1 200 OK\r\nX-Storage-Url: ")) as server:
        yield server


def test_server_of_tokens_is_given_up(open_container: OpenContainer, tokens: Trickle) -> None:
    url = f"http://127.0.0.1:{tokens.port}/auth/v1.0"
    with pytest.raises(StorageUnavailableError, match="no answer"):
        _: SwiftStorage = open_container(SWIFT_AUTHURL=url, OBJECT_READ_TIMEOUT="1")
