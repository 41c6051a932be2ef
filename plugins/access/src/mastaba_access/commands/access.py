"""The command ``mastaba access``: check, explain, matrix, schema."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from mastaba.api.commands import USAGE, add_server_json, failed, print_json
from mastaba.errors import ConfigurationError, MastabaError

if TYPE_CHECKING:
    import argparse

    from mastaba.api.services import Site
    from mastaba_access.gate import RulesGate
    from mastaba_access.rules.who import Visit


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("access", help="check and explain the rules of access")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="report mistakes in the rules")
    add_server_json(check)
    check.set_defaults(run=_check)
    explain = commands.add_parser("explain", help="say which rules decide about an address")
    add_server_json(explain)
    explain.add_argument("url", metavar="URL", help="address of a request, or its path and query")
    _add_visit(explain)
    explain.add_argument("--json", action="store_true", help="print JSON")
    explain.set_defaults(run=_explain)
    matrix = commands.add_parser("matrix", help="print who may do what as CSV")
    add_server_json(matrix)
    _add_visit(matrix)
    matrix.set_defaults(run=_matrix)
    schema = commands.add_parser("schema", help="print the JSON Schema of the file of rules")
    schema.set_defaults(run=_schema)


def _add_visit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as",
        dest="principal",
        default="anonymous",
        metavar="WHO",
        help="anonymous (the default), a key or its id, a signed address's token, or user:NAME",
    )
    parser.add_argument(
        "--group", action="append", default=[], metavar="NAME", help="group of user:NAME"
    )
    parser.add_argument("--from", dest="address", default="", help="address of the client")
    parser.add_argument("--referer", default="", help="page that asks")
    parser.add_argument("--at", metavar="TIME", help="such as 2026-12-01T08:00:00Z; now by default")


def _opened(file: str) -> tuple[Site, RulesGate]:
    from mastaba.api.tools import create_application
    from mastaba_access.gate import RulesGate

    site = create_application(file).site
    if not isinstance(site.gate, RulesGate):
        raise MastabaError(f"{file}: there is no section plugins.access: everything is public")
    return site, site.gate


def _check(arguments: argparse.Namespace) -> int:
    from mastaba_access.checks import findings

    try:
        site, gate = _opened(arguments.file)
    except ConfigurationError as error:
        for fault in error.faults:
            print(fault)
        return 1
    except MastabaError as error:
        return failed(error)
    found = findings(gate, site)
    for fault in found:
        print(fault)
    errors = sum(fault.severity == "error" for fault in found)
    print(f"{errors} errors, {len(found) - errors} warnings, {len(gate.rules.now.rules)} rules")
    return 1 if errors else 0


def _of_visit(
    run: Callable[[argparse.Namespace, Site, RulesGate, Visit, float], int],
) -> Callable[[argparse.Namespace], int]:
    """Return a command about a client at a moment; what it names may be wrong."""

    @wraps(run)
    def command(arguments: argparse.Namespace) -> int:
        from mastaba_access.explanation import principal_named
        from mastaba_access.rules.periods import moment
        from mastaba_access.rules.who import Visit

        try:
            site, gate = _opened(arguments.file)
            at = time.time() if arguments.at is None else moment(arguments.at)
            principal = principal_named(
                gate, arguments.principal, arguments.group, arguments.address
            )
            visit = Visit(principal, arguments.address, arguments.referer)
        except ValueError as error:
            return failed(f"--at {arguments.at!r} {error}", status=USAGE)
        except MastabaError as error:
            return failed(error)
        return run(arguments, site, gate, visit, at)

    return command


@_of_visit
def _explain(
    arguments: argparse.Namespace, site: Site, gate: RulesGate, visit: Visit, at: float
) -> int:
    from mastaba_access.explanation import explained

    try:
        document = explained(gate, site, arguments.url, visit, at)
    except MastabaError as error:
        return failed(error)
    if document is None:
        return failed("no service answers this address")
    if arguments.json:
        print_json(document)
    else:
        _print(document)
    return 0


def _print(document: dict[str, Any]) -> None:
    who = document["principal"]
    print(f"principal: {who['id']}" + (f" ({who['kind']})" if who["kind"] != who["id"] else ""))
    print(f"class: {document['class']}; caches: {document['cache']}")
    virtual = f"@{document['virtual']}" if document["virtual"] else ""
    print(f"service: {document['service']}{virtual}")
    if not document["layers"]:
        print("the address names no published layer")
    for one in document["decisions"]:
        subject = f"{one['layer']} {one['ability']}".strip()
        print(f"{subject}: {one['decision']} (by {one['decided_by']})")
        for key, value in one["limits"].items():
            print(f"    limit {key}: {value}")
        for rule in one["tried"]:
            state = "yes" if rule["applies"] else f"no, {rule['reason']}"
            print(f"    {rule['effect']} {rule['rule']!r}: {state}")
    for rate in document["rates"]:
        words = ", ".join(dict.fromkeys(rate["abilities"]))
        held = [f"{rate['rate']:g} a second, burst {rate['burst']:g}"] if "rate" in rate else []
        held += [f"{cost} a {period}" for period, cost in rate.get("quota", {}).items()]
        print(f"rate {rate['name']!r} ({words}), per {rate['per']}: {'; '.join(held)}")


@_of_visit
def _matrix(
    _arguments: argparse.Namespace, site: Site, gate: RulesGate, visit: Visit, at: float
) -> int:
    from mastaba_access.explanation import matrix

    names = ("layer", "service", "ability", "decision", "limits")
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(matrix(gate, visit, at, site))
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    from mastaba_access.rules.schema import ACCESS_SCHEMA

    print_json(ACCESS_SCHEMA)
    return 0
