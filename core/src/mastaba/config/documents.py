"""Reading configuration documents: JSON or YAML, from files or object storages."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Final

import yaml

from mastaba.config.faults import Faults
from mastaba.errors import MastabaError, ObjectNotFoundError
from mastaba.storage.path import ResourcePath
from mastaba.storage.pool import StoragePool

_MAX_SIZE: Final = 64 * 1024 * 1024
_TOO_LARGE: Final = "is larger than 64 MiB"
_MAX_DEPTH: Final = 64
_LARGEST: Final = sys.float_info.max
_MAX_DIGITS: Final = 1000
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_TOO_DEEP: Final = f"is nested deeper than {_MAX_DEPTH} levels"
_YAML_LOADER: Final[type] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_local_text(file: str) -> str:
    """Return the text of a local file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no UTF-8 text, or larger than 64 MiB; the message says so.
    """
    with open(file, "rb") as stream:
        data = stream.read(_MAX_SIZE + 1)
    if len(data) > _MAX_SIZE:
        raise ValueError(_TOO_LARGE)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text (byte {error.start})") from error


class DocumentReader:
    """Reads documents of one load; every failure becomes a fault."""

    def __init__(self, pool: StoragePool, faults: Faults) -> None:
        self._pool = pool
        self._faults = faults

    def text(self, path: ResourcePath, *, may_be_empty: bool = False) -> str | None:
        """Return the text of a file or object, or None after noting why not."""
        try:
            data = self._pool.read_full(path, may_be_empty=may_be_empty)
        except ObjectNotFoundError:
            self._faults.error(
                str(path), "$", "does not exist, or is empty", "correct the path that names it"
            )
            return None
        except MastabaError as error:
            self._faults.error(str(path), "$", str(error), "make it readable for the server")
            return None
        if len(data) > _MAX_SIZE:
            self._faults.error(str(path), "$", _TOO_LARGE)
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._faults.error(
                str(path), "$", f"is not UTF-8 text (byte {error.start})", "save it as UTF-8"
            )
            return None

    def exists(self, path: ResourcePath) -> bool:
        """Tell whether there is an object. One out of reach counts: reading it says why not."""
        try:
            return self._pool.open(path.storage, path.container).exists(path.key)
        except MastabaError:
            return True

    def document(self, path: ResourcePath) -> Any:
        """Return the parsed document without its nulls, or None after noting why not."""
        text = self.text(path)
        return None if text is None else parse_document(text, str(path), self._faults)


def parse_document(text: str, file: str, faults: Faults) -> Any:
    """Parse JSON, or YAML where the name says so; None after noting what is wrong.

    ``null`` counts as absent everywhere: such members are left out.
    """
    try:
        if file.lower().endswith((".yaml", ".yml")):
            parsed = yaml.load(text, _YAML_LOADER)  # noqa: S506 - one of the safe loaders
        else:
            parsed = json.loads(text, parse_constant=_refuse_constant, parse_int=_whole_number)
        if parsed is None:  # an empty YAML file, or the word null
            raise _UnfitValueError("$", "is empty")
        return _cleaned(parsed, "$", 0, {})
    except json.JSONDecodeError as error:
        faults.error(
            file,
            "$",
            f"is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            "correct it, or name the file .yaml if it is YAML",
        )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not readable"
        faults.error(file, "$", f"is not valid YAML: {problem}{place}", "correct it")
    except _UnfitValueError as error:
        faults.error(file, error.path, str(error), "correct it")
    except RecursionError:
        faults.error(file, "$", _TOO_DEEP, "correct it")
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        # Constructors of YAML scalars raise what they like, as for ``!!bool perhaps``.
        faults.error(file, "$", f"cannot be read: {error}", "correct it")
    return None


class _UnfitValueError(ValueError):
    """A value that no configuration can mean."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


def _whole_number(digits: str) -> int:
    # Longer ones are refused before Python complains in words of its own.
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"the number {digits[:12]}… is too large")
    return int(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _cleaned(value: Any, path: str, depth: int, done: dict[int, Any]) -> Any:
    """Return a value without its nulls, with text as keys.

    Numbers and texts that would fail later, far from their place in the file, are refused here.

    Args:
        done: what became of the containers met so far: YAML may name one of them many times.

    Raises:
        _UnfitValueError: the value, or something inside it, cannot be meant.
    """
    if isinstance(value, str):
        if not value.isascii() and _SURROGATES.search(value):
            raise _UnfitValueError(path, "has half of a surrogate pair, which is no character")
        return value
    if isinstance(value, int | float):
        if not -_LARGEST <= value <= _LARGEST:
            raise _UnfitValueError(path, "is a number that is too large, or none")
        return value
    if not isinstance(value, dict | list):
        return value
    if depth == _MAX_DEPTH:
        raise _UnfitValueError("$", _TOO_DEEP)
    if id(value) in done:
        found = done[id(value)]
        if found is None:
            raise _UnfitValueError(path, "contains itself")
        return found
    done[id(value)] = None
    cleaned: Any
    if isinstance(value, dict):
        cleaned = {
            str(key): _cleaned(item, f"{path}.{key}", depth + 1, done)
            for key, item in value.items()
            if item is not None
        }
    else:
        cleaned = [
            _cleaned(item, f"{path}[{position}]", depth + 1, done)
            for position, item in enumerate(value)
        ]
    done[id(value)] = cleaned
    return cleaned
