"""How many bytes of large documents a process keeps."""

from __future__ import annotations

import gc
import secrets

import pytest

from mastaba_server.web import response
from mastaba_server.web.response import Document


def kept(documents: list[Document]) -> int:
    return sum(len(one._body or b"") for one in documents)


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> int:
    """Set a small budget, from nothing, and return it."""
    monkeypatch.setattr(response, "_unpacked", response._Unpacked())
    monkeypatch.setattr(response, "_MOST_UNPACKED", 1024**2)
    return 1024**2


def text(number: int) -> bytes:
    return f"<Layer>{number}</Layer>".encode() * 8000


def test_documents_that_are_not_used_are_compressed(budget: int) -> None:
    documents = [Document(text(number), "text/xml") for number in range(40)]
    assert 0.8 * budget < kept(documents) <= budget
    assert response._unpacked.size == kept(documents)
    for number, one in enumerate(documents):
        assert one.body == text(number)
    assert kept(documents) <= budget


def test_documents_that_are_used_stay(budget: int) -> None:
    hot = Document(text(0), "text/xml")
    cold = []
    for number in range(1, 40):
        cold.append(Document(text(number), "text/xml"))
        assert hot.body
    assert hot._body is not None
    assert cold[0]._body is None


def test_documents_that_are_gone_and_small_or_binary_ones_do_not_count(budget: int) -> None:
    documents = [Document(text(number), "text/xml") for number in range(3)]
    small = [Document("x" * 999, "text/plain") for _ in range(9)]
    binary = [Document(secrets.token_bytes(budget), "application/x-protobuf") for _ in range(2)]
    assert response._unpacked.size == kept(documents)
    del documents
    gc.collect()
    assert response._unpacked.size == 0
    assert all(one._body for one in (*small, *binary))
