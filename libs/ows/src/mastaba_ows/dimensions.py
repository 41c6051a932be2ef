"""Values of dimensions in parameters, and warnings about them (WMS 1.3.0, annex C)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mastaba.api.dimensions import Dimension, Note

_PREFIX = "dim_"


def requested_values(
    parameters: Mapping[str, str], dimensions: Iterable[Dimension]
) -> dict[str, str]:
    """Return the values of dimensions in the parameters of a request, by name.

    A name may have the prefix ``DIM_`` or not. Values that are empty are left out.

    Args:
        parameters: decoded, with names in lower case.
        dimensions: those of the layers; other parameters are ignored.
    """
    found = {}
    for dimension in dimensions:
        text = parameters.get(dimension.name) or parameters.get(_PREFIX + dimension.name)
        if text:
            found[dimension.name] = text
    return found


def parameter_names(dimensions: Iterable[Dimension]) -> frozenset[str]:
    """Return the names of the parameters that `requested_values` reads."""
    names = [dimension.name for dimension in dimensions]
    return frozenset((*names, *(_PREFIX + name for name in names)))


def warning_headers(notes: Iterable[Note]) -> list[tuple[str, str]]:
    """Return a ``Warning`` header for each value that is not the requested one."""
    return [("Warning", note.warning) for note in dict.fromkeys(notes)]
