"""Functions and classes have a user outside the tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.sources import parsed, walked

REPOSITORY = Path(__file__).parents[1]

# Base class: its methods are called by the library that defines it.
CALLED_BY_LIBRARIES = frozenset(
    {
        *("HTMLParser", "BaseHTTPRequestHandler", "BasePen", "SafeDumper", "Algorithm"),
        *("PyJWK", "Protocol"),
    }
)
# name: who calls it
CALLED_BY_NAME = {
    **dict.fromkeys(
        ("on_message_begin", "on_url", "on_header", "on_body", "on_message_complete"), "httptools"
    ),
    "on_headers_complete": "httptools",
    "get_alg": "the library of tokens",
    "OffersZoomTiles": "documents the method",
    "OffersTileTemplates": "documents the method",
    "OffersStylesheets": "documents the method",
    "OffersHeatMaps": "documents the method",
    "OffersParts": "documents the method",
}


def test_everything_has_a_user() -> None:
    """A name that occurs once, where it is defined, is used by tests at most.

    Strings count, since `LazyClass` names what is imported on first use; so do decorators, manuals,
    templates and examples.
    """
    sources = [
        path
        for name in ("core", "libs", "plugins")
        for path in (REPOSITORY / name).glob("**/src/**/*.py")
        # Its tests are called by pytest; its servers by tests.
        if "mastaba_conformance" not in path.parts
    ]
    texts = [path.read_text("utf-8") for path in sources]
    for pattern in ("plugins/**/*.html", "examples/**/*.py", "docs/*.md"):
        texts += [path.read_text("utf-8") for path in REPOSITORY.glob(pattern)]
    counts = Counter(word for text in texts for word in re.findall(r"\w+", text))
    unused = {
        f"{path.relative_to(REPOSITORY)}: {node.name}"
        for path in sources
        for node in _definitions(path)
        if counts[node.name] == 1
        and node.name not in CALLED_BY_NAME
        and not node.name.startswith("__")
    }
    assert unused == set()


def _definitions(path: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    nodes = walked(parsed(path))
    inherited = {
        id(child)
        for node in nodes
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).split(".")[-1] in CALLED_BY_LIBRARIES for base in node.bases)
        for child in node.body
    }
    return [
        node
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.decorator_list
        and id(node) not in inherited
    ]
