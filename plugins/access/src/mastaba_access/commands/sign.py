"""The command ``mastaba sign``: addresses that work for a while, and for a part of the data."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.commands import USAGE, add_server_json, failed, print_json
from mastaba.errors import MastabaError
from mastaba_access.commands.settings import access_section

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

_NAMES: Final = {"layer": "l", "service": "s"}
_NUMBERS: Final = {"bbox": "b", "resolution": "r"}


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "sign",
        help="print signed addresses, which work for a while",
        description="Prints a signed address for each service. What the address allows is limited "
        "by SCOPE: layer=NAME and service=NAME (repeatable; patterns are allowed), "
        "bbox=WEST,SOUTH,EAST,NORTH in degrees, resolution=FROM,TO in metres per pixel.",
    )
    add_server_json(parser)
    parser.add_argument("scope", nargs="*", metavar="SCOPE", help="NAME=VALUE")
    times = parser.add_mutually_exclusive_group(required=True)
    times.add_argument("--for", dest="lasts", metavar="TIME", help="such as 12h or 30d")
    times.add_argument("--until", metavar="DATE", help="last day, or end (RFC 3339)")
    parser.add_argument(
        "--issuer", metavar="ID", help="key or user whose rights the address has, while they last"
    )
    parser.add_argument("--secret", metavar="ID", help="secret that signs (default: the first one)")
    parser.add_argument("--token", action="store_true", help="print only the segment ~s1.…")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from mastaba_access.identifiers.tokens import InvalidScopeError
    from mastaba_access.keystore.errors import InvalidKeyRecordError

    try:
        return _print(arguments, *_signed(arguments))
    except (InvalidScopeError, InvalidKeyRecordError) as error:
        return failed(error, status=USAGE)
    except MastabaError as error:
        return failed(error)


def _signed(arguments: argparse.Namespace) -> tuple[str, float, dict[str, Any]]:
    from mastaba_access.identifiers.secret_file import read_secrets
    from mastaba_access.identifiers.tokens import (
        InvalidScopeError,
        Token,
        require_opening,
        rounded_end,
        sign,
    )
    from mastaba_access.keystore.record import duration_of, seconds_of

    section = access_section(arguments)
    path = section.get("secret_file")
    if not path:
        raise MastabaError(f"{arguments.file}: $.plugins.access.secret_file is missing")
    secrets = read_secrets(path)
    signer = arguments.secret or secrets.first
    if signer not in secrets.by_id:
        raise InvalidScopeError(f"{path} contains no secret {signer!r}")
    now = time.time()
    ends = (
        now + duration_of(arguments.lasts)
        if arguments.lasts
        else seconds_of(arguments.until, end=True)
    )
    if ends <= now:
        raise InvalidScopeError("the address would have ended already")
    ends = rounded_end(ends, section.get("bucket", 900))
    scope = _scope(arguments.scope)
    text = sign(Token(signer, ends, scope, arguments.issuer), secrets)
    if "s" in scope:
        require_opening(scope, arguments.plugins.services)
    return text, ends, scope


def _scope(words: list[str]) -> dict[str, Any]:
    from mastaba_access.identifiers.tokens import InvalidScopeError

    scope: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in _NAMES and value:
            scope.setdefault(_NAMES[name], []).append(value)
        elif name in _NUMBERS and _NUMBERS[name] not in scope:
            try:
                scope[_NUMBERS[name]] = [float(part) for part in value.split(",")]
            except ValueError as error:
                raise InvalidScopeError(f"{word!r}: {name} consists of numbers") from error
        else:
            allowed = "layer=, service=, bbox= (once) and resolution= (once)"
            raise InvalidScopeError(f"{word!r} is not one of {allowed}")
    return scope


def _print(arguments: argparse.Namespace, token: str, ends: float, scope: dict[str, Any]) -> int:
    from mastaba_access.keystore.record import instant

    if arguments.token:
        print(f"~{token}")
        return 0
    addresses = _addresses(arguments.file, f"~{token}", scope.get("s"))
    if arguments.json:
        print_json({"token": token, "until": instant(ends), "addresses": addresses})
    else:
        for address in addresses.values():
            print(address)
    return 0


def _addresses(server_json: str, segment: str, names: list[str] | None) -> dict[str, str]:
    from fnmatch import fnmatchcase

    from mastaba.api.tools import create_application

    services = create_application(server_json).site.services
    return {
        name: f"{service.settings.endpoint_uri}/{segment}"
        for name, service in services.items()
        if service.is_viewed
        and not service.is_fallback
        and (names is None or any(fnmatchcase(name, pattern) for pattern in names))
    }
