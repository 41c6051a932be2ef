"""Documents in JSON or YAML, read with limits on size, depth and repetition."""

from __future__ import annotations

import json
import os
import re
import sys
from itertools import chain
from typing import Any, Final

from mastaba_documents.faults import Faults
from mastaba_server.errors import reason_of
from mastaba_storage.file import OpenFile

_MAX_SIZE: Final = 64 * 1024 * 1024
_MAX_YAML_SIZE: Final = 8 * 1024 * 1024
"""Bytes; YAML takes many times the time and memory of JSON."""
_MAX_VALUES: Final = 1_000_000
"""Values in a document, and also values and characters that the aliases of YAML add."""
_MAX_DEPTH: Final = 64
_LONGEST_NUMBER: Final = 10_000
_LARGEST: Final = sys.float_info.max
_SMALL: Final = 1 << 62
_CLEAN_KINDS: Final = (str, int, bool, list, dict)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_TOO_DEEP: Final = f"is nested deeper than {_MAX_DEPTH} levels"
_TOO_MANY: Final = f"has more than {_MAX_VALUES:,} values"
_TOO_MUCH_REPEATED: Final = (
    f"repeats more than {_MAX_VALUES:,} values and characters by its aliases"
)


def read_local_text(file: str) -> str:
    """Return the text of a local file.

    Raises:
        OSError: it cannot be read, or is not a regular file.
        ValueError: it is not UTF-8 text, or larger than 64 MiB; the message says which.
    """
    opened = OpenFile(file)
    with open(opened.descriptor, "rb", closefd=False) as stream:
        return decoded(stream.read(_MAX_SIZE + 1))


def decoded(data: bytes) -> str:
    """Return the text of a document.

    Raises:
        ValueError: as for `read_local_text`.
    """
    if len(data) > _MAX_SIZE:
        raise ValueError("is larger than 64 MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text (byte {error.start})") from error


def unreadable(error: OSError | ValueError) -> str:
    """Return why a local file cannot be read, as the reason of an error."""
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return f"cannot be read: {reason_of(error)}"


def started_at(file: str) -> str:
    """Return the base of a relative path, as the end of a reason; empty for other paths."""
    if "://" in file or os.path.isabs(file):
        return ""
    try:
        return f"; the working directory is {os.getcwd()}"
    except OSError:
        return "; the working directory no longer exists"


def parse_document(text: str, file: str, faults: Faults) -> Any:
    """Parse JSON, or YAML by file extension; return None after recording a problem.

    ``null`` counts as absent everywhere: such members are removed.
    """
    path, remedy = "$", "correct it"
    try:
        is_yaml = file.lower().endswith((".yaml", ".yml"))
        parse = _parsed_yaml if is_yaml else _parsed_json
        parsed = parse(text) if text.strip() else None
        if parsed is not None:
            # Aliases of YAML may name a value many times.
            is_clean = not is_yaml and _is_all_clean(parsed)
            return parsed if is_clean else _cleaned(parsed, "$", 0, {})
        reason = "is empty"
    except json.JSONDecodeError as error:
        reason = f"is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        remedy = "correct it, or name the file .yaml if it is YAML"
    except _InvalidValueError as error:
        path, reason = error.path, str(error)
    except RecursionError:
        reason = _TOO_DEEP
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        # YAML scalar constructors raise various errors, as for ``!!bool perhaps``.
        reason = f"cannot be read: {str(error).partition(';')[0]}"
    faults.error(file, path, reason, remedy)
    return None


def _integer(digits: str) -> int:
    """Return an integer, or another one that is too large; Python refuses very many digits."""
    return int(digits[:400])


def _parsed_json(text: str) -> Any:
    # Each value but the first of a list or object has a comma before it. A list or object takes 30
    # times the memory of its text.
    if sum(map(text.count, ",[{")) > _MAX_VALUES:
        raise _InvalidValueError("$", _TOO_MANY)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer with very many digits
        return json.loads(text, parse_int=_integer)


def _parsed_yaml(text: str) -> Any:
    # Most installations have no YAML.
    import yaml

    if len(text) > _MAX_YAML_SIZE:
        raise _InvalidValueError("$", "is larger than 8 MiB, which is too large for YAML")
    loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Before anything is built from them.
        for number, _ in enumerate(yaml.parse(text, loader)):
            if number > _MAX_VALUES:
                raise _InvalidValueError("$", _TOO_MANY)
        stream = loader(text)
        try:
            node = stream.get_single_node()
            if node is None:
                return None
            if _YAMLSizes().of(node) > _MAX_VALUES + len(text):
                raise _InvalidValueError("$", _TOO_MUCH_REPEATED)
            return stream.construct_document(node)
        finally:
            stream.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not readable"
        raise _InvalidValueError("$", f"is not valid YAML: {problem}{place}") from error


