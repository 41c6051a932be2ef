"""Validation, compared with the reference implementation of JSON Schema."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from mastaba import LazyClass, hookimpl
from mastaba.config.schema import SCHEMA_NAMES, SchemaValidator, schema
from mastaba.plugins.manager import Plugins
from mastaba_documents.faults import Faults

FILES = {
    "server": "server.json",
    "services": "services.json",
    "layer": "layers/L.json",
    "pyramid": "pyramids/P.json",
    "tile_matrix_set": "tilematrixsets/PM.json",
    "style": "styles/ember.json",
}
# Replaces each value of a document in turn.
INTRUDERS: list[Any] = [
    None, True, False, 0, 1, -1, 2.0, 2.5, 1e300, 300, "", "x", "a<b", "\n", "x\n", "\x7f", [],
    ["x"], [1], {}, {"x": 1},
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


def pattern(_: object, value: str, instance: object, __: object) -> Iterator[ValidationError]:
    # In JSON Schema, $ matches only the end. In Python, it also matches before a final line feed.
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", value), instance):
        yield ValidationError("pattern")


Reference = extend(Draft202012Validator, {"pattern": pattern})


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_validation_agrees_with_the_reference_on_every_mutant(
    name: str, installation: Any, sample_plugins: Plugins
) -> None:
    validator = SchemaValidator(name, sample_plugins)
    reference = Reference(validator._schema)
    outcomes = set()

    for mutant in mutants_of(installation.documents[FILES[name]]):
        text, is_valid, faults = json.dumps(mutant), reference.is_valid(mutant), Faults()
        validator.validate(mutant, "f", faults)
        assert (not faults.all) == is_valid, text
        outcomes.add(is_valid)
    assert outcomes == {True, False}


def test_valid_document_is_given_back_unchanged(installation: Any, sample_plugins: Plugins) -> None:
    document = installation.documents["layers/L.json"]
    faults = Faults()
    assert SchemaValidator("layer", sample_plugins).validate(document, "f", faults) is document
    assert faults.all == ()


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("prot", "did you mean 'port'?"),
        ("Worker", "did you mean 'workers'?"),
        ("LOGGER", "did you mean 'logger'?"),
        ("zzzzzz", "remove it, or correct its spelling"),
    ],
)
def test_a_similar_key_is_proposed_for_an_unknown_one(
    key: str, remedy: str, installation: Any, sample_plugins: Plugins
) -> None:
    document = {**installation.documents["server.json"], key: 1}
    faults = Faults()
    assert SchemaValidator("server", sample_plugins).validate(document, "f", faults) is not None
    assert [(fault.path, fault.remedy) for fault in faults.all] == [(f"$.{key}", remedy)]


def test_of_very_many_unknown_keys_the_first_are_compared_with_known_ones(
    installation: Any, sample_plugins: Plugins
) -> None:
    unknown = {f"workers{number}": 1 for number in range(300)}
    document = {**installation.documents["server.json"], **unknown}
    faults = Faults()
    assert SchemaValidator("server", sample_plugins).validate(document, "f", faults) is not None
    assert len(faults.all) == len(unknown)
    assert sum(fault.remedy == "did you mean 'workers'?" for fault in faults.all) == 100
    assert faults.all[-1].remedy == "remove it, or correct its spelling"


def test_a_plugin_may_allow_null(
    installation: Any, sample_plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    (service,) = {type for name, type in sample_plugins.services.items() if name == "wmts"}
    monkeypatch.setattr(
        service, "settings_schema", {"depth": {"type": ["integer", "null"], "description": "d"}}
    )
    document = installation.documents["services.json"]
    document["wmts"] = {**document.get("wmts", {}), "depth": "x"}
    faults = Faults()
    assert SchemaValidator("services", sample_plugins).validate(document, "f", faults) is None
    (fault,) = faults.errors
    assert "must be null or an integer" in str(fault)


def test_storage_drivers_are_not_imported_for_the_name_of_their_container() -> None:
    class Plugin:
        @hookimpl
        def register_storages(self) -> list[LazyClass]:
            return [LazyClass("not_installed:Shelf", name="shelf", container_field="shelf_name")]

    plugins = Plugins(extra={"shelf": Plugin()}, autoload=False)
    levels = schema("pyramid", plugins)["properties"]["levels"]
    assert "shelf_name" in levels["items"]["properties"]["storage"]["properties"]
