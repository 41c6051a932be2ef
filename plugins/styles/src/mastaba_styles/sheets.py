"""The styles that layer descriptors name, and their addresses.

A source is a published layer if its name is the identifier of the layer, if its address is
``mastaba://LAYER``, or if it is the only vector source of the style, whatever its address. All
other addresses are left out: a style leads to this server alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.api.documents import Fault, Faults, FileFaults
from mastaba.api.storages import ResourcePath
from mastaba_styles.reading import fonts_of, read_style
from mastaba_styles.sources import tables_of

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.storages import StoragePool
    from mastaba_styles.fonts import Fonts
    from mastaba_styles.sprites import Sprites

STYLE: Final = "style"
"""Key of layer descriptors."""

LAYER_SCHEMA: Final[Mapping[str, Any]] = {
    "description": "Paths of MapLibre styles of the layer: of one, or of a list. The first one is "
    "the default; the name of each is that of its file, without .json.",
    "oneOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "maxItems": 32,
            "uniqueItems": True,
        },
    ],
}

_OURS: Final = "mastaba://"


@dataclass(frozen=True, slots=True)
class StyleFile:
    """A style that a descriptor names.

    Attributes:
        name: in addresses.
        file: its path.
        style: the document, which is never changed.
    """

    name: str
    file: str
    style: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Addresses:
    """What the addresses in a style become.

    Attributes:
        uri: address of the service.
        source_of: returns the source of a published layer by its identifier; None without.
        fonts, sprites: what is there.
    """

    uri: str
    source_of: Callable[[str], dict[str, Any] | None]
    fonts: Fonts
    sprites: Sprites

    @property
    def glyphs(self) -> str | None:
        """Template of the addresses of glyphs; None without fonts."""
        if not self.fonts.default:
            return None
        return f"{self.uri}/glyphs/{{fontstack}}/{{range}}.pbf"

    @property
    def metadata(self) -> dict[str, str]:
        """Members of the metadata of a style: where OpenLayers gets the fonts of browsers.

        It would ask a public server otherwise.
        """
        template = f"{self.uri}/fonts/{{font-family}}/{{fontweight}}{{-fontstyle}}.css"
        return {"ol:webfonts": template}

    def sprite(self, name: str) -> str | None:
        """Return the address of a sprite; None if there is none of this name."""
        if name not in self.sprites.names:
            return None
        return f"{self.uri}/sprites/{quote(name, safe='')}"


@dataclass
class StyleFiles:
    """The styles of all layers, read once for a configuration.

    Attributes:
        by_layer: of each layer that names any, the default first.
        faults: what is wrong with those that cannot be used.
    """

    by_layer: dict[str, tuple[StyleFile, ...]] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)

    @classmethod
    def read(cls, layers: Mapping[str, Layer], pool: StoragePool) -> StyleFiles:
        """Read the styles that layers name. Those that cannot be used are left out."""
        found = cls()
        for identifier, layer in layers.items():
            named = layer.own.get(STYLE, ())
            sheets: dict[str, StyleFile] = {}
            for path in (named,) if isinstance(named, str) else named:
                name = ResourcePath("file", "", path).stem
                if name in sheets:
                    reason, remedy = f"two styles are called {name!r}", "rename one of the files"
                    found.faults.error(f"layer {identifier}", f"$.{STYLE}", reason, remedy)
                    continue
                style = read_style(path, pool, FileFaults(found.faults, path))
                if style is not None:
                    sheets[name] = StyleFile(name, path, style)
            if sheets:
                found.by_layer[identifier] = tuple(sheets.values())
        return found


def rewritten(sheet: StyleFile, layer: Layer, others: Addresses) -> dict[str, Any]:
    """Return a style whose addresses are those of the server.

    Sources that the client cannot have are left out, with the layers that are drawn from them.
    """
    style = {key: value for key, value in sheet.style.items() if key not in _ADDRESSES}
    sources = {
        name: found
        for name, source in sheet.style["sources"].items()
        if (found := _source(name, source, sheet, layer, others)) is not None
    }
    style["sources"] = sources
    given = style.get("metadata")
    style["metadata"] = {**(given if isinstance(given, dict) else {}), **others.metadata}
    if (glyphs := others.glyphs) is not None:
        style["glyphs"] = glyphs
    if (sprite := _sprite(sheet.style.get("sprite"), others)) is not None:
        style["sprite"] = sprite
    if style.get("terrain", {}).get("source") not in sources:
        style.pop("terrain", None)
    style["layers"] = [
        _with_font(one, others.fonts.default)
        for one in sheet.style["layers"]
        if "source" not in one or one["source"] in sources
    ]
    return style


def findings(sheet: StyleFile, layer: Layer, others: Addresses) -> Iterator[Fault]:
    """Return what a style names and the server does not have."""
    faults = FileFaults(Faults(), sheet.file)
    owners: dict[str, str] = {}
    for name, source in sheet.style["sources"].items():
        owner = owner_of(name, source, sheet.style, layer)
        if owner is not None and others.source_of(owner) is not None:
            owners[name] = owner
        elif _source(name, source, sheet, layer, others) is None:
            faults.error(
                f"$.sources.{name}",
                "is not a layer whose tiles are published in Web Mercator",
                "name the source as a published layer, enable tms or ogcapi, or remove it",
            )
    tables = tables_of(layer)
    for place, one in enumerate(sheet.style["layers"]):
        table = one.get("source-layer")
        is_own = owners.get(one.get("source", "")) == layer.id
        if is_own and tables and table is not None and table not in tables:
            known = ", ".join(list(tables)[:20])
            reason = f"the layer has no table {table!r} (tables: {known})"
            faults.error(f"$.layers[{place}].source-layer", reason, "name one of its tables")
        for stack in fonts_of(one):
            missing = [name for name in stack if name not in others.fonts.names]
            if len(missing) == len(stack):
                reason = f"there is no font {' or '.join(map(repr, missing))}"
                remedy = _font_remedy(others.fonts)
                faults.error(f"$.layers[{place}].layout.text-font", reason, remedy)
    for name in _sprite_names(sheet.style.get("sprite")):
        if name not in others.sprites.names:
            remedy = f"put {name}.json and {name}.png into the directory of the setting sprites"
            faults.error("$.sprite", f"there is no sprite {name!r}", remedy)
    yield from faults.all.all


def owner_of(
    name: str, source: Mapping[str, Any], style: Mapping[str, Any], layer: Layer
) -> str | None:
    """Return the identifier of the layer that a source means; None for none of this server."""
    url = source.get("url", "")
    if isinstance(url, str) and url.startswith(_OURS):
        return url.removeprefix(_OURS)
    kind = source["type"]
    if kind not in ("vector", "raster"):
        return None
    alike = [one for one in style["sources"].values() if one["type"] == kind]
    is_only = len(alike) == 1 and kind == ("vector" if layer.is_vector else "raster")
    return layer.id if is_only else name


def _source(
    name: str, source: Mapping[str, Any], sheet: StyleFile, layer: Layer, others: Addresses
) -> dict[str, Any] | None:
    owner = owner_of(name, source, sheet.style, layer)
    if owner is not None:
        found = others.source_of(owner)
        return found if found and found["type"] == source["type"] else None
    is_inline = source["type"] == "geojson" and isinstance(source.get("data"), dict)
    return dict(source) if is_inline else None


def _sprite(value: Any, others: Addresses) -> str | list[dict[str, str]] | None:
    if isinstance(value, str):
        return others.sprite(_last(value))
    found = [
        {"id": one["id"], "url": address}
        for one in value or ()
        if (address := others.sprite(_last(one["url"]))) is not None
    ]
    return found or None


def _sprite_names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [_last(value)]
    return [_last(one["url"]) for one in value or ()]


def _with_font(layer: Mapping[str, Any], default: str | None) -> Mapping[str, Any]:
    """Return a layer with the font that is there, if it names none: clients would take another."""
    layout = layer.get("layout", {})
    if default is None or "text-field" not in layout or "text-font" in layout:
        return layer
    return {**layer, "layout": {**layout, "text-font": [default]}}


def _font_remedy(fonts: Fonts) -> str:
    if fonts.names:
        return f"use one of {', '.join(sorted(fonts.names)[:20])}, or add the font"
    return "set fonts in the section stylesheets, or install mastaba-styles[fonts]"


def _last(address: str) -> str:
    """Return the name of a sprite: the end of its address."""
    return address.rstrip("/").rpartition("/")[2]


_ADDRESSES: Final = frozenset(("sources", "glyphs", "sprite", "layers"))
