"""``mastaba schema NAME``: the JSON schema of a configuration file."""

from __future__ import annotations

import argparse
import json

from mastaba.config.schema import schema
from mastaba.plugins import Plugins


def run(arguments: argparse.Namespace, plugins: Plugins) -> int:
    """Print the schema, with the settings of every plugin that is installed."""
    print(json.dumps(schema(arguments.name, plugins), indent=2, ensure_ascii=False))
    return 0
