"""Keys that an object of a configuration has twice: the last value is used, as in ROK4."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mastaba.api.documents import Fault, Faults, Severity, parse_document
from mastaba.errors import MastabaError

if TYPE_CHECKING:
    from mastaba.api.storages import ResourcePath, StoragePool

_YAML = (".yaml", ".yml")
_LARGE = 1024**2
"""Characters; smaller JSON cannot fill the memory."""


class _Object(list[tuple[str, Any]]):
    """An object: its keys and values, in the order of the document."""


def duplicate_keys(paths: Iterable[ResourcePath], pool: StoragePool) -> Iterator[Fault]:
    """Yield a warning for each duplicate key in JSON and YAML documents.

    Documents that cannot be read are left to the loader of configurations, and so are files that
    are no documents, such as the list of layers.
    """
    for path in paths:
        file = str(path)
        with suppress(MastabaError, ValueError, RecursionError):
            text = pool.read_full(path).decode("utf-8-sig")
            is_yaml = file.lower().endswith(_YAML)
            # Those that exceed the limits of size and depth are left to the loader as well.
            if (is_yaml or len(text) > _LARGE) and parse_document(text, file, Faults()) is None:
                continue
            document = _parsed_yaml(text) if is_yaml else _parsed_json(text)
            for at in dict.fromkeys(_duplicates(document, "$")):
                reason = "duplicate key, the last value is used"
                yield Fault(Severity.WARNING, file, at, reason, "remove one of them")


def _parsed_json(text: str) -> Any:
    # Numbers stay text: Python refuses integers with very many digits.
    return json.loads(text, object_pairs_hook=_Object, parse_int=str)


def _parsed_yaml(text: str) -> Any:
    # Most installations have no YAML.
    import yaml

    known: set[int] = set()

    def converted(node: Any) -> Any:
        if id(node) in known:
            return None  # an alias: reported at the first place, and may contain itself
        known.add(id(node))
        if isinstance(node, yaml.MappingNode):
            # Two merge keys are allowed.
            return _Object(
                (key.value, converted(value))
                for key, value in node.value
                if isinstance(key, yaml.ScalarNode) and key.value != "<<"
            )
        if isinstance(node, yaml.SequenceNode):
            return [converted(item) for item in node.value]
        return None

    try:
        return converted(yaml.compose(text, yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _duplicates(value: Any, path: str) -> Iterator[str]:
    """Yield the JSON paths of duplicate keys."""
    if isinstance(value, _Object):
        counts = Counter(key for key, _ in value)
        yield from (f"{path}.{key}" for key, count in counts.items() if count > 1)
        for key, item in value:
            yield from _duplicates(item, f"{path}.{key}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{position}]")
