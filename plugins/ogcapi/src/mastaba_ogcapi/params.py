"""Request parameters, parsed from text (ogcapi.md sections 8 and 9)."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mastaba.api.web import Request, decode, printable
from mastaba.errors import InvalidParameterError
from mastaba_ows import parameters as grammar

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Collection, Dataset

_END: Final = r'( *"[^"]{1,80}" *|[^():,"]{1,80})'
_AXIS: Final = re.compile(rf"\s*([A-Za-z][A-Za-z0-9_]{{0,31}})\({_END}(?::{_END})?\)\s*")
_VALUE: Final = re.compile(r"\s*([A-Za-z]{1,32})\(([^():,]{0,80})\)\s*")
# No meaningful text is longer.
_MAX_TEXT: Final = 1000
_MAX_SUBSETS: Final = 16
OPEN: Final = "*"
"""An open end of an interval in ``subset``."""


class Interval(NamedTuple):
    """An interval on an axis; None is an open end."""

    low: float | None
    high: float | None


def number(text: str, name: str) -> float:
    """Return a decimal number.

    Raises:
        InvalidParameterError: not a finite number.
    """
    value = grammar.decimal(text)
    if value is None:
        raise InvalidParameterError(f"{name} is not a number: {printable(text)}", name)
    return value


def positive_number(parameters: Mapping[str, str], name: str) -> float | None:
    """Return a number above 0; None when the parameter is absent.

    Raises:
        InvalidParameterError: not such a number.
    """
    text = parameters.get(name)
    if text is None:
        return None
    value = number(text, name)
    if value <= 0:
        raise InvalidParameterError(f"{name} must be greater than 0", name)
    return value


def numbers(text: str, name: str, counts: Sequence[int]) -> list[float]:
    """Return comma-separated numbers.

    Args:
        counts: the allowed counts.

    Raises:
        InvalidParameterError: another count, or not numbers.
    """
    texts = text.split(",") if len(text) <= _MAX_TEXT else []
    if len(texts) not in counts:
        wanted = " or ".join(map(str, counts))
        raise InvalidParameterError(f"{name} must be {wanted} numbers with commas between", name)
    return [number(item.strip(), name) for item in texts]


def box(text: str, name: str, *, cyclic: int | None = None) -> tuple[float, float, float, float]:
    """Return the edges of a box in the order given: lower corner, upper corner.

    Vertical values are dropped if there are six numbers.

    Args:
        cyclic: axis of longitudes, 0 or 1, whose minimum may be above its maximum: the box is then
            across the antimeridian. None if there is none.

    Raises:
        InvalidParameterError: not four or six numbers, or a minimum that is not below its
            maximum.
    """
    values = numbers(text, name, (4, 6))
    if len(values) == 6:
        del values[5], values[2]
    one, two, three, four = values
    if not (
        (one < three or (cyclic == 0 and one > three))
        and (two < four or (cyclic == 1 and two > four))
    ):
        raise InvalidParameterError(f"{name} must have each minimum below its maximum", name)
    return one, two, three, four


def size(parameters: Mapping[str, str], name: str, limit: int) -> int | None:
    """Return a number of pixels; None when the parameter is absent.

    Raises:
        InvalidParameterError: not an integer from 1 to the limit.
    """
    text = parameters.get(name)
    return None if text is None else grammar.integer(text, name, 1, limit)


def flag(parameters: Mapping[str, str], name: str) -> bool | None:
    """Return true or false; None when the parameter is absent.

    Raises:
        InvalidParameterError: another value.
    """
    text = parameters.get(name)
    if text is None:
        return None
    found = grammar.flag(text)
    if found is None:
        raise InvalidParameterError(f"{name} must be true or false", name)
    return found


def colour(parameters: Mapping[str, str], name: str) -> grammar.Colour | None:
    """Return a colour as red, green, blue; None when the parameter is absent.

    Valid colours are six hexadecimal digits, optionally after ``0x`` or ``#``, and CSS colour
    names in any letter case (CSS Color Module Level 3, 4.3).

    Raises:
        InvalidParameterError: another value.
    """
    text = parameters.get(name)
    if text is None:
        return None
    found = grammar.colour(text) or _named_colour(text.lower())
    if found is None:
        raise InvalidParameterError(
            f"{name} must be of the form 0xRRGGBB, or the name of a colour", name
        )
    return found


def _named_colour(name: str) -> grammar.Colour | None:
    from PIL.ImageColor import colormap, getrgb  # few requests name a colour

    return getrgb(name)[:3] if name in colormap else None


def collection(dataset: Dataset, name: str) -> Collection:
    """Return the collection that a query names.

    Raises:
        InvalidParameterError: there is no such collection.
    """
    found = dataset.find(name)
    if found is None:
        raise InvalidParameterError(f"there is no collection {printable(name)}", "collection")
    return found


def subsets(request: Request, without: Container[str] = ()) -> dict[str, Interval]:
    """Return the intervals from all ``subset`` parameters by axis name in lower case.

    Args:
        without: axes to leave out, those of dimensions.

    Raises:
        InvalidParameterError: not of the form ``axis(low:high)``, or a duplicate axis.
    """
    # A single value is an interval without extent.
    return {
        name: Interval(_end(ends[0]), _end(ends[-1]))
        for name, ends in subset_texts(request).items()
        if name not in without
    }


def subset_texts(request: Request) -> dict[str, list[str]]:
    """Return the ends in all ``subset`` parameters, one or two, by axis name in lower case.

    Raises:
        InvalidParameterError: not of the form ``axis(low:high)``, or a duplicate axis.
    """
    found: dict[str, list[str]] = {}
    for text in _all_subsets(request):
        for name, *ends in _axes(text):
            if name in found:
                raise InvalidParameterError(f"subset names the axis {name} twice", "subset")
            found[name] = [end.strip().strip('"') for end in ends if end is not None]
    return found


def _all_subsets(request: Request) -> list[str]:
    found = []
    for item in request.query_string.split("&"):
        key, equals, value = item.partition("=")
        if equals and decode(key).lower() == "subset":
            found.append(decode(value))
    if len(found) > _MAX_SUBSETS:
        raise InvalidParameterError("subset is repeated too often", "subset")
    return found


def _axes(text: str) -> list[tuple[str, str, str | None]]:
    found = []
    position = 0
    while position <= len(text) <= _MAX_TEXT:
        match = _AXIS.match(text, position)
        if match is None:
            break
        name, low, high = match.groups()
        found.append((name.lower(), low, high))
        position = match.end()
        if position == len(text):
            return found
        if text[position] != ",":
            break
        position += 1
    raise InvalidParameterError("subset must be of the form Lat(40:50),Lon(5:6)", "subset")


def axis_values(text: str, name: str) -> dict[str, float | None]:
    """Return numbers by axis name in lower case, such as of ``Lat(256),Lon(256)``.

    Returns:
        None for an axis with empty brackets.

    Raises:
        InvalidParameterError: not of this form, or a duplicate axis.
    """
    found: dict[str, float | None] = {}
    for item in text[:_MAX_TEXT].split(","):
        match = _VALUE.fullmatch(item)
        if match is None or match[1].lower() in found:
            raise InvalidParameterError(f"{name} must be of the form Lat(256),Lon(256)", name)
        value = match[2].strip()
        found[match[1].lower()] = number(value, name) if value else None
    return found


def _end(text: str) -> float | None:
    return None if text == OPEN else number(text, "subset")
