"""Pages with a map, for users to copy. The viewer's own pages never load these libraries."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer

CDN: Final = "https://cdn.jsdelivr.net/npm"
_PAGE: Final = """<!doctype html>
<meta charset="utf-8">
<title>{title}</title>
{head}
<style>html, body, #map {{ height: 100%; margin: 0 }}</style>
<div id="map"></div>
<script{kind}>
{script}
</script>
"""


def html(layer: Layer, script: str | None, sheet: str, code: str, *, module: bool = False) -> str:
    """Return a page with a map.

    Args:
        layer: the layer.
        script: paths of scripts with spaces between them; without, the code imports the library.
        sheet: path of a style sheet.
        code: what draws the map.
        module: whether the code is a module although there are scripts.
    """
    head = f'<link rel="stylesheet" href="{CDN}/{sheet}">'
    for path in script.split() if script else ():
        head += f'\n<script src="{CDN}/{path}"></script>'
    kind = ' type="module"' if module or not script else ""
    return _PAGE.format(title=escape(layer.title), head=head, kind=kind, script=code)


def js(value: object) -> str:
    """Return a value as JavaScript that cannot end the script element around it."""
    return json.dumps(value, ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")
