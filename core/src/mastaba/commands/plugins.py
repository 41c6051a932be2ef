"""``mastaba plugins``: list the plugins and what they provide."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
from contextlib import suppress

from mastaba.commands.output import print_json
from mastaba.errors import escaped
from mastaba.plugins.manager import PluginInfo, Plugins


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("plugins", help="list what is installed")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.add_argument("--check", action="store_true", help="also import and check all classes")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the plugins and their problems; return 0 if all can be used, else 1."""
    plugins: Plugins = arguments.plugins
    infos = plugins.listing()
    unusable = _check(plugins) if arguments.check else []
    listed = {info.error for info in infos}
    problems = [problem for problem in plugins.problems if problem not in listed] + unusable
    if arguments.json:
        rows = [{"status": _status(info), **dataclasses.asdict(info)} for info in infos]
        print_json({"plugins": rows, "problems": problems})
    else:
        _print_table(infos)
        for name, lacks in plugins.containers.declared("cannot").items():
            if lacks:  # None before the class is imported
                print(f"the container {name} cannot: {', '.join(sorted(lacks))}")
        for problem in problems:
            print(f"error: {escaped(problem)}")
        for info in infos:
            for warning in info.warnings:
                print(f"warning: the plugin {info.name!r} {warning}")
    return 1 if plugins.problems or unusable else 0


def _check(plugins: Plugins) -> list[str]:
    # The kit is for authors, and no part of a server.
    with suppress(ModuleNotFoundError):
        rules = importlib.import_module("mastaba_conformance.plugin_rules")
        return plugins.load_all(rules.broken_rules)
    print("install mastaba-conformance to check the attributes of classes too", file=sys.stderr)
    return plugins.load_all()


def _print_table(infos: list[PluginInfo]) -> None:
    rows = [("PLUGIN", "DISTRIBUTION", "VERSION", "PROVIDES")]
    for info in infos:
        provides = escaped(", ".join(info.provides)) or "nothing"
        if info.error:
            provides = f"BROKEN: {info.error}"
        elif info.blocked:
            provides = "blocked"
        rows.append((info.name, info.distribution, info.version or "-", provides))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        # Invalid names may contain control characters.
        cells = [escaped(cell).ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[3]]))


def _status(info: PluginInfo) -> str:
    if info.error:
        return "broken"
    return "blocked" if info.blocked else "ok"
