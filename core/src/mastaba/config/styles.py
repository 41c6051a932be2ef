"""Style descriptors (style.md)."""

from __future__ import annotations

from typing import Any, Final

from mastaba.config.identifiers import problem_of, shortened
from mastaba.model.style import Legend, Palette, PaletteEntry, Style
from mastaba_documents.faults import FileFaults

_PROCESSING: Final[tuple[str, ...]] = ("estompage", "pente", "exposition", "terrainrgb", "colorize")
_NOT_WITH_PALETTE: Final = ("terrainrgb", "colorize")
_ONE_CHANNEL: Final = frozenset(("estompage", "pente", "exposition", "terrainrgb"))


def make_style(identifier: str, document: dict[str, Any], faults: FileFaults) -> Style:
    """Return the style from a valid document.

    Raises:
        UnusableError: it cannot be used; the reason is recorded.
    """
    problem = problem_of(document["identifier"])
    if problem is not None:
        reason = f"{shortened(document['identifier'])} cannot be an identifier: {problem}"
        faults.refuse("$.identifier", reason, "choose another one")
    processing = {name: document[name] for name in _PROCESSING if name in document}
    palette = _palette(document.get("palette", {}), faults)
    if len(processing) > 1:
        faults.refuse("$", f"{' and '.join(processing)} exclude each other", "keep one of them")
    if palette is not None and any(name in _NOT_WITH_PALETTE for name in processing):
        faults.refuse("$.palette", f"excludes {next(iter(processing))}", "keep one of them")
    return Style(
        id=identifier,
        identifier=document["identifier"],
        title=document["title"],
        abstract=document.get("abstract", ""),
        keywords=tuple(document.get("keywords", ())),
        legend=_legend(document["legend"]) if "legend" in document else None,
        palette=palette,
        processing=processing,
    )


def unusable_reason(style: Style, channels: int) -> str | None:
    """Return why a style cannot be used for a pyramid, or None if it can."""
    if (style.palette or _ONE_CHANNEL & style.processing.keys()) and channels != 1:
        return f"needs one channel, the pyramid has {channels}"
    source = style.processing.get("colorize", {}).get("source", (255, 255, 255))
    if "colorize" in style.processing and len(source) != channels:
        return f"needs {len(source)} channels, the pyramid has {channels}"
    return None


def _palette(document: dict[str, Any], faults: FileFaults) -> Palette | None:
    entries: dict[float, PaletteEntry] = {}
    for position, colour in enumerate(document.get("colours", ())):
        value = float(colour["value"])
        if value in entries:
            at = f"$.palette.colours[{position}].value"
            reason = f"duplicate value {value:g}, the first one is used"
            faults.warning(at, reason, "remove one of them")
            continue
        rgba = (int(colour[name]) for name in ("red", "green", "blue", "alpha"))
        entries[value] = PaletteEntry(value, *rgba)
    if not entries:
        return None
    flags = (document.get(key, False) for key in ("rgb_continuous", "alpha_continuous", "no_alpha"))
    return Palette(tuple(entries[value] for value in sorted(entries)), *flags)


def _legend(document: dict[str, Any]) -> Legend:
    return Legend(
        media_type=document["format"],
        url=document["url"],
        width=int(document["width"]),
        height=int(document["height"]),
        min_scale_denominator=float(document["min_scale_denominator"]),
        max_scale_denominator=float(document["max_scale_denominator"]),
    )
