"""Styles of operators: read, bounded, and their structure checked.

Only what the server uses is checked here, and that no client fails on the structure as a whole.
Expressions, colours and other values are the client's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from mastaba.errors import MastabaError
from mastaba_containers.metadata import parsed_object

if TYPE_CHECKING:
    from mastaba.api.documents import FileFaults
    from mastaba.api.storages import StoragePool

from mastaba.api.storages import ResourcePath

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_VALUES: Final = 300_000
"""Each takes up to 100 bytes of memory."""
MOST_LAYERS: Final = 5000
MOST_SOURCES: Final = 100

_SOURCES: Final = frozenset(
    ("vector", "raster", "raster-dem", "geojson", "image", "video"),
)
_LAYERS: Final = frozenset(
    (
        *("background", "fill", "line", "symbol", "circle", "raster", "heatmap"),
        *("fill-extrusion", "hillshade", "color-relief", "sky"),
    )
)
_CORRECT: Final = "correct it; the MapLibre Style Specification describes styles"


def read_style(path: str, pool: StoragePool, faults: FileFaults) -> dict[str, Any] | None:
    """Return a style; None after recording why it cannot be used.

    Args:
        path: of a local file, or an object of a storage.
        pool: storages.
        faults: of the file.
    """
    try:
        found = ResourcePath.parse(path)
        data = pool.open_path(found).read(found.key).data
    except (MastabaError, ValueError) as error:
        remedy = "name a MapLibre style; the styles of pixels are in the key `styles`"
        faults.error("$", f"cannot be read: {error}", remedy)
        return None
    try:
        style = parsed_object(data, MOST_BYTES, MOST_VALUES, _refused)
    except ValueError as error:
        faults.error("$", str(error), _CORRECT)
        return None
    before = len(faults.all.errors)
    _check(style, faults)
    return style if len(faults.all.errors) == before else None


def fonts_of(layer: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Return the lists of fonts that a layer of a style may request.

    They are written in ``text-font`` as such, as literals in an expression, or as stops.
    """
    waiting = [layer.get("layout", {}).get("text-font")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            stops = value.get("stops")
            waiting += [stop[1] for stop in stops or () if isinstance(stop, list) and stop[1:]]
        elif isinstance(value, list) and value:
            if value[0] == "literal" and isinstance(value[1:2], list):
                waiting += value[1:2]
            elif all(isinstance(item, str) for item in value):
                yield tuple(value)
            else:
                waiting += [item for item in value if isinstance(item, list)]


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not in JSON")


def _check(style: dict[str, Any], faults: FileFaults) -> None:
    if style.get("version") != 8:
        faults.error("$.version", "is not 8", "use a style of version 8")
    sources = style.get("sources")
    if not isinstance(sources, dict) or len(sources) > MOST_SOURCES:
        reason = f"is not an object with at most {MOST_SOURCES} sources"
        faults.error("$.sources", reason, _CORRECT)
        sources = {}
    for name, source in sources.items():
        if not isinstance(source, dict) or source.get("type") not in _SOURCES:
            faults.error(f"$.sources.{name}", "is not a source with a known type", _CORRECT)
    for key in ("sprite", "glyphs"):
        if key in style and not _is_sprite(style[key], single=key == "glyphs"):
            faults.error(f"$.{key}", "is not an address", _CORRECT)
    layers = style.get("layers")
    if not isinstance(layers, list) or len(layers) > MOST_LAYERS:
        reason = f"is not a list of at most {MOST_LAYERS} layers"
        faults.error("$.layers", reason, _CORRECT)
        layers = []
    known: set[str] = set()
    for place, layer in enumerate(layers):
        reason = _problem(layer, sources, known)
        if reason:
            faults.error(f"$.layers[{place}]", reason, _CORRECT)
        else:
            known.add(layer["id"])


def _is_sprite(value: Any, *, single: bool) -> bool:
    if isinstance(value, str):
        return True
    return (
        not single
        and isinstance(value, list)
        and all(
            isinstance(one, dict)
            and isinstance(one.get("id"), str)
            and isinstance(one.get("url"), str)
            for one in value
        )
    )


def _problem(layer: Any, sources: dict[str, Any], known: set[str]) -> str:
    """Return what is wrong with a layer of a style; empty if nothing is."""
    if not isinstance(layer, dict):
        return "is not an object"
    name, kind = layer.get("id"), layer.get("type")
    if not isinstance(name, str) or not name:
        return "has no id"
    if name in known:
        return f"has the id {name!r} of another layer"
    if kind not in _LAYERS:
        return f"{name!r} has an unknown type"
    if kind not in ("background", "sky"):
        source = layer.get("source")
        if not isinstance(source, str) or source not in sources:
            return f"{name!r} names a source that the style does not have"
        needs_table = sources[source].get("type") == "vector" if sources[source] else False
        if needs_table and not isinstance(layer.get("source-layer"), str):
            return f"{name!r} has no source-layer"
    for key in ("layout", "paint"):
        if not isinstance(layer.get(key, {}), dict):
            return f"{key} of {name!r} is not an object"
    for key in ("minzoom", "maxzoom"):
        value = layer.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{key} of {name!r} is not a number"
    return ""
