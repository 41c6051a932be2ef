"""nginx and Varnish with a cache that checks: the samples of deploy/ before a server."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.deploy.samples import sample
from tests.live.fronts import Front, nginx_with
from tests.live.processes import REPOSITORY, program

DEPLOY = REPOSITORY / "deploy"
PREFIX = "/maps"
"""Of the addresses in the samples."""


def start_nginx(stack: ExitStack, folder: Path, backend: int, port: int, log: Path) -> None:
    """Start nginx on a port before a server on another one; its cache is in ``folder/cache``."""
    replaced = {
        "server 127.0.0.1:8080": f"server 127.0.0.1:{backend}",
        "listen 80;": f"listen 127.0.0.1:{port};",
        "/var/cache/nginx/mastaba": str(folder / "cache"),
        "/var/log/nginx/mastaba.log": str(log),
    }
    file = sample(DEPLOY / "nginx" / "mastaba-auth.conf", folder, replaced)
    stack.enter_context(nginx_with(folder, f"include {file};", [port]))


def start_varnish(stack: ExitStack, folder: Path, backend: int, port: int, log: Path) -> None:
    """Start Varnish on a port before a server on another one. It writes no log."""
    del log
    binary = program("varnishd", "varnish")
    if not Path("/var/lib/dpkg/info/varnish-modules.list").exists():
        pytest.skip("install the Debian package varnish-modules (make live)")
    replaced = {'.port = "8080"': f'.port = "{backend}"'}
    file = sample(DEPLOY / "varnish" / "mastaba-auth.vcl", folder, replaced)
    command: list[str | Path] = [binary, "-F", "-f", file, "-T", "none", "-s", "malloc,64m"]
    command += ["-a", f"127.0.0.1:{port}", "-n", folder / "varnish"]
    stack.enter_context(Front("varnish", command, folder, [port]))


FRONTS = {"nginx": start_nginx, "varnish": start_varnish}
