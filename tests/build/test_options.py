"""The command line has the options of configuration files, and says the same about them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import fields
from typing import Any

import pytest

from mastaba_build.commands import build
from mastaba_build.commands.options import given_options
from mastaba_build.config.configuration import Configuration, SourceOptions
from mastaba_build.config.schema import build_schema, source_properties

PROPERTIES = build_schema()["properties"]


@pytest.fixture(scope="module")
def parser() -> ArgumentParser:
    """The parser of ``mastaba build``."""
    main = ArgumentParser()
    build.add_parser(main.add_subparsers())
    return main


def parsed(parser: ArgumentParser, *words: str) -> Namespace:
    return parser.parse_args(["build", *words])


def values_of(key: str, schema: dict[str, Any]) -> tuple[list[str], Any]:
    """Return the words of an option for a key, and what they stand for in a file."""
    flag, _, form = schema.get("x-option", f"--{key.replace('_', '-')}").partition(" ")
    kind = schema.get("type", "string")
    if kind == "boolean":
        return [flag], True
    if kind != "array":
        return [flag, "2"], {"string": "2", "integer": 2, "number": 2.0}[kind]
    pair = "x".join if "x" in form else ",".join
    if "array" in schema["items"]["type"]:
        return [flag, pair(["1", "2"]), flag, pair(["3", "4.5"])], [[1, 2], [3, 4.5]]
    return [flag, pair(["1", "2"])], [1, 2]


@pytest.mark.parametrize("key", [key for key in PROPERTIES if key not in ("sources", "retention")])
def test_each_property_is_an_option(parser: ArgumentParser, key: str) -> None:
    words, value = values_of(key, PROPERTIES[key])
    assert given_options(parsed(parser, *words)) == {key: value}


@pytest.mark.parametrize("key", [key for key in source_properties() if key != "path"])
def test_each_property_of_sources_is_an_option_of_all(parser: ArgumentParser, key: str) -> None:
    words, value = values_of(key, source_properties()[key])
    sources = given_options(parsed(parser, "a", "b", *words))["sources"]
    assert sources == [{"path": "a", key: value}, {"path": "b", key: value}]


def test_options_that_are_not_given_are_left_to_the_file(parser: ArgumentParser) -> None:
    assert given_options(parsed(parser)) == {}


def test_the_help_shows_values_defaults_and_repetition(
    parser: ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(parser, "--help")
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "--decimation average|nn|mode|min|max how pixels of a level become one of the next "
        "coarser level (default: average)",
        "--slab WIDTHxHEIGHT width and height of a slab in tiles (default: 16x16)",
        "--crs CRS CRS of files without one, as EPSG:2154",
        "in one such range have no data; may be repeated",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--slab", "16y16"), "'16y16' is not a list of numbers of the form WIDTHxHEIGHT"),
        (("--nodata", "1,b"), "'1,b' is not a list of numbers of the form VALUE,..."),
        (("--channels", "x"), "argument --channels: invalid int value: 'x'"),
    ],
)
def test_malformed_values_are_reported(
    parser: ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    with pytest.raises(SystemExit):
        parsed(parser, *words)
    assert message in capsys.readouterr().err


def test_the_schema_and_the_classes_agree_about_keys_and_defaults() -> None:
    for kind, properties in ((Configuration, PROPERTIES), (SourceOptions, source_properties())):
        defaults = {field.name: field.default for field in fields(kind)}
        assert properties.keys() == defaults.keys() - {"access"}
        for key, schema in properties.items():
            if "default" in schema:
                default = schema["default"]
                shown = tuple(default) if isinstance(default, list) else default
                assert shown == defaults[key]
