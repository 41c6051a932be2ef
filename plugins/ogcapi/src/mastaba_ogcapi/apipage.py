"""The page of the API definition: each operation with a request that finds data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba_ogcapi.negotiation import LANGUAGES
from mastaba_ogcapi.pages import page

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Collection, Dataset

_LISTED: Final = 12
"""Most values of a select; longer lists are suggestions of a text field."""

_OTHERS: Final = (("OpenAPI in JSON", "/api?f=json"), ("OpenAPI in YAML", "/api?f=yaml"))


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter of an operation.

    Attributes:
        key: of the parameter in the definition.
        value: example; empty for none.
        choices: all values; empty if there are others.
    """

    key: str
    name: str
    place: str
    description: str
    value: str
    choices: tuple[str, ...]

    @property
    def is_select(self) -> bool:
        return 0 < len(self.choices) <= _LISTED


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation with the URL of its example, below the API."""

    identifier: str
    path: str
    summary: str
    fields: tuple[Field, ...]

    @property
    def address(self) -> str:
        path, query = self.path, []
        for field in self.fields:
            value = quote(field.value, safe=",:")
            if field.place == "path":
                path = path.replace(f"{{{field.name}}}", value)
            elif value:
                query.append(f"{field.name}={value}")
        return path.rstrip("/") + ("?" + "&".join(query) if query else "")


def api_page(
    dataset: Dataset, content: Mapping[str, Any], collection: Collection | None, lang: str
) -> str:
    """Return the page.

    Args:
        dataset: the published collections.
        content: the API definition.
        collection: collection of the values in the definition.
        lang: one of `negotiation.LANGUAGES`.
    """
    known = _texts(lang)
    tags: dict[str, list[Operation]] = {}
    for path, item in content["paths"].items():
        operation = item["get"]
        fields = [_field(reference["$ref"], content) for reference in operation["parameters"]]
        tags.setdefault(operation["tags"][0], []).append(
            Operation(
                operation["operationId"], path, operation["summary"], tuple(filter(None, fields))
            )
        )
    return page(
        dataset,
        "api",
        content,
        title=known.get("Operations", "Operations"),
        others=_OTHERS,
        lang=lang,
        t=lambda text: known.get(text, text),
        tags=tags,
        about={tag["name"]: tag["description"] for tag in content["tags"]},
        lists=_lists(content),
        collection=collection,
    )


def _field(reference: str, content: Mapping[str, Any]) -> Field | None:
    key = reference.rpartition("/")[2]
    parameter = content["components"]["parameters"].get(key)
    if parameter is None:
        return None
    example, schema = parameter.get("example", ""), parameter["schema"]
    flags = ("true", "false") if schema["type"] == "boolean" else ()
    value = ",".join(map(str, example)) if isinstance(example, list) else str(example)
    return Field(
        key=key,
        name=parameter["name"],
        place=parameter["in"],
        description=parameter["description"],
        value=value,
        choices=tuple(schema.get("enum", flags)),
    )


def _lists(content: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the long lists of values, by parameter; many operations have the same."""
    return {
        key: values
        for key, parameter in content["components"]["parameters"].items()
        if len(values := parameter["schema"].get("enum", ())) > _LISTED
    }


@lru_cache(maxsize=len(LANGUAGES))
def _texts(lang: str) -> Mapping[str, str]:
    """Return the texts of a language by English text."""
    if lang == LANGUAGES[0]:
        return {}
    content = files("mastaba_ogcapi").joinpath("texts", f"{lang}.json").read_text("utf-8")
    found: Mapping[str, str] = json.loads(content)
    return found
