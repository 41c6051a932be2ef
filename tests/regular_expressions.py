"""Finds the regular expressions of the project, and those that backtrack too much.

The standard library's matcher is repeated here over its own parse tree, and counts its steps
instead of the time. Texts are generated from the parts of an expression and repeated: where
twice the text takes far more than twice the steps, the expression is super-linear.
"""

from __future__ import annotations

import ast
import importlib
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from tests.sources import parsed, walked

_METHODS: Final = frozenset(
    ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
)
_FLAGS_ARGUMENT: Final = {"compile": 1, "split": 3, "sub": 4, "subn": 4} | dict.fromkeys(
    ("match", "fullmatch", "search", "findall", "finditer"), 2
)
_CHARACTERS: Final = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
_REPETITIONS: Final = 10
_MOST_STEPS: Final = 60_000
_GROWTH: Final = 2.7
"""Times as many steps for twice the text: 2 when linear, 4 when quadratic."""
_SAMPLES: Final = 5
_MORE: Final = 2
"""Repetitions beyond the smallest number that samples take."""


@dataclass(frozen=True, slots=True)
class Expression:
    """One regular expression, and whether it is tried at every position of a text."""

    place: str
    pattern: str | bytes
    flags: int
    is_searched: bool


def expressions(root: Path) -> list[Expression]:
    """Return the regular expressions of all sources and JSON schemas below the repository."""
    found: list[Expression] = []
    folders = [
        root / "core/src",
        *sorted(root.glob("libs/*/src")),
        *sorted(root.glob("plugins/*/src")),
    ]
    for folder in (*folders, root / "scripts", root / "benchmarks", root / "docs"):
        for file in sorted(folder.rglob("*.py")):
            name = ".".join(file.relative_to(folder).with_suffix("").parts)
            module = name if folder.name == "src" else None
            found += _of_module(file, str(file.relative_to(root)), module)
        for file in sorted(folder.rglob("*.json")):
            document = json.loads(file.read_text("utf-8"))
            found += [
                Expression(str(file.relative_to(root)), pattern, 0, is_searched=True)
                for pattern in _patterns(document)
            ]
    return found


def _patterns(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        if isinstance(document.get("pattern"), str):
            yield document["pattern"]
        document = list(document.values())
    if isinstance(document, list):
        for value in document:
            yield from _patterns(value)


def _of_module(file: Path, place: str, module: str | None) -> Iterator[Expression]:
    source = file.read_text("utf-8")
    if "import re\n" not in source and '"pattern"' not in source:
        return
    tree = parsed(file)
    nodes = walked(tree)
    methods: dict[str, set[str]] = {}
    for node in nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.attr in _METHODS
        ):
            methods.setdefault(node.value.id, set()).add(node.attr)
    names = {
        id(node.value): target.id
        for node in nodes
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        at = f"{place}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "pattern":
                    pattern = _value(value, module)
                    if isinstance(pattern, str):
                        yield Expression(at, pattern, 0, is_searched=True)
            continue
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in (*_METHODS, "compile")
        ):
            continue
        if node.func.attr == "compile":
            used = methods.get(names.get(id(node), ""), {"search"})
        else:
            used = {node.func.attr}
        if _is_computed(node):
            continue
        position = _FLAGS_ARGUMENT[node.func.attr]
        given = [word.value for word in node.keywords if word.arg == "flags"]
        given += node.args[position : position + 1]
        flags = int(_value(given[0], module)) if given else 0
        is_searched = not used <= {"match", "fullmatch"}
        yield Expression(at, _value(node.args[0], module), flags, is_searched)


def _is_computed(call: ast.Call) -> bool:
    """Tell whether a call returns the pattern.

    It is that of a JSON schema, which is found in the schema itself, or an option of the operator.
    """
    return isinstance(call.args[0], ast.Call)


def _value(node: ast.expr, module: str | None) -> Any:
    """Return the value of a constant expression, which may use names of its module."""
    known = vars(importlib.import_module(module)) if module else {}
    code = compile(ast.Expression(node), "<pattern>", "eval")
    return eval(code, {"re": re, **known})


def super_linear(expression: Expression, repetitions: int = _REPETITIONS) -> str | None:
    """Return a text that, repeated, makes the matcher take too many steps; None if none does.

    Args:
        expression: what is examined.
        repetitions: of each text; their number is doubled for the comparison.
    """
    tree = _parser.parse(expression.pattern, expression.flags)
    matcher = _Matcher(expression.flags | tree.state.flags)
    generator = _Generator(matcher, tree)
    for prefix, pump, suffix in generator.texts():
        few, many = (
            matcher.steps(tree, prefix + pump * count + suffix, expression.is_searched)
            for count in (repetitions, 2 * repetitions)
        )
        if many >= _MOST_STEPS or many > _GROWTH * few + 50:
            return f"{prefix!r} + n * {pump!r} + {suffix!r}: {few} steps, then {many}"
    return None


