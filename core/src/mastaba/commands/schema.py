"""``mastaba schema NAME``: the JSON schema of a configuration file."""

from __future__ import annotations

import argparse

from mastaba.commands.output import print_json
from mastaba.config.schema import schema


def run(arguments: argparse.Namespace) -> int:
    """Print the schema, with the settings of every plugin that is installed."""
    print_json(schema(arguments.name, arguments.plugins))
    return 0
