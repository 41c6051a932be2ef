"""The patterns of the samples block what is for operators, however the path is written.

Here, the patterns alone; `test_fronts`, `test_haproxy` and the tests of checking front servers ask
the real programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote

import pytest
import yaml
from tests.deploy.blocked import ALLOWED, BLOCKED, CHECKS

Blocks = Callable[[str], bool]

_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?=[/?]|$)", re.IGNORECASE)
"""Segments at which the server finds nothing, where a front server passes them on as they are."""


def resolved(target: str) -> str:
    """Return the path as nginx, Apache and Traefik match it: decoded, without dots."""
    path = unquote(target.partition("?")[0])
    whole = normpath(path)
    return whole + "/" if path.endswith("/") and whole != "/" else whole


def one_of(patterns: list[str], path_of: Callable[[str], str]) -> Blocks:
    assert patterns
    return lambda target: any(re.search(one, path_of(target)) for one in patterns)


def blocks(deploy: Path, name: str) -> Blocks:
    """Return whether a sample refuses a target."""
    text = (deploy / name).read_text("utf-8")
    if name.startswith("nginx/"):
        found = re.findall(r"location ~ (\S+) \{\s+return 404;", text)
        return one_of(found, resolved)
    if name.startswith("apache/"):
        found = re.findall(r'<LocationMatch "(.+)">\s+Require all denied', text)
        # Encoded slashes stay as they are; the server finds nothing at such paths.
        return one_of(
            [*found, "%2F"],
            lambda target: resolved(
                target.replace("%2", "%252").upper() if "%2f" in target.lower() else target
            ),
        )
    if name.startswith("haproxy/"):
        found = re.findall(r"acl \w+ path,url_dec -m reg (\S+)", text)
        found.append(_DOTS.pattern)
        return one_of(found, lambda target: unquote(target.partition("?")[0]))
    if name.startswith("varnish/"):
        (condition,) = re.findall(
            r"if \((req\.url !~ .+?)\) \{\n\s+return \(synth\(404", text, re.S
        )
        condition = re.sub(r'req\.url (!?)~ ("[^"]*")', r"\1found(r\2)", condition)
        condition = condition.replace("!found", "not found").replace("&&", "and")
        code = condition.replace("||", "or").replace("\n", " ")

        def refuses(target: str) -> bool:
            if _DOTS.search(target):
                return True
            return bool(eval(code, {"found": lambda one: re.search(one, target)}))

        return refuses
    document = yaml.safe_load(text)
    if name.startswith("traefik/"):
        rule = document["http"]["routers"]["maps"]["rule"]
        return one_of(re.findall(r"!PathRegexp\(`([^`]+)`\)", rule), resolved)
    routes = document["routes"]
    open_to_all, refused = (one["match"]["safe_regex"]["regex"] for one in routes[:2])

    def refuses_whole(target: str) -> bool:
        path = target.partition("?")[0].removeprefix("/maps")
        if re.fullmatch(open_to_all, path):
            return False
        return bool(_DOTS.search(path) or re.fullmatch(refused, path))

    return refuses_whole


NAMES = [
    "nginx/mastaba.conf",
    "nginx/mastaba-cache.conf",
    "nginx/mastaba-cache-http.conf",
    "apache/mastaba-proxy.conf",
    "haproxy/haproxy.cfg",
    "varnish/mastaba.vcl",
    "nginx/mastaba-auth.conf",
    "varnish/mastaba-auth.vcl",
    "traefik/mastaba-auth.yml",
    "envoy/mastaba-auth.yaml",
]


@pytest.mark.parametrize("name", NAMES)
def test_paths_of_operators_are_blocked(deploy: Path, name: str) -> None:
    refuses = blocks(deploy, name)
    assert [one for one in BLOCKED if not refuses(f"/maps{one}")] == []
    assert [one for one in ALLOWED if refuses(f"/maps{one}")] == []
    if not name.startswith("nginx/"):  # there, a location above
        assert not refuses("/maps/auth/session")
        assert not refuses("/maps/auth/sign?x=1")


@pytest.mark.parametrize("name", NAMES)
def test_the_check_is_blocked(deploy: Path, name: str) -> None:
    refuses = blocks(deploy, name)
    assert [one for one in CHECKS if not refuses(f"/maps{one}")] == []


HEADERS = ("X-Original-URI", "X-Original-Method", "X-Original-Referer")
# Traefik removes X-Forwarded-… itself; only listed headers arrive at the check behind Envoy.
FORWARDED = ("X-Forwarded-Uri", "X-Forwarded-Method")


@pytest.mark.parametrize(
    ("name", "form", "headers", "times"),
    [
        ("nginx/mastaba-auth.conf", 'proxy_set_header {} "";', (*HEADERS, *FORWARDED), 2),
        ("apache/mastaba-auth.conf", "RequestHeader unset {} early", (*HEADERS, *FORWARDED), 1),
        ("haproxy/mastaba-auth.cfg", "http-request del-header {}", (*HEADERS, *FORWARDED), 1),
        ("traefik/mastaba-auth.yml", '{}: ""', HEADERS, 1),
        ("varnish/mastaba-auth.vcl", "unset req.http.{};", ("X-Original-Method", *FORWARDED), 1),
        ("varnish/mastaba-auth.vcl", "set req.http.{} = ", (HEADERS[0], HEADERS[2]), 1),
    ],
)
def test_what_only_the_front_server_says_is_cleared(
    deploy: Path, name: str, form: str, headers: tuple[str, ...], times: int
) -> None:
    text = (deploy / name).read_text("utf-8")
    for header in headers:
        assert text.count(form.format(header)) >= times, header
