"""Sphinx extension: names in signatures and docstrings link to the entries of public names.

Sphinx would also link a word to any entry that ends with it, such as ``type`` to
``Attribute.type``, and report each name without an entry, such as those of libraries.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode


class PublicNames(SphinxPostTransform):
    """Resolves references to Python objects, before Sphinx does."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Replace each reference by a link, or by its text if the name has no entry."""
        for node in list(self.document.findall(pending_xref)):
            if node.get("refdomain") == "py":
                node.replace_self(self._resolved(node))

    def _resolved(self, node: pending_xref) -> nodes.Element | nodes.Text:
        content = node.children[0]
        if isinstance(content, nodes.Text):  # in a signature
            content = nodes.Text(str(content).rpartition(".")[2])
        name, entry = self._entry(node)
        if entry is None:
            return content
        builder = self.app.builder
        return make_refnode(
            builder, self.env.docname, entry.docname, entry.node_id, content.deepcopy(), name
        )

    def _entry(self, node: pending_xref) -> tuple[str, ObjectEntry | None]:
        """Return the entry to which a reference leads, and its name."""
        objects = self.env.domains.python_domain.objects
        is_type = node["reftype"] == "class"
        for name in self._candidates(node, [*objects]):
            entry = objects.get(name)
            if entry and (not is_type or entry.objtype in ("class", "exception", "type")):
                return name, entry
        return "", None

    def _candidates(self, node: pending_xref, known: list[str]) -> Iterator[str]:
        target = str(node["reftarget"])
        module, cls = (str(node.get(key) or "") for key in ("py:module", "py:class"))
        if node["reftype"] == "class" and hasattr(builtins, target):
            return
        yield target
        yield f"{module}.{cls}.{target}"
        yield f"{module}.{target}"
        # A single word in lower case may be anything, such as an argument.
        if not target.islower():
            ends = sorted(name for name in known if name.endswith(f".{target}"))
            package = module.partition(".")[0]
            yield from sorted(ends, key=lambda name: not name.startswith(f"{package}."))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_post_transform(PublicNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
