"""Traefik and Envoy ask who sends a request: the real programs, with the samples of deploy/."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.access.checking_fronts import DEPLOY
from tests.access.identification.conftest import Credentials
from tests.deploy.blocked import BLOCKED, CHECKS
from tests.live.client import Answer, ask, ask_raw
from tests.live.fronts import Front
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.tiny import tiny_installation

pytestmark = pytest.mark.live

BELOW = "/1.0.0/RGB_PNG/4/9/6.png"
OPEN = "/tms/1.0.0/RGB_JPG/4/9/6.jpg"
RULES = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_JPG"]}, "allow": {}},
        {"name": "partners", "who": ["group:partners"], "allow": {}},
    ],
}


def installed(name: str) -> str:
    """Return the path of a program that came with a package of Python; skips without it."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        pytest.skip(f"{name} is missing: install the packages of the group test")
    return str(path)


def traefik(folder: Path, port: int, backend: int) -> list[str]:
    """Write the configuration of Traefik, and return its command."""
    text = (DEPLOY / "traefik" / "mastaba-auth.yml").read_text("utf-8")
    assert text.count("http://192.0.2.11:8080") == 2
    dynamic = folder / "dynamic.yml"
    dynamic.write_text(text.replace("http://192.0.2.11:8080", f"http://127.0.0.1:{backend}"))
    # As the sample says.
    fields = {"names": {"RequestPath": "drop"}, "headers": {"defaultMode": "drop"}}
    static = {
        "entryPoints": {"web": {"address": f"127.0.0.1:{port}"}},
        "providers": {"file": {"filename": str(dynamic)}},
        "accessLog": {"filePath": str(folder / "access.log"), "format": "json", "fields": fields},
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
    }
    (folder / "traefik.yml").write_text(yaml.safe_dump(static))
    return [installed("traefik"), f"--configFile={folder / 'traefik.yml'}"]


