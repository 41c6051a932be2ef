"""Rules and keys change while clients ask: no request is lost, and old rights end."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.client import ask, load
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.sizes import sized
from tests.tiny import tiny_installation

pytestmark = [pytest.mark.live, pytest.mark.thorough]

RELOADS = sized(14, 40)
BELOW = "/1.0.0/RGB_PNG/4/9/6.png"


def test_reloads_with_other_rules_lose_no_request(tmp_path: Path) -> None:
    credentials, port = Credentials(tmp_path), free_port()
    url = f"http://127.0.0.1:{port}"
    rules = tmp_path / "rules.json"

    def write(is_open: bool) -> None:
        found = [{"name": "partners", "who": ["group:partners"], "allow": {}}]
        if is_open:
            found.append({"name": "open", "what": {"layers": ["RGB_PNG"]}, "allow": {}})
        rules.write_text(json.dumps({"default": "deny", "rules": found}))

    write(is_open=False)
    kept, revoked = (credentials.key(groups=["partners"]) for _ in range(2))
    installation = tiny_installation(tmp_path / "tiny", services=["tms"], public_url=url)
    section = {"rules": str(rules), **credentials.section()}
    file = changed(installation, tmp_path / "server.json", plugins={"access": section})
    with Mastaba(file, tmp_path, http=port) as server:
        anonymous, old = f"/tms{BELOW}", f"/tms/~{revoked}{BELOW}"
        with load(url, f"/tms/~{kept}{BELOW}", 2) as ours, load(url, old, 2) as theirs:
            for number in range(RELOADS):
                is_open = number % 2 == 0
                write(is_open)
                if number == RELOADS // 2:
                    record = credentials.store.find(revoked[3:11])
                    assert record is not None
                    record = replace(record, revoked=time.time())
                    credentials.store.save([record], "revoked")
                before, count = set(server.children()), len(ours.answers)
                server.send(signal.SIGHUP)
                wait_until(lambda: before.isdisjoint(server.children()))  # noqa: B023
                wait_until(lambda: len(server.children()) == server.workers)
                wait_until(lambda: len(ours.answers) > count + 5)  # noqa: B023
                # No process is left that has begun with the rules before.
                assert {ask(url, anonymous).status for _ in range(4)} == {200 if is_open else 404}
                if number >= RELOADS // 2:
                    assert {ask(url, old).status for _ in range(4)} <= {401, 429}
        assert not ours.broken
        assert not theirs.broken
        # A kept key from the same address is refused while too many wrong ones are tried.
        assert ours.statuses <= {200, 429}
        assert theirs.statuses <= {200, 401, 429}
        statuses = [answer.status for answer in theirs.answers]
        assert 200 in statuses
        assert 401 in statuses
