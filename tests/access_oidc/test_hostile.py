"""Changed tokens: each is refused, and the provider is not asked for keys."""

from __future__ import annotations

import pytest
from tests.access_oidc.conftest import Provider
from tests.support.mutations import mutations

from mastaba.api.access import Form, Shown
from mastaba.errors import AccessError
from mastaba_access_oidc.identifier import OIDCIdentifier


def check(provider: Provider, algorithm: str, count: int) -> None:
    provider.add_key(algorithm, "one")
    settings = {"issuer": provider.issuer, "audience": "mastaba"}
    identifier = OIDCIdentifier(settings, {})
    token = provider.token("one", groups=["a", "b"])
    provider.requests.clear()
    for text in mutations(token, count, seed=32):
        shown = Shown(Form.BEARER, text)
        if identifier.recognises(shown):
            with pytest.raises(AccessError):
                pytest.fail(f"accepted: {identifier.verify(shown, '')} {text}")
    assert identifier.verify(Shown(Form.BEARER, token), "").id == "anna"
    assert provider.requests == []


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_changed_tokens_are_refused(provider: Provider, algorithm: str) -> None:
    check(provider, algorithm, 500)


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", ["RS256", "EdDSA"])
def test_many_changed_tokens_are_refused(provider: Provider, algorithm: str) -> None:
    check(provider, algorithm, 25_000)
