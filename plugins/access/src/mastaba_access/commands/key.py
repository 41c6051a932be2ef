"""The command ``mastaba key``: creates, lists, rotates and revokes API keys."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mastaba.api.commands import USAGE, add_server_json, failed, print_json
from mastaba.errors import MastabaError, escaped
from mastaba_access.commands.settings import access_section

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba_access.keystore.base import KeyStore
    from mastaba_access.keystore.record import KeyRecord


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "key",
        help="create, list, rotate and revoke API keys",
        description="Manages the API keys of plugins.access.keys in server.json. Running servers "
        "notice each change within two seconds.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = _action(actions, "create", "create a key and print it, once", _create)
    create.add_argument("--label", required=True, metavar="TEXT", help="name for people")
    create.add_argument("--owner", default="", metavar="TEXT", help="person or organisation")
    _add_lists(create)
    create.add_argument("--from", dest="starts", metavar="DATE", help="first day or time")
    create.add_argument("--until", dest="ends", metavar="DATE", help="last day, or end")
    create.add_argument("--rate", type=float, metavar="N", help="cost per second it may cause")
    create.add_argument("--area", metavar="NAME", help="area of the rules it is limited to")
    _action(actions, "list", "list all keys", _list)
    _with_id(_action(actions, "show", "show what is known about a key", _show))
    rotate = _with_id(
        _action(actions, "rotate", "give a key another secret, and print it", _rotate)
    )
    rotate.add_argument(
        "--overlap",
        default="0s",
        metavar="TIME",
        help="how long the old secret is still accepted, such as 30d or 12h (default: not at all)",
    )
    _with_id(_action(actions, "revoke", "refuse a key from now on", _revoke))
    add_keys = _action(actions, "import", "add keys from a JSON or YAML file", _import)
    add_keys.add_argument("source", metavar="FILE", help='file with {"keys": [...]}')
    add_keys.add_argument("--replace", action="store_true", help="replace keys that exist")


def _action(actions: Any, name: str, text: str, run: Any) -> ArgumentParser:
    parser: ArgumentParser = actions.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    add_server_json(parser)
    parser.add_argument("--store", metavar="PATH", help="store, instead of that of server.json")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=lambda arguments: _reported(run, arguments))
    return parser


def _with_id(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("id", metavar="ID", help="id of a key: the characters after mk_")
    return parser


def _add_lists(parser: ArgumentParser) -> None:
    for name, what in (
        ("group", "group for the rules"),
        ("address", "network (CIDR) from which it is accepted"),
        ("referer", "host pattern of the pages from which it is accepted"),
        ("layer", "layer that it may see beside the rules"),
        ("service", "service in which it may see them"),
    ):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar=name.upper(),
            help=f"{what}; repeatable",
        )


def _reported(run: Any, arguments: argparse.Namespace) -> int:
    from mastaba_access.keystore.errors import InvalidKeyRecordError

    try:
        status: int = run(arguments)
    except InvalidKeyRecordError as error:
        return failed(error, status=USAGE)
    except MastabaError as error:
        return failed(error)
    return status


def _create(arguments: argparse.Namespace) -> int:
    from mastaba_access.keystore.management import create_key

    members: dict[str, Any] = {"label": arguments.label, "owner": arguments.owner}
    members |= {"groups": arguments.group, "addresses": arguments.address}
    members |= {"referers": arguments.referer, "from": arguments.starts, "until": arguments.ends}
    members["rate"] = arguments.rate
    own = {"layers": arguments.layer, "services": arguments.service, "area": arguments.area}
    members |= {name: value for name, value in own.items() if value}
    return _print_key(*create_key(_opened(arguments, create=True), members), arguments)


def _rotate(arguments: argparse.Namespace) -> int:
    from mastaba_access.keystore.management import rotate_key

    return _print_key(*rotate_key(_opened(arguments), arguments.id, arguments.overlap), arguments)


def _revoke(arguments: argparse.Namespace) -> int:
    from mastaba_access.keystore.management import revoke_key

    record = revoke_key(_opened(arguments), arguments.id)
    if arguments.json:
        print_json(record.document())
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from mastaba_access.keystore.management import described

    store = _opened(arguments)
    uses = store.last_uses()
    shown = [described(record, uses) for record in store.records()]
    if arguments.json:
        print_json(shown)
        return 0
    rows = [("ID", "STATE", "LABEL", "GROUPS", "UNTIL", "LAST USE")]
    rows += [
        (
            one["id"],
            one["state"],
            escaped(one.get("label", "")),
            escaped(",".join(one.get("groups", ()))),
            one.get("until", "-"),
            one.get("last_use", "-" if uses is not None else "unknown"),
        )
        for one in shown
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from mastaba_access.keystore.management import described, found_key

    store = _opened(arguments)
    shown = described(found_key(store, arguments.id), store.last_uses())
    if arguments.json:
        print_json(shown)
        return 0
    for name, value in shown.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        print(f"{name}: {escaped(text)}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from mastaba_access.keystore.documents import keys_in
    from mastaba_access.keystore.errors import KeyStoreError

    records = list(keys_in(arguments.source).values())
    store = _opened(arguments, create=True)
    with store.changing():
        present = [record.id for record in records if store.find(record.id) is not None]
        if present and not arguments.replace:
            names = ", ".join(present[:5])
            raise KeyStoreError(f"{len(present)} keys exist already ({names}); add --replace")
        store.save(records, "imported")
    if arguments.json:
        print_json([record.document() for record in records])
    else:
        print(f"{len(records)} keys imported")
    return 0


def _opened(arguments: argparse.Namespace, *, create: bool = False) -> KeyStore:
    from mastaba_access.keystore.errors import KeyStoreError
    from mastaba_access.keystore.opening import open_keys

    path = arguments.store
    if path is None:
        path = access_section(arguments).get("keys")
        if not path:
            raise KeyStoreError(f"{arguments.file}: $.plugins.access.keys is missing")
    return open_keys(path, create=create)


def _print_key(key: str, record: KeyRecord, arguments: argparse.Namespace) -> int:
    """Print a key on standard output alone: this is the only time that it is shown."""
    if arguments.json:
        print_json({"key": key, **record.document()})
    else:
        print(key)
    return 0
