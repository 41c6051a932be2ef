"""Plugin for Mastaba that accepts Bearer tokens of OpenID Connect providers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import LazyClass, hookimpl

if TYPE_CHECKING:
    from mastaba.api.access import Identifier


@hookimpl
def register_identifiers() -> Iterable[type[Identifier] | LazyClass]:
    return [LazyClass("mastaba_access_oidc.identifier:OIDCIdentifier", name="oidc")]
