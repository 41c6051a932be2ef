"""Reading configuration documents: JSON or YAML, from files or object storages."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from mastaba.config.faults import Faults
from mastaba.errors import MastabaError, ObjectNotFoundError
from mastaba.storage.path import ResourcePath
from mastaba.storage.pool import StoragePool

_MAX_SIZE: Final = 64 * 1024 * 1024


class DocumentReader:
    """Reads documents of one load; every failure becomes a fault."""

    def __init__(self, pool: StoragePool, faults: Faults) -> None:
        self._pool = pool
        self._faults = faults

    def text(self, path: ResourcePath) -> str | None:
        """Return the text of a file or object, or None after noting why not."""
        try:
            data = self._pool.read_full(path)
        except ObjectNotFoundError:
            self._faults.error(
                str(path), "$", "does not exist, or is empty", "correct the path that names it"
            )
            return None
        except MastabaError as error:
            self._faults.error(str(path), "$", str(error), "make it readable for the server")
            return None
        if len(data) > _MAX_SIZE:
            self._faults.error(str(path), "$", "is larger than 64 MiB")
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
            parsed = yaml.safe_load(text)
        else:
            parsed = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        faults.error(
            file,
            "$",
            f"is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            "correct it, or name the file .yaml if it is YAML",
        )
        return None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not readable"
        faults.error(file, "$", f"is not valid YAML: {problem}{place}", "correct it")
        return None
    except (ValueError, RecursionError) as error:
        faults.error(file, "$", f"cannot be read: {error}", "correct it")
        return None
    return _without_nulls(parsed)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
