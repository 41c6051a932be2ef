"""Front servers with the samples of deploy/."""

from __future__ import annotations

from pathlib import Path

from tests.live.fronts import Front, apache_with, nginx_with

SOCKET = "/run/mastaba/mastaba.sock"
PROXY = ("proxy", "proxy_fcgi", "proxy_balancer", "lbmethod_byrequests", "slotmem_shm")
"""Modules of Apache for the sample with mod_proxy_fcgi."""


def sample(path: Path, folder: Path, replaced: dict[str, str]) -> Path:
    """Write a copy of a sample in which some words are others; each of them has to be there."""
    text = path.read_text("utf-8")
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    copy = folder / path.name
    copy.write_text(text, encoding="utf-8")
    return copy


def nginx(folder: Path, deploy: Path, port: int, sock: str) -> Front:
    replaced = {"listen 80;": f"listen 127.0.0.1:{port};", SOCKET: sock}
    file = sample(deploy / "nginx" / "mastaba.conf", folder, replaced)
    return nginx_with(folder, f"include {file};", [port])


def apache(folder: Path, file: Path, port: int, modules: tuple[str, ...]) -> Front:
    content = f"Listen 127.0.0.1:{port}\nInclude {file}"
    return apache_with(folder, content, [port], modules=modules)
