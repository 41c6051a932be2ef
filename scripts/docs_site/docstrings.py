"""Sphinx extension: a shorter form of the entries of classes."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_ATTRIBUTE = re.compile(r"\.\. attribute:: (.+)")
_TYPE = re.compile(r"   :type: (?:ClassVar\[(.+)\]|(.+))")


class Dashes(SphinxPostTransform):
    """Writes a dash between an argument and its description, where Sphinx writes two hyphens."""

    default_priority = 800

    def run(self, **kwargs: Any) -> None:
        """Replace the hyphens."""
        for text in list(self.document.findall(nodes.Text)):
            if text == " -- ":
                text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    # After napoleon, which has converted the sections.
    app.connect("autodoc-process-docstring", _shorten, priority=900)
    app.connect("autodoc-process-signature", _without_signature)
    app.add_post_transform(Dashes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _shorten(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Move the types of attributes to their names, and give each attribute a line."""
    result: list[str] = []
    place = 0
    for line in lines:
        if match := _ATTRIBUTE.fullmatch(line):
            first, *further = match[1].split(", ")
            result += [f".. attribute:: {first}", *(f"               {each}" for each in further)]
            place = len(result)
        elif place and (match := _TYPE.fullmatch(line)):
            if match[2] != "ClassVar":
                result.insert(place, f"   :type: {match[1] or match[2]}")
        else:
            result.append(line)
    lines[:] = result


def _without_signature(
    app: Sphinx,
    what: str,
    name: str,
    value: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str, str] | None:
    """Leave out the arguments of protocols, which are not created."""
    return ("", "") if getattr(value, "_is_protocol", False) else None