class _TooManyStepsError(Exception):
    pass


class _Matcher:
    """Tries what Python's matcher tries, in the same order, and counts."""

    def __init__(self, flags: int) -> None:
        self._ignores_case = bool(flags & re.IGNORECASE)
        self._dot_is_all = bool(flags & re.DOTALL)
        self._is_multiline = bool(flags & re.MULTILINE)
        self._count = 0
        self._held: dict[tuple[Any, ...], bool] = {}

    def steps(self, tree: Any, text: str, is_searched: bool) -> int:
        """Return the steps of a match that fails in the end, as the worst ones do."""
        self._count = 0
        try:
            for start in range(len(text) + 1) if is_searched else (0,):
                end = -1
                # Most positions fail at once; the iterators would take most of the time.
                if self._fails_at_once(tree.data, text, start):
                    self._tick()
                    continue
                for end in self._sequence(tree.data, 0, text, start):
                    if is_searched or end == len(text):
                        break
                else:
                    end = -1
                if end == len(text):
                    break
        except _TooManyStepsError:
            return _MOST_STEPS
        return self._count

    def _fails_at_once(self, items: list[Any], text: str, start: int) -> bool:
        """Tell whether the first element, a character or a position, does not match."""
        if not items:
            return False
        operator, argument = items[0]
        if operator is sre.AT:
            return not self._is_at(argument, text, start)
        if operator in _CHARACTERS:
            return start == len(text) or not self.holds(operator, argument, text[start])
        return False

    def holds(self, operator: Any, argument: Any, character: str) -> bool:
        """Tell whether an element matches a character."""
        # Lists belong to the tree, which lives as long as this matcher.
        key = operator, id(argument) if operator is sre.IN else argument, character
        if key not in self._held:
            self._held[key] = self._holds(operator, argument, character)
        return self._held[key]

    def _holds(self, operator: Any, argument: Any, character: str) -> bool:
        if operator is sre.ANY:
            return self._dot_is_all or character != "\n"
        if operator is sre.IN:
            negated = argument[0][0] is sre.NEGATE
            return negated != any(self.holds(*item, character) for item in argument)
        if operator is sre.NEGATE:
            return False
        if operator is sre.CATEGORY:
            return _CATEGORIES[argument](character)
        if operator is sre.NOT_LITERAL:
            return not self.holds(sre.LITERAL, argument, character)
        characters = {character}
        if self._ignores_case:
            characters |= {character.lower(), character.upper()}
        first, last = argument if operator is sre.RANGE else (argument, argument)
        return any(first <= ord(item) <= last for item in characters if len(item) == 1)

    def _sequence(self, items: list[Any], index: int, text: str, start: int) -> Iterator[int]:
        # Single characters in a loop: each call would add to the depth of all others.
        while index < len(items) and items[index][0] in _CHARACTERS:
            self._tick()
            if start == len(text) or not self.holds(*items[index], text[start]):
                return
            start += 1
            index += 1
        if index == len(items):
            yield start
            return
        for end in self._element(*items[index], text, start):
            yield from self._sequence(items, index + 1, text, end)

    def _element(self, operator: Any, argument: Any, text: str, start: int) -> Iterator[int]:
        self._tick()
        if operator is sre.SUBPATTERN:
            yield from self._sequence(argument[-1].data, 0, text, start)
        elif operator is sre.BRANCH:
            for branch in argument[1]:
                yield from self._sequence(branch.data, 0, text, start)
        elif operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, body = argument
            is_greedy = operator is sre.MAX_REPEAT
            if len(body) == 1 and body[0][0] in _CHARACTERS:
                yield from self._run(body[0], int(least), int(most), text, start, is_greedy)
            else:
                yield from self._repeat(body.data, int(least), int(most), text, start, is_greedy)
        elif operator in (sre.ASSERT, sre.ASSERT_NOT):
            if argument[0] == 1:
                found = any(True for _ in self._sequence(argument[1].data, 0, text, start))
            else:
                # What precedes has a fixed width.
                before = start - argument[1].getwidth()[0]
                ends = self._sequence(argument[1].data, 0, text, before) if before >= 0 else ()
                found = start in ends
            if found == (operator is sre.ASSERT):
                yield start
        elif operator is sre.AT:
            if self._is_at(argument, text, start):
                yield start
        else:
            raise NotImplementedError(f"{operator}: write the expression without it")

    def _tick(self) -> None:
        self._count += 1
        if self._count > _MOST_STEPS:
            raise _TooManyStepsError

    def _run(
        self, item: Any, least: int, most: int, text: str, start: int, is_greedy: bool
    ) -> Iterator[int]:
        """Do what `_repeat` does, for a single character, and without recursion."""
        end = start
        while end - start < most:
            if not is_greedy and end - start >= least:
                yield end
            self._tick()
            if end == len(text) or not self.holds(*item, text[end]):
                break
            end += 1
        if is_greedy:
            yield from range(end, start + least - 1, -1)
        elif end - start == most:
            yield end

    def _repeat(
        self, body: list[Any], least: int, most: int, text: str, start: int, is_greedy: bool
    ) -> Iterator[int]:
        if least <= 0 and not is_greedy:
            yield start
        if most > 0:
            for end in self._sequence(body, 0, text, start):
                if end > start or least > 0:
                    yield from self._repeat(body, least - 1, most - 1, text, end, is_greedy)
        if least <= 0 and is_greedy:
            yield start

    def _is_at(self, where: Any, text: str, start: int) -> bool:
        if where is sre.AT_BEGINNING_STRING or where is sre.AT_BEGINNING:
            is_line = self._is_multiline and where is sre.AT_BEGINNING
            return start == 0 or (is_line and text[start - 1] == "\n")
        if where is sre.AT_END_STRING or where is sre.AT_END:
            is_line = self._is_multiline and where is sre.AT_END
            return start == len(text) or (is_line and text[start] == "\n")
        if where is sre.AT_BOUNDARY:
            around = text[max(0, start - 1) : start], text[start : start + 1]
            return _is_word(around[0]) != _is_word(around[1])
        raise NotImplementedError(f"{where}: write the expression without it")