def envoy(folder: Path, port: int, backend: int) -> list[str]:
    """Write the configuration of Envoy, and return its command."""
    text = (DEPLOY / "envoy" / "mastaba-auth.yaml").read_text("utf-8")
    for old, new in {
        "http://192.0.2.11:8080": f"http://127.0.0.1:{backend}",
        "address: 192.0.2.11, port_value: 8080": f"address: 127.0.0.1, port_value: {backend}",
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    sample = yaml.safe_load(text)
    log = {
        "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
        "path": str(folder / "access.log"),
        "log_format": {
            "text_format_source": {"inline_string": "%REQ(X-MASTABA-URI)% %RESPONSE_CODE%\n"}
        },
    }
    routes = sample["routes"]
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network."
        "http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "maps",
        "use_remote_address": True,
        "access_log": [{"name": "file", "typed_config": log}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": sample["http_filters"],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    listener = {"name": "web", "address": address, "filter_chains": [{"filters": filters}]}
    static = {"static_resources": {"listeners": [listener], "clusters": sample["clusters"]}}
    (folder / "envoy.json").write_text(json.dumps(static))
    installed("envoy")
    binary = Path(str(importlib.import_module("envoy").__file__)).parent / "_bin" / "envoy"
    command = [str(binary), "-c", str(folder / "envoy.json"), "--concurrency", "1"]
    return [*command, "--base-id", str(os.getpid()), "--log-level", "warn"]


class Asking:
    """A front that asks, and the server behind it."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        port, backend = free_port(), free_port()
        self.prefix = "/maps" if name == "traefik" else ""
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        self.credentials = Credentials(folder)
        (folder / "rules.json").write_text(json.dumps(RULES))
        header = "X-Forwarded-Uri" if name == "traefik" else "path"
        path = tiny_installation(
            folder / "installation",
            public_url=f"{self.url}{self.prefix}",
            services_overrides={"auth": {"enabled": True, "header": header}},
        )
        section = {"rules": str(folder / "rules.json"), "trusted_fronts": ["127.0.0.1"]}
        section |= self.credentials.section()
        file = changed(path, folder / "server.json", plugins={"access": section})
        stack.enter_context(Mastaba(file, folder, http=backend))
        make: Callable[..., list[str]] = traefik if name == "traefik" else envoy
        stack.enter_context(Front(name, make(folder, port, backend), folder, [port]))
        wait_until(lambda: self.get(OPEN).status == 200)

    def get(self, path: str, **options: Any) -> Answer:
        return ask(self.url, f"{self.prefix}{path}", **options)


@pytest.fixture(scope="module", params=["traefik", "envoy"])
def asking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asking]:
    with ExitStack() as stack:
        yield Asking(request.param, tmp_path_factory.mktemp(request.param), stack)


def test_a_key_in_any_form_shows_what_others_do_not_see(asking: Asking) -> None:
    key = asking.credentials.key(groups=["partners"])
    for path, headers in (
        (f"/tms/~{key}{BELOW}", {}),
        (f"/tms{BELOW}?apikey={key}", {}),
        (f"/tms{BELOW}", {"X-API-Key": key}),
        (f"/tms{BELOW}", {"Authorization": f"Bearer {key}"}),
    ):
        assert asking.get(path, headers=headers).status == 200, path
    assert asking.get(f"/tms{BELOW}").status == 404
    # What a client says about itself counts for nothing.
    for name in ("X-Forwarded-Uri", "X-Original-URI"):
        assert asking.get(f"/tms{BELOW}", headers={name: f"/tms/~{key}{BELOW}"}).status == 404
    refused = asking.get(f"/tms{BELOW}?key=mk_wrong")
    assert refused.status == 401
    assert "ApiKey" in refused.headers["www-authenticate"]
    document = asking.get(f"/wmts/~{key}?SERVICE=WMTS&REQUEST=GetCapabilities").body.decode()
    assert f"{asking.url}{asking.prefix}/wmts/~{key}" in document


def test_what_is_for_operators_is_not_public(asking: Asking) -> None:
    key = asking.credentials.key(groups=["partners"])
    headers = "".join(
        f"{name}: /tms/~{key}{BELOW}\r\n" for name in ("X-Original-URI", "X-Forwarded-Uri")
    )
    for target in (*BLOCKED, *CHECKS):
        path = f"{asking.prefix}{target}"
        answer = ask_raw(asking.url, path.encode(), headers=headers.encode())
        status = answer.split(b" ", 2)[1]
        # 301: Traefik itself repairs paths with dots and double slashes.
        assert status in (b"301", b"400", b"401", b"403", b"404"), (target, answer[:300])
        assert b"x-mastaba-class" not in answer.lower()
        assert b'"status": "OK"' not in answer
    assert asking.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities").status == 200
    assert asking.get(f"/~{key}/?f=json").status == 200
    body = b'{"seconds": 60}'
    signed = asking.get("/auth/sign", method="POST", headers={"X-API-Key": key}, body=body)
    assert signed.status == 200


def test_a_revoked_key_is_refused(asking: Asking) -> None:
    key = asking.credentials.key(groups=["partners"])
    assert asking.get(f"/tms/~{key}{BELOW}").status == 200
    record = asking.credentials.store.find(key[3:11])
    assert record is not None
    asking.credentials.store.save([replace(record, revoked=time.time())], "revoked")
    wait_until(lambda: asking.get(f"/tms/~{key}{BELOW}").status == 401)


def test_the_log_contains_no_key(asking: Asking) -> None:
    key = asking.credentials.key(groups=["partners"])
    log = asking.folder / "access.log"
    for path in (f"/tms/~{key}{BELOW}", f"/tms{BELOW}?key={key}"):
        assert asking.get(path, headers={"Referer": f"https://x/?key={key}"}).status == 200
    wait_until(lambda: log.exists() and log.read_text().count("200") >= 2)
    assert key[12:] not in log.read_text()


def test_too_many_arrives_as_it_is(asking: Asking) -> None:
    """Last: the address of the tests is blocked afterwards."""
    answers = [asking.get(f"/tms{BELOW}?key=mk_wrong{n}") for n in range(40)]
    assert {answer.status for answer in answers} == {401, 429}
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    assert asking.get(OPEN).status == 200
