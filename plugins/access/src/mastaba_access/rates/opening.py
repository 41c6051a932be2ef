"""Opening what rates and quotas are counted in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mastaba_access.identifiers.faults import refuse
from mastaba_access.rates.nodes import SharedQuotas
from mastaba_access.rates.quotas import Quotas
from mastaba_access.rates.store import Store
from mastaba_access.rules.ruleset import RuleSet


def opened_store(access: Mapping[str, Any]) -> Store | None:
    """Return the store that several nodes share, if there is one.

    Raises:
        ConfigurationError: it cannot be used.
    """
    settings = access.get("store", {})
    if settings and "url" not in settings:
        refuse("store.url", "is missing", "name the server, or remove the section")
    try:
        return Store.of(settings)
    except ValueError as error:
        refuse("store", f"cannot be used: {error}", "correct the address, or remove the section")


def opened_quotas(
    settings: Mapping[str, Mapping[str, Any]], rules: RuleSet, store: Store | None
) -> Quotas | None:
    """Return the database of quotas, if one is named or needed.

    Raises:
        ConfigurationError: it is needed and not named, or cannot be used.
    """
    path = settings["access"].get("quotas")
    needed = any(rate.quotas for rate in rules.rates)
    usage = settings.get("usage", {}).get("directory")
    if path is None and needed and usage:
        path = os.path.join(usage, "quotas.sqlite")
    if path is None and needed and store is None:
        refuse("quotas", "is missing, but rates have quotas", "name a file on a local disk")
    try:
        if path is not None:
            os.makedirs(os.path.dirname(path) or ".", mode=0o750, exist_ok=True)
        if store is not None and needed:
            return SharedQuotas(store, path)
        return None if path is None else Quotas(path)
    except OSError as error:
        refuse("quotas", f"cannot be used: {error.strerror or error}", "correct the path")