class _Generator:
    """Makes texts that get as far into an expression as possible, then repeat a part of it."""

    def __init__(self, matcher: _Matcher, tree: Any) -> None:
        self._matcher = matcher
        self._tree = tree
        self._random = random.Random(1)
        literals = {chr(code) for code in _literals(tree.data)}
        # Few, so that characters that two elements share are met often.
        self._alphabet = sorted(literals | set("a0 \n;.")) if literals else list("a0 \n;.")

    def texts(self) -> Iterator[tuple[str, str, str]]:
        """Give prefix, part to repeat, and suffix, none of them twice."""
        seen = set()
        for before, part in _parts(self._tree.data, []):
            for _ in range(_SAMPLES):
                prefix = self._sample(before) if before else ""
                pump = self._sample(part)
                for text in ((prefix, pump, "\0"), ("", prefix + pump, "\0"), (prefix, pump, "\n")):
                    if text[1] and text not in seen:
                        seen.add(text)
                        yield text

    def _sample(self, items: list[Any]) -> str:
        return "".join(self._sample_of(*item) for item in items)

    def _sample_of(self, operator: Any, argument: Any) -> str:
        if operator is sre.LITERAL:
            return chr(argument)
        if operator in _CHARACTERS:
            fitting = [c for c in self._alphabet if self._matcher.holds(operator, argument, c)]
            fitting = fitting or [
                chr(code)
                for code in range(1, 128)
                if self._matcher.holds(operator, argument, chr(code))
            ]
            return self._random.choice(fitting) if fitting else "\ud800"
        if operator is sre.SUBPATTERN:
            return self._sample(argument[-1].data)
        if operator is sre.BRANCH:
            return self._sample(self._random.choice(argument[1]).data)
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, body = argument
            count = self._random.randint(int(least), min(int(most), int(least) + _MORE))
            return "".join(self._sample(body.data) for _ in range(count))
        return ""


def _parts(items: list[Any], before: list[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Give each part of an expression, and what precedes it."""
    for position, (operator, argument) in enumerate(items):
        ahead = [*before, *items[:position]]
        yield ahead, [(operator, argument)]
        # A part together with the next one.
        yield ahead, items[position : position + 2]
        for body in _bodies(operator, argument):
            yield ahead, body
            yield from _parts(body, ahead)


def _bodies(operator: Any, argument: Any) -> Iterator[list[Any]]:
    if operator is sre.SUBPATTERN:
        yield argument[-1].data
    elif operator is sre.BRANCH:
        yield from (branch.data for branch in argument[1][:3])
    elif operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        yield argument[2].data


def _literals(items: list[Any]) -> Iterator[int]:
    for operator, argument in items:
        if operator in (sre.LITERAL, sre.NOT_LITERAL):
            yield argument
        elif operator is sre.IN:
            yield from (value for kind, value in argument if kind is sre.LITERAL)
        for body in _bodies(operator, argument):
            yield from _literals(body)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_CATEGORIES: Final[dict[Any, Callable[[str], bool]]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda character: not character.isdigit(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    sre.CATEGORY_WORD: _is_word,
    sre.CATEGORY_NOT_WORD: lambda character: not _is_word(character),
}
