"""The fast check of documents must never pass what jsonschema refuses."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mastaba.config.faults import Faults
from mastaba.config.quick_check import compile_check
from mastaba.config.schema import SCHEMA_NAMES, SchemaValidator, schema
from mastaba.plugins import Plugins

FILES = {
    "server": "server.json",
    "services": "services.json",
    "layer": "layers/L.json",
    "pyramid": "pyramids/P.json",
    "tile_matrix_set": "tilematrixsets/PM.json",
    "style": "styles/ember.json",
}
# What is put in place of each value of a document in turn.
INTRUDERS: list[Any] = [
    None, True, False, 0, 1, -1, 2.0, 2.5, 1e300, 300, "", "x", "a<b", "\n", [], ["x"], [1], {},
    {"x": 1},
]  # fmt: skip


def places_in(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places_in(value, (*path, key))
    elif isinstance(document, list):
        # A second element is like the first one.
        for position, value in enumerate(document[:1]):
            yield from places_in(value, (*path, position))


def mutants_of(document: Any) -> Iterator[Any]:
    """Give the document with each value replaced, left out, and with a key added."""
    for path in places_in(document):
        for intruder in INTRUDERS:
            mutant = {"$": copy.deepcopy(document)}
            node: Any = mutant
            for step in ("$", *path[:-1]) if path else ():
                node = node[step]
            node[path[-1] if path else "$"] = intruder
            yield mutant["$"]
        for change in ("leave out", "add"):
            mutant = {"$": copy.deepcopy(document)}
            node = mutant
            for step in ("$", *path[:-1]) if path else ():
                node = node[step]
            if change == "leave out" and path:
                del node[path[-1]]
            elif isinstance(node, dict):
                node["surplus"] = 1
            yield mutant["$"]


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_fast_check_agrees_with_jsonschema_on_every_mutant(
    name: str, installation: Any, sample_plugins: Plugins
) -> None:
    validator = SchemaValidator(name, sample_plugins)
    is_valid = compile_check(schema(name, sample_plugins))
    assert is_valid is not None
    outcomes = set()

    for mutant in mutants_of(installation.documents[FILES[name]]):
        slow = not list(validator._validator.iter_errors(mutant))
        assert is_valid(mutant) == slow, json.dumps(mutant)
        outcomes.add(slow)
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    "surplus",
    [
        {"anyOf": [{"type": "string"}]},
        {"enum": [1, 2]},
        {"const": True},
        {"type": "null"},
        {"additionalProperties": {"type": "string"}},
        {"properties": {"a": {"format": "uri"}}},
        {"items": {"$ref": "#"}},
        {"multipleOf": 2},
    ],
)
def test_schema_with_a_keyword_that_is_not_understood_is_left_to_jsonschema(surplus: Any) -> None:
    Draft202012Validator.check_schema(surplus)
    assert compile_check(surplus) is None


def test_valid_document_is_given_back_unchanged(installation: Any, sample_plugins: Plugins) -> None:
    document = installation.documents["layers/L.json"]
    faults = Faults()
    assert SchemaValidator("layer", sample_plugins).validate(document, "f", faults) is document
    assert faults.all == ()
