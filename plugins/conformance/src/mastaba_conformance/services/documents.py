"""Levels *documents* and *caching*: what is answered is well-formed, public, and cacheable."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

import pytest

from mastaba_conformance.services.kit import Answer, ServiceKit, check_document

Ask = Callable[..., Answer]

_OTHERS = {
    "Accept": "text/html, application/json;q=0.9",
    "Accept-Language": "fr",
    "Cookie": "language=fr",
    "X-Forwarded-Host": "maps.example",
}
_OF_CACHES = ("cache-control", "content-location", "expires", "vary")
"""Headers of 200 that 304 has too (RFC 9110, 15.4.5), beside ETag."""
_ETAG = re.compile(r'(W/)?"[\x21\x23-\x7e]+"')


class DocumentTests(ServiceKit):
    level = "documents"

    def test_documents_are_well_formed(self, ask: Ask) -> None:
        for path in self.paths:
            check_document(ask(path))

    def test_compressed_documents_are_the_same(self, ask: Ask) -> None:
        for path in self.paths:
            plain, packed = ask(path), ask(path, headers={"Accept-Encoding": "gzip"})
            coding = packed.headers.get("content-encoding")
            if coding == plain.headers.get("content-encoding"):
                assert packed.body == plain.body, packed.request
                continue
            assert coding == "gzip", f"{packed.request}: {coding} is not accepted"
            assert gzip.decompress(packed.body) == plain.body, packed.request
            assert "accept-encoding" in packed.headers.get("vary", "").lower(), packed.request
            etag = packed.headers.get("etag")
            differs = etag is None or etag != plain.headers.get("etag")
            assert differs, f"{packed.request}: the compressed form has the same ETag"

    def test_constant_documents_do_not_depend_on_headers(self, ask: Ask) -> None:
        for path in self.paths:
            ask(path)
            # `ask` compares this answer with what the server keeps of the first one.
            ask(path, headers=_OTHERS)


class CachingTests(ServiceKit):
    level = "caching"

    @pytest.fixture
    def etags(self, ask: Ask) -> dict[str, str]:
        """ETags of the responses, by path."""
        if not self.has_etags:
            pytest.skip("not declared: has_etags is not set")
        found = {path: ask(path).headers.get("etag", "") for path in self.paths}
        assert all(found.values()), f"without ETag: {[path for path in found if not found[path]]}"
        return found

    def test_etags_are_quoted_and_stable(self, ask: Ask, etags: dict[str, str]) -> None:
        for path, etag in etags.items():
            assert _ETAG.fullmatch(etag), f"{path}: {etag} is not in quotes"
            again = ask(path)
            assert again.headers["etag"] == etag, f"{path}: another ETag for the second request"
            assert again.body == ask(path).body, f"{path}: other bytes have the same ETag"

    def test_different_answers_have_different_etags(self, ask: Ask, etags: dict[str, str]) -> None:
        bodies: dict[str, bytes] = {}
        for path, etag in etags.items():
            body = ask(path).body
            assert bodies.setdefault(etag, body) == body, f"{path}: the ETag of another document"

    def test_unmodified_is_304(self, ask: Ask, etags: dict[str, str]) -> None:
        for path, etag in etags.items():
            whole = ask(path).headers
            weak = etag if etag.startswith("W/") else f"W/{etag}"
            for given in (etag, weak, f'"other", {etag}', "*"):
                answer = ask(path, headers={"If-None-Match": given})
                assert answer.status == 304, f"{answer.request}, If-None-Match: {given}"
                assert not answer.body, answer.request
                assert answer.headers.get("etag") == etag, answer.request
                for name in _OF_CACHES:
                    assert answer.headers.get(name) == whole.get(name), f"{answer.request}: {name}"

    def test_other_etags_are_200(self, ask: Ask, etags: dict[str, str]) -> None:
        for path in etags:
            for given in ('"other"', "", "garbage", '"', "W/", f'"{"x" * 9000}"', "é", ",,,"):
                answer = ask(path, headers={"If-None-Match": given})
                assert answer.status == 200, f"{answer.request}, If-None-Match: {given[:40]}"
