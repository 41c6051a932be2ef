"""Plugin for Mastaba that decides who may see what: rules, keys, signed addresses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import LazyClass, hookimpl
from mastaba_access.settings import SETTINGS_SCHEMA

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba.api.access import Gate, Identifier
    from mastaba.api.services import Service, Site

settings_schema = SETTINGS_SCHEMA


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    from mastaba_access.commands import add_commands

    add_commands(subparsers)


@hookimpl
def register_services() -> Iterable[type[Service] | LazyClass]:
    return [LazyClass("mastaba_access.auth.service:AuthService", name="auth")]


@hookimpl
def register_identifiers() -> Iterable[type[Identifier] | LazyClass]:
    places = {
        "keys": "keys:KeyIdentifier",
        "basic": "basic:BasicIdentifier",
        "signed": "signed:SignedIdentifier",
        "session": "signed:SessionIdentifier",
        "front": "fronts:FrontIdentifier",
    }
    return [
        LazyClass(f"mastaba_access.identifiers.{place}", name=name)
        for name, place in places.items()
    ]


@hookimpl
def access_gate(site: Site) -> Gate | None:
    settings = site.plugin_settings.get("access")
    if settings is None:
        return None
    from mastaba_access.gate import RulesGate

    return RulesGate(site, settings)
