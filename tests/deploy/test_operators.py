"""Metrics and the rotated log of a server behind nginx, as docs/deployment.md describes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.live.client import ask
from tests.live.fronts import nginx_with
from tests.live.installations import TILE, make_installation
from tests.live.processes import Mastaba, changed, free_port, public_folder

from mastaba_conformance.deadline import eventually

SOCKET = "/run/mastaba/mastaba.sock"
PATH = "/tms/1.0.0/RGB_PNG/{}/{}/{}.png".format(*TILE)
LOGS = "/var/log/mastaba"
TARGET = "127.0.0.1:9180"


@dataclass
class Operated:
    """A server behind nginx with both samples.

    Attributes:
        public: address for clients.
        operators: address for programs on the machine.
        logs: folder of the log.
    """

    public: str
    operators: str
    logs: Path


def test_prometheus_asks_where_nginx_listens(deploy: Path) -> None:
    sample = yaml.safe_load((deploy / "prometheus" / "prometheus.yml").read_text("utf-8"))
    assert sample["scrape_configs"][0]["static_configs"] == [{"targets": [TARGET]}]
    assert f"listen {TARGET};" in (deploy / "nginx" / "mastaba-operators.conf").read_text("utf-8")


def documented_log() -> dict[str, str]:
    """Return the settings that the page gives for a log that is rotated."""
    page = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text("utf-8")
    (block,) = re.findall(r"^```json\n(\{ \"logger\".*?)^```$", page, re.M | re.S)
    settings: dict[str, str] = json.loads(block)["logger"]
    assert settings["file_prefix"] == f"{LOGS}/mastaba.log"
    return settings


@pytest.fixture(scope="module")
def operated(deploy: Path) -> Iterator[Operated]:
    with public_folder() as folder:
        sock, logs = str(folder / "mastaba.sock"), folder / "logs"
        logs.mkdir()
        ports = free_port(), free_port()
        public, operators = (f"http://127.0.0.1:{port}" for port in ports)
        server_json = make_installation(folder / "installation", public_url=f"{public}/maps")
        services_json = server_json.with_name("services.json")
        services = json.loads(services_json.read_text("utf-8"))
        services["metrics"] = {"enabled": True, "root_path": "/metrics"}
        services_json.write_text(json.dumps(services), "utf-8")
        logger = {**documented_log(), "file_prefix": f"{logs}/mastaba.log"}
        file = changed(server_json, folder / "server.json", port=sock, logger=logger)
        replaced = {
            "listen 80;": f"listen 127.0.0.1:{ports[0]};",
            f"listen {TARGET};": f"listen 127.0.0.1:{ports[1]};",
            SOCKET: sock,
        }
        samples = []
        for name in ("mastaba.conf", "mastaba-operators.conf"):
            text = (deploy / "nginx" / name).read_text("utf-8")
            for old, new in replaced.items():
                text = text.replace(old, new)
            (folder / name).write_text(text, "utf-8")
            samples.append(f"include {folder / name};")
        with Mastaba(file, folder), nginx_with(folder, "\n".join(samples), list(ports)):
            yield Operated(public, operators, logs)


@pytest.mark.live
def test_metrics_are_for_operators_only(operated: Operated) -> None:
    assert ask(operated.public, f"/maps{PATH}").status == 200
    assert ask(operated.public, "/maps/metrics").status == 404
    answer = ask(operated.operators, "/metrics")
    assert answer.status == 200
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {"mastaba_requests", "mastaba_workers"} <= names
    assert ask(operated.operators, "/healthcheck/ready").status == 200
    assert ask(operated.operators, PATH).status == 404


@pytest.mark.live
def test_the_log_is_rotated_without_losing_lines(
    operated: Operated, deploy: Path, tmp_path: Path
) -> None:
    program = shutil.which("logrotate", path="/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip("logrotate is not installed (Debian package logrotate)")
    text = (deploy / "logrotate" / "mastaba").read_text("utf-8")
    assert LOGS in text
    assert "su mastaba mastaba\n" in text
    sample = tmp_path / "logrotate.conf"
    sample.write_text(text.replace(LOGS, str(operated.logs)).replace("su mastaba mastaba\n", ""))
    sample.chmod(0o644)
    operated.logs.chmod(0o755)
    count = 60
    log = operated.logs / "mastaba.log"
    for number in range(count):
        assert ask(operated.public, f"/maps{PATH}?number={number}").status == 200
        if number in (20, 40):
            # An empty file is not rotated.
            assert eventually(120, lambda: log.exists() and log.stat().st_size > 0)
            command = [program, "--force", "--state", tmp_path / "state", sample]
            subprocess.run(command, check=True, capture_output=True)
    found: set[int] = set()

    def all_lines() -> bool:
        found.clear()
        for path in operated.logs.iterdir():
            read = ["gzip", "-cd", path] if path.suffix == ".gz" else ["cat", path]
            text = subprocess.run(read, check=True, capture_output=True, text=True).stdout
            found.update(map(int, re.findall(r"number=(\d+)", text)))
        return found == set(range(count))

    assert eventually(120, all_lines), set(range(count)) - found
    assert (operated.logs / "mastaba.log").exists()
    assert len(list(operated.logs.iterdir())) == 3
