"""nginx and Varnish with a cache that checks, with the samples of deploy/."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.access.checking_fronts import DEPLOY, FRONTS
from tests.access.identification.conftest import Credentials
from tests.deploy.blocked import ALLOWED, BLOCKED, CHECKS
from tests.deploy.samples import PROXY, SOCKET, apache
from tests.live.client import Answer, ask, ask_raw
from tests.live.processes import (
    Mastaba,
    changed,
    free_port,
    program,
    public_folder,
    wait_until,
)

from mastaba_conformance.tiny_installation import tiny_installation

pytestmark = pytest.mark.live

BELOW = "/1.0.0/RGB_PNG/4/9/6.png"
TILE = f"/maps/tms{BELOW}"
OPEN = "/maps/tms/1.0.0/RGB_JPG/4/9/6.jpg"
RULES = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_JPG"]}, "allow": {}},
        {"name": "partners", "who": ["group:partners"], "allow": {}},
    ],
}


class Checking:
    """A cache with a sample, and the server behind it."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.port, self._backend = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.credentials = Credentials(folder)
        (folder / "rules.json").write_text(json.dumps(RULES))
        path = tiny_installation(
            folder / "installation",
            public_url=f"{self.url}/maps",
            services_overrides={"auth": {"enabled": True, "prefix": "/maps"}},
        )
        ages = {"RGB_PNG": 3600, "RGB_JPG": 3600, "GREY_PNG": 1}
        for layer, age in ages.items():
            descriptor = folder / "installation" / "layers" / f"{layer}.json"
            document = json.loads(descriptor.read_text("utf-8"))
            document["cache_control"] = f"public, max-age={age}"
            descriptor.write_text(json.dumps(document), "utf-8")
        section = {
            "rules": str(folder / "rules.json"),
            "trusted_fronts": ["127.0.0.1"],
            **self.credentials.section(),
        }
        file = changed(
            path,
            folder / "server.json",
            logger={"output": "standard_output", "level": "info", "access": "json"},
            plugins={"access": section},
        )
        self.log = folder / "front.log"
        FRONTS[name](stack, folder, self._backend, self.port, self.log)
        self.server = stack.enter_context(Mastaba(file, folder, http=self._backend))
        wait_until(lambda: self.get(OPEN).status == 200)

    def get(self, path: str, **options: Any) -> Answer:
        return ask(self.url, path, **options)


@pytest.fixture(scope="module", params=["nginx", "varnish"])
def checking(request: pytest.FixtureRequest) -> Iterator[Checking]:
    with public_folder() as folder, ExitStack() as stack:
        yield Checking(request.param, folder, stack)


def test_a_class_shares_what_is_cached_and_nobody_else_gets_it(checking: Checking) -> None:
    one, two, other = (
        checking.credentials.key(groups=[group]) for group in ("partners", "partners", "others")
    )
    first = checking.get(f"/maps/tms/~{one}{BELOW}")
    assert (first.status, first.headers["x-cache"]) == (200, "MISS")
    for path, headers in (
        (f"/maps/tms/~{two}{BELOW}", {}),
        (f"{TILE}?apikey={two}", {}),
        (f"{TILE}?API%4Bey={one}", {}),
    ):
        again = checking.get(path, headers=headers)
        assert (again.status, again.headers["x-cache"]) == (200, "HIT"), path
        assert again.body == first.body
    by_header = checking.get(TILE, headers={"X-API-Key": two})
    assert (by_header.status, by_header.body) == (200, first.body)
    # The tile is in the cache. It does not exist for others.
    unknown = checking.get(TILE.replace("RGB_PNG", "ABSENT")).status
    assert checking.get(TILE).status == unknown == 404
    assert checking.get(f"{TILE}?key={other}").status == 404
    for headers in ({"X-Mastaba-Class": "open"}, {"X-Original-URI": f"{TILE}?key={one}"}):
        assert checking.get(TILE, headers=headers).status == 404
    refused = checking.get(f"{TILE}?key=mk_wrong")
    assert refused.status == 401
    assert "ApiKey" in refused.headers["www-authenticate"]


def test_what_is_open_is_shared_by_all(checking: Checking) -> None:
    place = OPEN.replace("/9/6.", "/9/5.")
    assert checking.get(place).headers["x-cache"] == "MISS"
    assert checking.get(place).headers["x-cache"] == "HIT"
    key = checking.credentials.key(groups=["others"])
    # A key that gives nothing more than the public has.
    assert checking.get(f"{place}?key={key}").headers["x-cache"] == "HIT"


def test_nothing_is_kept_longer_than_it_lives(checking: Checking) -> None:
    key = checking.credentials.key(groups=["partners"])
    short = f"/maps/tms/~{key}/1.0.0/GREY_PNG/4/9/6.png"
    assert checking.get(short).status == 200
    time.sleep(2.1)
    assert checking.get(short).headers["x-cache"] == "MISS"