class _YAMLSizes:
    """Sizes of nodes with all that their aliases repeat.

    Nothing else limits the repetitions: nine levels of nine aliases each are 400 million values.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, node: Any) -> int:
        """Return the number of values and characters.

        Raises:
            _InvalidValueError: the node contains itself, or is nested too deeply.
        """
        return self._measured(node, 0)[0]

    def _measured(self, node: Any, depth: int) -> tuple[int, int]:
        """Return the size and the height of a node."""
        if isinstance(node.value, str):
            # Base 60 takes quadratic time.
            if node.tag.endswith((":int", ":float")) and len(node.value) > _LONGEST_NUMBER:
                raise _InvalidValueError("$", "contains a number that is too large")
            return 1 + len(node.value), 0
        known = self._known.get(id(node))
        if known is None:
            if depth == _MAX_DEPTH:
                raise _InvalidValueError("$", _TOO_DEEP)
            self._known[id(node)] = (-1, 0)
            size, height = 1, 0
            for item in node.value:
                for part in item if isinstance(item, tuple) else (item,):
                    below = self._measured(part, depth + 1)
                    size, height = size + below[0], max(height, below[1] + 1)
            known = self._known[id(node)] = size, height
        elif known[0] < 0:
            raise _InvalidValueError("$", "contains itself")
        if depth + known[1] > _MAX_DEPTH:
            raise _InvalidValueError("$", _TOO_DEEP)
        return known


class _InvalidValueError(ValueError):
    """A value that is invalid in every configuration."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


def _cleaned(value: Any, path: str, depth: int, done: dict[int, Any]) -> Any:
    """Return a value without nulls, with strings as keys.

    Numbers and strings that would fail later, without a path to report, are rejected here.

    Args:
        done: results for the containers visited so far: YAML aliases may name one many times.

    Raises:
        _InvalidValueError: the value, or a value inside it, is invalid.
    """
    if isinstance(value, str) and not value.isascii() and _SURROGATES.search(value):
        raise _InvalidValueError(path, "contains an unpaired surrogate")
    if isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
        raise _InvalidValueError(path, "is too large, or not a number")
    if isinstance(value, str | int | float | None):
        return value
    if not isinstance(value, dict | list):
        raise _InvalidValueError(path, f"is a {type(value).__name__}, which JSON does not have")
    if depth == _MAX_DEPTH:
        raise _InvalidValueError("$", _TOO_DEEP)
    if type(value) is list and _are_small_integers(value):
        return value
    if id(value) in done:
        if done[id(value)] is None:
            raise _InvalidValueError(path, "contains itself")
        return done[id(value)]
    done[id(value)] = None
    if isinstance(value, dict):
        done[id(value)] = {
            str(key): item if _is_clean(item) else _cleaned(item, f"{path}.{key}", depth + 1, done)
            for key, item in value.items()
            if item is not None
        }
    else:
        done[id(value)] = [
            item if _is_clean(item) else _cleaned(item, f"{path}[{position}]", depth + 1, done)
            for position, item in enumerate(value)
        ]
    return done[id(value)]


def _is_all_clean(value: Any) -> bool:
    """Return whether `_cleaned` would return a value from JSON as it is; False if in doubt.

    It looks at all values of one depth at once, which takes a tenth of the time.
    """
    level = [value]
    for _ in range(_MAX_DEPTH):
        of: dict[type, list[Any]] = {kind: [] for kind in _CLEAN_KINDS}
        try:
            for one in level:
                of[type(one)].append(one)
        except KeyError:
            return False
        if not all(map(str.isascii, of[str])):
            return False
        if of[int] and not _are_small_integers(of[int]):
            return False
        level = [*chain.from_iterable(of[list]), *chain.from_iterable(map(dict.values, of[dict]))]
        if not level:
            return True
    return False


def _are_small_integers(values: list[Any]) -> bool:
    """Return whether values are like tile limits, most of a long list of variants, and clean."""
    if set(map(type, values)) != {int}:
        return False
    return bool(min(values) > -_SMALL and max(values) < _SMALL)


def _is_clean(value: Any) -> bool:
    """Return whether a value needs no look of its own, as most strings and integers do not."""
    kind = type(value)
    return (kind is str and value.isascii()) or (kind is int and -_SMALL < value < _SMALL)
