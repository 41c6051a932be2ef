"""Level *hostile*: no request, however strange, is answered by a server error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mastaba_conformance.services.kit import Answer, ServiceKit

Ask = Callable[..., Answer]

STRINGS = (
    *("", "%20", ".", "..", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%00", "%ff%fe", "%zz", "%", "%5c"),
    *("0", "-1", "1.5", "1e999", "nan", "-inf", "0x10", "%D9%A3", "%C2%B2", "1_000", "+1"),
    *("9" * 19, "9" * 5000, "x" * 9000),
    *("%3Cscript%3Ealert(1)%3C/script%3E", "%22%27%3E", "%26amp;", "%5D%5D%3E", "{{7*7}}"),
    *("%0d%0aX-Injected:%20yes", "%F0%9D%84%9E", "%ED%A0%80", "*", "null", "true", "[]", "a,b,,c"),
    *("%27%20OR%201=1", "$(id)", "%25s%25n", "http://example.org/", "%E2%80%AE"),
)
_HEADERS = (
    ("Accept", "garbage"),
    ("Accept", "*/*;q=nan, text/x;q=9999999999999"),
    ("Accept", "," * 5000),
    ("Accept-Encoding", "gzip;q=x, \x7f"),
    ("Accept-Language", "x" * 5000),
    ("If-Modified-Since", "the day after tomorrow"),
    ("If-Modified-Since", "Fri, 99 Jan 99999999 99:99:99 GMT"),
    ("Range", "bytes=9-1,-,x"),
    ("Origin", "null\xff"),
    ("Host", "evil.example"),
    ("X-Forwarded-Host", "evil.example"),
    ("Cookie", "=" * 5000),
)
_BODIES = (
    b"",
    b"<",
    b"{",
    b"\x00\xff\xfe",
    b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
    b"<a>" * 20_000,
    b"x" * (1024 * 1024 + 1),
)


def _replaced(path: str) -> Iterator[str]:
    """Yield a request with each segment and each value replaced by each hostile string."""
    path, mark, query = path.partition("?")
    segments = path.split("/")
    for number in range(1, len(segments)):
        for text in STRINGS:
            yield "/".join([*segments[:number], text, *segments[number + 1 :]]) + mark + query
    items = query.split("&") if query else []
    for number, item in enumerate(items):
        name = item.partition("=")[0]
        for text in STRINGS:
            for new in (f"{name}={text}", f"{text}={name}"):
                yield f"{path}?{'&'.join([*items[:number], new, *items[number + 1 :]])}"
        # Without the parameter, and with it twice.
        yield f"{path}?{'&'.join([*items[:number], *items[number + 1 :]])}"
        yield f"{path}?{query}&{item}x"


class HostileTests(ServiceKit):
    level = "hostile"

    def _check(self, answer: Answer) -> None:
        assert answer.status < 500, f"{answer.request}: {answer.status} {answer.body[:200]!r}"
        assert "x-injected" not in answer.headers, answer.request
        assert b"root:" not in answer.body, f"{answer.request} discloses a file"
        if answer.media_type.endswith(("xml", "html")):
            escaped = b"<script>alert" not in answer.body
            assert escaped, f"{answer.request}: the text of the client is not escaped"
        if answer.status >= 400:
            self.check_error(answer)

    def test_strings_in_paths_and_parameters(self, ask: Ask) -> None:
        for path in self.paths:
            for hostile in _replaced(path):
                self._check(ask(hostile))

    def test_queries_of_their_own(self, ask: Ask) -> None:
        for path in dict.fromkeys(path.partition("?")[0] for path in self.paths):
            for text in STRINGS:
                self._check(ask(f"{path}?{text}"))
                self._check(ask(f"{path}?request={text}&f={text}"))
            self._check(ask(f"{path}?{'&'.join(f'p{number}=1' for number in range(3000))}"))

    def test_headers(self, ask: Ask) -> None:
        for path in self.paths:
            for name, text in _HEADERS:
                answer = ask(path, headers={name: text})
                assert answer.status < 500, f"{answer.request}, {name}: {text[:80]!r}"
                evil = b"evil.example" in answer.body
                assert not evil, f"{answer.request}: an address from the header {name}"

    def test_bodies(self, ask: Ask) -> None:
        methods = {"POST", "PUT", "PATCH"} & set(self.service_class.allowed_methods)
        if not methods:
            pytest.skip("not declared: methods with a body")
        for method in sorted(methods):
            for body in _BODIES:
                for kind in ("text/xml", "application/json", "x-www-form-urlencoded", "garbage"):
                    self._check(ask(self.paths[0], method, {"Content-Type": kind}, body))
