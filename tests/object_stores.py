"""Containers of one `ObjectServer`, for the conformance tests of drivers of object stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from mastaba_conformance.object_server import ObjectServer
from mastaba_conformance.storage import ObjectWriter
from mastaba_conformance.storage.kit import StorageKit


class Container:
    """Writes objects of the container ``maps``, behind the back of the driver."""

    def __init__(self, server: ObjectServer) -> None:
        self._server = server

    def put(self, key: str, data: bytes) -> None:
        self._server.put("maps", key, data)

    def delete(self, key: str) -> None:
        self._server.delete("maps", key)


class OneServer(StorageKit):
    """What the drivers have in common."""

    forks_while_reading = True
    # The live tests try 60 sequences and 25 repetitions with each real server.
    examples = 8
    repeats = 5
    thorough = (
        "test_object_above_the_bound_is_not_read_whole",
        "test_reads_leave_nothing_open",
        "test_any_sequence_of_operations",
        "test_fork_while_other_threads_read",
        "test_parent_and_child_read_at_the_same_time",
        "test_many_threads",
        "test_stat_and_exists_in_many_threads",
        "test_versions_are_never_mixed_while_an_object_is_replaced",
        "test_ranges_are_never_mixed_while_an_object_is_replaced",
    )

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[ObjectServer]:
        with ObjectServer() as server:
            server.make_container("maps")
            yield server

    @pytest.fixture
    def writer(self, server: ObjectServer) -> ObjectWriter:
        return Container(server)

    @pytest.fixture
    def outage(self, server: ObjectServer) -> Callable[[], AbstractContextManager[None]]:
        return server.outage
