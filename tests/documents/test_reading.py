"""Documents in JSON and YAML that cannot be used, and what is the same in both."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from mastaba_documents import reading
from mastaba_documents.faults import Faults
from mastaba_documents.reading import parse_document


@pytest.mark.parametrize("digits", [400, 5000])
def test_an_integer_of_many_digits_is_reported_at_its_place(digits: int) -> None:
    faults = Faults()
    assert parse_document(f'{{"a": [1, -{"9" * digits}]}}', "a.json", faults) is None
    (fault,) = faults.all
    assert (fault.path, fault.reason) == ("$.a[1]", "is too large, or not a number")


def test_integers_of_a_list_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    monkeypatch.setattr(reading, "_is_clean", lambda value: looks.append(value))
    faults = Faults()
    parsed = parse_document('{"a": [1, 2, 3, 4], "b": [true, 1], "c": 0.5}', "a.json", faults)
    assert parsed == {"a": [1, 2, 3, 4], "b": [True, 1], "c": 0.5}
    assert not {2, 3, 4} & {look for look in looks if isinstance(look, int)}


def test_values_of_one_depth_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast look at documents of usual values never decides otherwise than the other one."""
    chance = random.Random(3)
    rare = ["\ud800", "\u00e9", 2**62, -(2**62), 10**400, 0.5, float("inf"), None]

    def value(depth: int) -> Any:
        kind = chance.random()
        if kind < 0.02:
            return chance.choice(rare)
        if depth and kind < 0.5:
            return [value(depth - 1) for _ in range(chance.randrange(4))]
        if depth and kind < 0.9:
            return {f"k{number}": value(depth - 1) for number in range(chance.randrange(4))}
        return chance.choice(["text", 7, True, ""])

    texts = [json.dumps(value(5)) for _ in range(300)]
    texts += ["[" * depth + "1" + "]" * depth for depth in (63, 64, 65)]
    calls: list[int] = []
    clean = reading._cleaned

    def counted(value: Any, path: str, depth: int, done: dict[int, Any]) -> Any:
        calls.append(depth)
        return clean(value, path, depth, done)

    monkeypatch.setattr(reading, "_cleaned", counted)

    def found() -> list[tuple[Any, list[str]]]:
        answers = []
        for text in texts:
            faults = Faults()
            document = parse_document(text, "a.json", faults)
            answers.append((document, [f"{one.path} {one.reason}" for one in faults.all]))
        return answers

    fast = found()
    assert 0 < calls.count(0) < len(texts)
    monkeypatch.setattr(reading, "_is_all_clean", lambda _: False)
    assert found() == fast
    assert any(reasons for _, reasons in fast)


def test_an_integer_of_many_digits_in_yaml_is_reported_without_advice_for_programs() -> None:
    faults = Faults()
    assert parse_document(f"a: {'9' * 5000}", "a.yaml", faults) is None
    (fault,) = faults.all
    assert "5000 digits" in fault.reason
    assert "sys." not in fault.reason


@pytest.mark.parametrize(
    ("text", "kind"),
    [("2020-09-09", "date"), ("2020-09-09 10:00:00", "datetime"), ("!!binary aGk=", "bytes")],
)
def test_a_value_that_only_yaml_has_is_reported(text: str, kind: str) -> None:
    faults = Faults()
    assert parse_document(f"port: {text}", "server.yaml", faults) is None
    (fault,) = faults.all
    assert (fault.path, fault.reason) == ("$.port", f"is a {kind}, which JSON does not have")


UNREADABLE_YAML = {
    "tab": "a:\n\t- b",
    "unclosed": "a: [1, 2",
    "two documents": "a: 1\n---\nb: 2",
    "python object": "a: !!python/object/apply:os.system ['true']",
    "unknown tag": "a: !secret x",
    "undefined alias": "a: *b",
    "recursive": "a: &a [*a]",
    "recursive mapping": "a: &a {b: *a}",
    "doubly recursive": "a: &a [*a, *a]",
    "nothing": "",
    "only a comment": "# nothing",
    "no boolean": "a: !!bool perhaps",
    "no number": "a: !!int x",
    "no time": "a: !!timestamp x",
    "no date": "a: 2020-13-45",
    "not a number": "a: .nan",
    "infinity": "a: -.inf",
    "list as key": "? [1, 2]\n: x",
    "control character": "a: \x01",
    "deep": "[" * 3000 + "]" * 3000,
}


