"""Wrong credentials in great numbers: they take no memory, and nothing from the tiles of others."""

from __future__ import annotations

import base64
import http.client
import json
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.processes import Mastaba, changed, free_port
from tests.sizes import sized
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.access import GRANT, Form, Shown
from mastaba.api.tools import create_application
from mastaba.errors import AccessError, UnknownCredentialError
from mastaba_access.gate import RulesGate
from mastaba_access.keystore.form import new_id, new_key
from mastaba_server.access.door import VISIT, Door, Visit

TILE = "/tms/~{}/1.0.0/RGB_JPG/4/9/6.jpg"
MIB = 1024 * 1024
WORKERS = 2
WRONG = sized(1000, 10_000)
"""Wrong keys, and addresses, of each attack."""
TILES = sized(500, 2000)
"""Requests of which the cost of a tile is the mean."""


def access(folder: Path, credentials: Credentials, **more: Any) -> dict[str, Any]:
    (folder / "rules.json").write_text(json.dumps({"default": "allow", "rules": []}))
    section = {"rules": str(folder / "rules.json"), **credentials.section(), **more}
    return {"plugins": {"access": section}}


def address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def attack(gate: RulesGate, numbers: range) -> None:
    """Show a wrong key from each address, 20 of each damaged kind too."""
    for number in numbers:
        text = new_key(new_id()) if number % 20 else f"s1.{number}.wrong"
        where = address(number)
        with pytest.raises((UnknownCredentialError, AccessError)):
            gate.grant([Shown(Form.PATH, text)], {"REMOTE_ADDR": where}, where)


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions something calls, at least: others run now and then."""
    return min(_calls_of(work) for _ in range(20))


def _calls_of(work: Callable[[], object]) -> int:
    count = 0

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_tiles_of_others_take_the_same_calls(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    key = credentials.key(groups=["partners"])
    overrides = access(tmp_path, credentials)
    application = create_application(
        str(tiny_installation(tmp_path / "i", server_overrides=overrides))
    )
    gate = application.site.gate
    assert isinstance(gate, RulesGate)
    headers = {"REMOTE_ADDR": "192.0.2.1"}

    def tile() -> None:
        assert application.stored_tile(TILE.format(key), "", headers) is not None

    assert application.stored_tile(TILE.format(key), "", headers) is None  # a cold credential
    gate.grant([Shown(Form.PATH, key)], headers, "192.0.2.1")
    assert Client(application).get(TILE.format(key), environ_overrides=headers).status_code == 200
    tile()
    before = calls_of(tile)
    attack(gate, range(1000))
    assert calls_of(tile) == before
    # Also for those who are at the address of the attack.
    for _ in range(40):
        attack(gate, range(1, 2))
    assert calls_of(tile) == before


def test_long_credentials_take_little_memory(tmp_path: Path) -> None:
    """A client with a key may show anything beside it, in each request something else."""
    credentials = Credentials(tmp_path)
    key = credentials.key()
    overrides = access(tmp_path, credentials)
    path = tiny_installation(tmp_path / "i", server_overrides=overrides)
    gate = create_application(str(path)).site.gate
    assert isinstance(gate, RulesGate)
    granted: list[Any] = []

    def note(environ: dict[str, Any], _: Any) -> list[bytes]:
        granted.append(environ[GRANT].principal.id)
        return []

    enter = Door(gate, "mark", ["/tms"]).around(note)

    def show(numbers: range) -> None:
        for number in numbers:
            environ = {"REQUEST_METHOD": "GET", "PATH_INFO": f"/tms/~{key}", "REMOTE_ADDR": "::1"}
            enter({**environ, "HTTP_AUTHORIZATION": f"Bearer {number:020000}"}, None)

    with pytest.MonkeyPatch.context() as patch:
        grants = Mock(side_effect=gate.grant)
        patch.setattr(gate, "grant", grants)
        show(range(50))
        tracemalloc.start()
        try:
            show(range(50, 1000))
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert granted == [key.split("_")[1]] * 1000
    assert kept < MIB // 4
    # It decides nothing, so the key is not verified again.
    assert grants.call_count == 1


def test_credentials_of_no_use_do_not_make_answers_public(tmp_path: Path) -> None:
    """Without keys, a segment is no credential, and caches do not tell clients apart by it."""
    credentials = Credentials(tmp_path)
    credentials.user("anna", "secret")
    credentials.keys.unlink()
    credentials.secrets.unlink()
    overrides = access(tmp_path, credentials)
    path = tiny_installation(tmp_path / "i", server_overrides=overrides)
    gate = create_application(str(path)).site.gate
    visits: list[Visit] = []
    enter = Door(gate, "mark", ["/tms"]).around(lambda environ, _: visits.append(environ[VISIT]))
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/tms/~segment", "REMOTE_ADDR": "::1"}
    basic = base64.b64encode(b"anna:secret").decode()
    enter({**environ, "HTTP_AUTHORIZATION": f"Basic {basic}"}, None)
    enter(environ, None)
    assert [(one.is_anonymous, one.is_shared) for one in visits] == [(False, False), (True, True)]


@pytest.mark.thorough
def test_wrong_credentials_are_not_kept(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    credentials.key()
    overrides = access(tmp_path, credentials)
    path = tiny_installation(tmp_path / "i", server_overrides=overrides)
    gate = create_application(str(path)).site.gate
    assert isinstance(gate, RulesGate)
    # Bounded caches, such as that of the networks of addresses, are full then.
    attack(gate, range(6000))
    tracemalloc.start()
    try:
        begin, _ = tracemalloc.get_traced_memory()
        attack(gate, range(6000, 12_000))
        end, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What replaces older entries is traced, what it replaces is not.
    assert end - begin < MIB


@pytest.mark.parametrize("hops", [1, 60])
def test_addresses_of_clients_take_little_memory(tmp_path: Path, hops: int) -> None:
    """Also at first, when nothing is remembered, and with long chains of front servers."""
    overrides = access(tmp_path, Credentials(tmp_path), trusted_fronts=["127.0.0.1"])
    path = tiny_installation(tmp_path / "i", server_overrides=overrides)
    gate = create_application(str(path)).site.gate
    assert isinstance(gate, RulesGate)

    def client(number: int) -> str:
        chain = ", ".join([f"10.9.9.{hop}" for hop in range(1, hops)] + [address(number)])
        found: str = gate.client_address(
            {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": chain}
        )
        return found

    client(0)
    tracemalloc.start()
    try:
        begin, _ = tracemalloc.get_traced_memory()
        assert all(client(number) == address(number) for number in range(6000))
        end, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert end - begin < MIB // 2


def own_memory(pids: list[int]) -> int:
    """Return the bytes of processes that are not files: heaps, and the memory that they share."""
    total, counts = 0, False
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps").read_text("ascii").splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                counts = len(words) < 6 or words[5].startswith(("[heap]", "/memfd"))
            elif words[0] == "Pss:" and counts:
                total += int(words[1]) * 1024
    return total


def processor_time(pids: list[int]) -> int:
    """Return nanoseconds."""
    return sum(
        int(path.read_text("ascii").split()[0])
        for pid in pids
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )


@pytest.mark.live
@pytest.mark.thorough
def test_a_server_does_not_grow(tmp_path: Path) -> None:
    """From many addresses, and from one; prints what a tile takes before and afterwards."""
    credentials, port = Credentials(tmp_path), free_port()
    key = credentials.key(groups=["partners"])
    overrides = access(tmp_path, credentials, trusted_fronts=["127.0.0.1"])
    path = tiny_installation(tmp_path / "i", public_url=f"http://127.0.0.1:{port}")
    logger = {"output": "standard_output", "level": "warn"}
    file = changed(path, tmp_path / "server.json", workers=2, logger=logger, **overrides)
    with ExitStack() as stack:
        server = stack.enter_context(Mastaba(file, tmp_path, http=port))
        # Each connection stays with one worker.
        connections = [
            stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port)))
            for _ in range(4)
        ]

        def get(number: int, text: str, where: str) -> int:
            connection = connections[number % len(connections)]
            connection.request("GET", TILE.format(text), headers={"X-Forwarded-For": where})
            response = connection.getresponse()
            response.read()
            return response.status

        def cost_of_tiles() -> float:
            begin = processor_time(server.children())
            assert all(get(n, key, "192.0.2.1") == 200 for n in range(TILES))
            return (processor_time(server.children()) - begin) / TILES / 1000

        def wrong(numbers: range, where: Callable[[int], str] = address) -> set[int]:
            return {get(n, new_key(new_id()), where(n)) for n in numbers}

        # The first refusals load what writes them, and touch the table of failures.
        assert wrong(range(WRONG)) == {401}
        cost_of_tiles()
        begin, tiles = own_memory(server.children()), [cost_of_tiles() for _ in range(3)]
        refused = processor_time(server.children())
        assert wrong(range(WRONG, 2 * WRONG)) == {401}
        refused = (processor_time(server.children()) - refused) // WRONG
        assert wrong(range(WRONG), lambda _: "192.0.2.9") == {401, 429}
        afterwards = [cost_of_tiles() for _ in range(3)]
        grown = (own_memory(server.children()) - begin) / WORKERS
        print(f"tile {min(tiles):.1f} us, afterwards {min(afterwards):.1f} us")
        print(f"refusal {refused / 1000:.1f} us, {grown / 1024:.0f} KiB more in a worker")
        assert grown <= MIB
