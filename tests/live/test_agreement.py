"""Nodes that follow one directory: every answer is of one generation, and readiness is honest."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.agreement import (
    LAYER,
    Clients,
    Directory,
    Node,
    change_and_compare,
    running_nodes,
)
from tests.live.processes import public_folder, wait_until
from tests.sizes import sized

pytestmark = pytest.mark.live

CHANGES = sized(8, 40)
OUTDATED = "the newest configuration cannot be loaded"


@pytest.fixture
def folder() -> Iterator[Path]:
    with public_folder() as found:
        yield found


@pytest.fixture
def place(folder: Path) -> Directory:
    (folder / "published").mkdir()
    return Directory(folder / "published")


@pytest.fixture
def nodes(folder: Path, place: Directory) -> Iterator[list[Node]]:
    with running_nodes(folder, place, 2) as found:
        yield found


def test_no_answer_is_mixed_in_many_changes(nodes: list[Node], place: Directory) -> None:
    seconds = change_and_compare(nodes, place, CHANGES)
    print(f"{CHANGES} changes: all nodes agree after {max(seconds):.1f} s at most")


def test_a_broken_set_keeps_the_old_one_and_makes_the_nodes_unready(
    nodes: list[Node], place: Directory
) -> None:
    old = nodes[0].ask()[2]
    with Clients(nodes) as clients:
        place.put(f"{LAYER}.json", b"{")
        for node in nodes:
            node.await_reason(OUTDATED)
            assert node.ask()[2] == old
        content = place.publish(1)
        place.put(f"{LAYER}.json", b"[]")
        for node in nodes:
            wait_until(lambda: node.server.tail(500).count("reload failed") >= 2)  # noqa: B023
            assert node.ask()[2] == old
            assert node.readiness()[0] == 503
        place.put_layer(LAYER)
        for node in nodes:
            node.await_content(content)
            node.await_reason()
    clients.check()


def test_a_half_written_set_is_not_served(nodes: list[Node], place: Directory) -> None:
    place.put_list(LAYER, "M")
    for node in nodes:
        node.await_reason(OUTDATED)
        assert b"/M" not in node.ask("/tms/1.0.0")[2]
    place.put_layer("M")
    for node in nodes:
        node.await_reason()
        wait_until(lambda: b"/M" in node.ask("/tms/1.0.0")[2])  # noqa: B023


def test_readiness_says_nothing_about_paths(nodes: list[Node], place: Directory) -> None:
    place.put(f"{LAYER}.json", b"{")
    nodes[0].await_reason(OUTDATED)
    _, _, body = nodes[0].ask("/healthcheck/ready")
    assert place.base.encode() not in body


def test_a_node_that_drains_answers_until_it_stops(folder: Path, place: Directory) -> None:
    with running_nodes(folder, place, 1, drain=2) as (node,):
        with Clients([node]) as clients:
            node.server.send(signal.SIGTERM)
            node.await_reason("the server is about to stop")
            before = clients.count
            wait_until(lambda: clients.count > before + 20)
            assert not clients.failures
        assert node.server.wait() == 0
        clients.check()