@pytest.mark.parametrize("text", UNREADABLE_YAML.values(), ids=UNREADABLE_YAML.keys())
def test_unreadable_yaml_is_one_error(text: str) -> None:
    faults = Faults()

    assert parse_document(text, "a.yaml", faults) is None
    assert len(faults.errors) == 1
    assert faults.errors[0].remedy


def test_yaml_that_names_a_list_several_times_is_read_without_copies() -> None:
    faults = Faults()
    document = parse_document(
        "a: &a [x, y]\nb: [*a, *a]\nc: {<<: &m {d: 1}, e: 2}", "a.yaml", faults
    )
    assert faults.all == ()
    assert document == {"a": ["x", "y"], "b": [["x", "y"]] * 2, "c": {"d": 1, "e": 2}}
    assert document["b"][0] is document["b"][1]


def growing(first: str, each: str, levels: int) -> str:
    """Return YAML in which each line names the line before."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} {each.replace('*', f'*a{n - 1}')}" for n in range(1, levels)]
    return "\n".join(lines)


TOO_LARGE = {
    "lists": (growing("[x, x, x]", "[*, *, *, *, *, *, *, *, *, *]", 9), "by its aliases"),
    "objects": (growing("{a: 1}", "{a: *, b: *, c: *, d: *, e: *, f: *}", 9), "by its aliases"),
    "merged objects": (growing("{a: 1}", "{<<: [*, *, *, *, *, *, *, *, *]}", 9), "by its aliases"),
    "characters": (f"a: &a {'x' * 5000}\nb: [{', '.join(['*a'] * 5000)}]", "by its aliases"),
    "depth": (growing("[x]", "[" * 30 + "*" + "]" * 30, 50), "nested deeper than 64 levels"),
    "values": ("[" + "a," * 1_000_001 + "]", "has more than 1,000,000 values"),
    "number": (f"a: {':1' * 6000}".replace(" :", " "), "contains a number that is too large"),
}


BY_ALIASES = {name: text for name, (text, reason) in TOO_LARGE.items() if "aliases" in reason}
"""Those that would have hundreds of millions of values."""
MOST_MEMORY = 128 * 1024**2
"""Memory in which such a document is refused, bytes."""


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(("text", "reason"), TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_yaml_that_would_fill_the_memory_is_refused(text: str, reason: str) -> None:
    faults = Faults()
    assert parse_document(text, "layers/a.yaml", faults) is None
    (fault,) = faults.all
    assert fault.file == "layers/a.yaml"
    assert reason in fault.reason


@pytest.mark.parametrize("text", ["[" + "[]," * 600_000 + "[]]", "[" + "1," * 1_000_000 + "1]"])
def test_json_that_would_fill_the_memory_is_refused(text: str) -> None:
    faults = Faults()
    assert parse_document(text, "a.json", faults) is None
    (fault,) = faults.all
    assert (fault.file, fault.reason) == ("a.json", "has more than 1,000,000 values")


def test_large_yaml_is_refused() -> None:
    faults = Faults()
    assert parse_document("# " + "x" * 8 * 1024**2, "a.yml", faults) is None
    assert "larger than 8 MiB" in faults.all[0].reason


def test_null_counts_as_absent_at_every_depth() -> None:
    text = '{"a": null, "b": {"c": null, "d": [{"e": null, "f": 1}]}}'
    assert parse_document(text, "a.json", Faults()) == {"b": {"d": [{"f": 1}]}}


def test_keys_of_yaml_become_texts() -> None:
    assert parse_document("2154: x\ntrue: y", "a.yaml", Faults()) == {"2154": "x", "True": "y"}


def test_error_in_a_value_names_its_path() -> None:
    faults = Faults()
    parse_document('{"a": [{"b": 1e999}]}', "a.json", faults)
    assert [fault.path for fault in faults.all] == ["$.a[0].b"]


def test_syntax_error_names_line_and_column() -> None:
    for name, text in [("a.json", '{\n "a": x}'), ("a.yaml", "a: 1\nb: [}")]:
        faults = Faults()
        parse_document(text, name, faults)
        assert "line 2, column" in faults.all[0].reason