def test_documents_are_of_one_client(checking: Checking) -> None:
    keys = [checking.credentials.key(groups=["partners"]) for _ in range(2)]
    path = "/maps/wmts/~{}?SERVICE=WMTS&REQUEST=GetCapabilities"
    for _ in range(2):
        for key, other in (keys, keys[::-1]):
            answer = checking.get(path.format(key))
            assert answer.status == 200
            assert f"/maps/wmts/~{key}".encode() in answer.body
            assert other.encode() not in answer.body
    anonymous = checking.get("/maps/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    assert b"~" not in anonymous.body
    assert b"RGB_PNG" not in anonymous.body


def test_a_revoked_key_gets_nothing_from_the_cache(checking: Checking) -> None:
    key = checking.credentials.key(groups=["partners"])
    assert checking.get(f"{TILE}?key={key}").status == 200
    store = checking.credentials.store
    record = store.find(key[3:11])
    assert record is not None
    store.save([replace(record, revoked=time.time())], "revoked")
    wait_until(lambda: checking.get(f"{TILE}?key={key}").status == 401)


def test_addresses_that_can_be_read_in_two_ways(checking: Checking) -> None:
    key = checking.credentials.key(groups=["partners"])
    for target in (
        f"/maps/tms/../tms/~{key}{BELOW}",
        f"/maps//tms/~{key}{BELOW}",
        f"/maps/tms/%2e%2e/tms/~{key}{BELOW}",
        f"/maps/tms/~{key}/~{key}{BELOW}",
        f"{TILE}?key={key}&token=mk_wrong",
        "/maps/auth/check",
        "/maps//auth/check",
        "/maps/%61uth/check",
        "/maps/admin",
    ):
        status = int(ask_raw(checking.url, target.encode()).split(b" ", 2)[1])
        assert status in (400, 401, 403, 404), target


def test_what_is_for_operators_is_not_public(checking: Checking) -> None:
    key = checking.credentials.key(groups=["partners"])
    with_headers = b"X-Original-URI: /maps/tms/~%s%s\r\n" % (key.encode(), BELOW.encode())
    for target in (*BLOCKED, *CHECKS):
        answer = ask_raw(checking.url, f"/maps{target}".encode(), headers=with_headers)
        assert answer.split(b" ", 2)[1] in (b"400", b"401", b"403", b"404"), (target, answer[:300])
        assert b"X-Mastaba-Class" not in answer
        assert b'"status": "OK"' not in answer
    segment = f"/~{key}"
    for target in ALLOWED:
        path = f"/maps{target}".replace("/~mk_x", segment).replace("/%7Emk_x", segment)
        status = int(ask_raw(checking.url, path.encode()).split(b" ", 2)[1])
        assert status in (200, 400, 404), target
    assert checking.get(f"/maps/~{key}/?f=json").status == 200


def test_a_body_arrives(checking: Checking) -> None:
    key = checking.credentials.key(groups=["partners"])
    answer = checking.get(
        "/maps/auth/sign", method="POST", headers={"X-API-Key": key}, body=b'{"seconds": 60}'
    )
    assert answer.status == 200
    address = json.loads(answer.body)["addresses"]["tms"]
    assert ask(checking.url, address.removeprefix(checking.url) + BELOW).status == 200


def test_nothing_that_is_written_contains_a_key(checking: Checking) -> None:
    key = checking.credentials.key(groups=["partners"])
    for path in (f"/maps/tms/~{key}{BELOW}", f"{TILE}?key={key}", f"{TILE}?%6bey={key}"):
        assert checking.get(path, headers={"Referer": f"https://x/?key={key}"}).status == 200
    assert checking.get(OPEN).status == 200
    checking.server.log.read_bytes()
    logs = [path for path in checking.folder.rglob("*.log") if path.is_file()]
    cached = [path for path in checking.folder.glob("cache/**/*") if path.is_file()]
    assert logs
    for path in (*logs, *cached):
        assert key[12:].encode() not in path.read_bytes(), path


def test_too_many_arrives_as_it_is(checking: Checking) -> None:
    """Last: the address of the tests is blocked afterwards."""
    answers = [checking.get(f"{TILE}?key=mk_wrong{n}") for n in range(40)]
    assert {answer.status for answer in answers} == {401, 429}
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    # Requests without a credential are answered.
    assert checking.get(OPEN).status == 200


# ---------------------------------------------------------------- samples without a cache


def test_haproxy_accepts_the_sample(tmp_path: Path) -> None:
    text = (DEPLOY / "haproxy" / "haproxy.cfg").read_text("utf-8")
    lines = (DEPLOY / "haproxy" / "mastaba-auth.cfg").read_text("utf-8")
    assert "    bind :80\n" in text
    text = text.replace("    bind :80\n", f"    bind :80\n{lines}")
    conf = tmp_path / "haproxy.cfg"
    conf.write_text(text)
    command = [program("haproxy", "haproxy"), "-c", "-f", conf]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower(), done.stderr


def test_apache_logs_no_credentials() -> None:
    """Apache in front of a server that answers nothing: only its log matters."""
    with public_folder() as folder, ExitStack() as stack:
        port, log = free_port(), folder / "mastaba.log"
        text = (DEPLOY / "apache" / "mastaba-proxy.conf").read_text("utf-8")
        lines = (DEPLOY / "apache" / "mastaba-auth.conf").read_text("utf-8")
        text = text.replace("</VirtualHost>", f"{lines}</VirtualHost>")
        for old, new in {
            "*:80": f"127.0.0.1:{port}",
            SOCKET: str(folder / "absent.sock"),
            "${APACHE_LOG_DIR}": str(folder),
        }.items():
            assert old in text, old
            text = text.replace(old, new)
        host = folder / "host.conf"
        host.write_text(text)
        stack.enter_context(apache(folder, host, port, (*PROXY, "setenvif", "headers")))
        url = f"http://127.0.0.1:{port}"
        for path in ("/~secret/x", "/x?key=secret", "/x?%6bey=secret", "/%7Esecret/x"):
            assert ask(url, f"/maps/tms{path}").status == 503
        assert ask(url, "/maps/auth/check").status == 403
        assert ask(url, "/maps/tms/plain").status == 503
        wait_until(lambda: "/maps/tms/plain" in log.read_text())
        assert "secret" not in log.read_text()


@pytest.mark.parametrize("name", ["traefik/mastaba-auth.yml", "envoy/mastaba-auth.yaml"])
def test_samples_name_the_check(name: str) -> None:
    text = (DEPLOY / name).read_text("utf-8")
    assert yaml.safe_load(text)
    assert "/auth/check" in text
