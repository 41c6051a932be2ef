"""The JSON schema of configuration files, from which the command line is made too.

In addition to the keywords of JSON Schema, a property may have:

* ``x-option``: its option and the placeholder of the value, as ``--tms SET``; by default the
  option has the name of the property.
* ``x-pixels``: false if no pixel depends on it.
* ``x-negation``: true if there is also an option ``--no-...``.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def build_schema() -> dict[str, Any]:
    """Return the JSON schema of configuration files, which must not be changed."""
    text = files("mastaba_build.config").joinpath("schemas", "build.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def source_properties() -> dict[str, Any]:
    """Return the properties of an entry of ``sources`` that is an object."""
    found: dict[str, Any] = build_schema()["properties"]["sources"]["items"]["properties"]
    return found
