"""Parameters of a request, from its query, a form or a JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError, MissingParameterError
from mastaba_ows.errors import MediaTypeError
from mastaba_ows.parameters import decimal, flag

if TYPE_CHECKING:
    from mastaba.api.web import Request

_JSON: Final = ("application/json", "application/geo+json")
_FORM: Final = "application/x-www-form-urlencoded"


class Parameters:
    """Values by lower-case name: texts, or values of JSON.

    Args:
        values: they are not copied.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text.

        Raises:
            MissingParameterError: it is absent or empty, and there is no default.
            InvalidParameterError: it is not a text or number.
        """
        value = self.values.get(name)
        if value is None or value == "":
            if default is None:
                raise MissingParameterError(f"the parameter {name} is missing", name)
            return default
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return repr(value)
        raise InvalidParameterError(f"{name} is not a text", name)

    def number(
        self,
        name: str,
        default: float | None = None,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> float:
        """Return a finite number from ``low`` to ``high``. Raises the errors of `text`."""
        if default is not None and self.values.get(name) in (None, ""):
            return default
        text = self.text(name)
        value = decimal(text)
        if value is None or not low <= value <= high:
            raise InvalidParameterError(f"{name} is not {_between(low, high)}", name)
        return value

    def optional(self, name: str, low: float = -math.inf) -> float | None:
        """Return a finite number of at least ``low``, or None. Raises the errors of `text`."""
        return self.number(name, None, low) if name in self.values else None

    def integer(
        self, name: str, default: int | None = None, low: int = 0, high: int = 2**31
    ) -> int:
        """Return an integer from ``low`` to ``high``. Raises the errors of `text`."""
        value = self.number(name, default, low, high)
        if value != int(value):
            raise InvalidParameterError(f"{name} must be an integer", name)
        return int(value)

    def flag(self, name: str) -> bool:
        """Return whether a parameter is true; false if it is absent.

        Raises:
            InvalidParameterError: it is neither ``true`` nor ``false``.
        """
        value = flag(self.text(name, "false"), digits=True)
        if value is None:
            raise InvalidParameterError(f"{name} is neither true nor false", name)
        return value

    def choice(self, name: str, offered: Iterable[str], default: str) -> str:
        """Return one of some words.

        Raises:
            InvalidParameterError: it is another one.
        """
        value = self.text(name, default)
        words = list(offered)
        if value != default and value not in words:
            message = f"{name} is {printable(value)}, not one of {', '.join(words)}"
            raise InvalidParameterError(message, name)
        return value

    def numbers(self, name: str, default: Iterable[float], most: int = 100) -> list[float]:
        """Return numbers separated by commas, or a list of JSON. Raises the errors of `text`."""
        value = self.values.get(name)
        if value is None or value == "":
            return list(default)
        items = value if isinstance(value, list) else self.text(name).split(",")
        if len(items) > most:
            raise InvalidParameterError(f"{name} has more than {most} numbers", name)
        return [Parameters({name: item}).number(name) for item in items]


def parameters_of(request: Request) -> Parameters:
    """Return the parameters of a request: of GET its query, of POST its body.

    Raises:
        MediaTypeError: the body is neither JSON nor a form.
        InvalidParameterError: the body is not a JSON object.
        RequestTooLargeError: the body is too large.
    """
    if request.method != "POST":
        return Parameters(request.query)
    document = posted(request)
    if not isinstance(document, dict):
        raise InvalidParameterError("the body is not a JSON object")
    return Parameters({str(name).lower(): value for name, value in document.items()})


def read_request(request: Request) -> tuple[Parameters, Any]:
    """Return the parameters of a request, and the geometry that is its whole body, or None.

    The body of a POST is an object with parameters, or just GeoJSON; the query then has the
    parameters.

    Raises:
        MediaTypeError, InvalidParameterError, RequestTooLargeError: as in `parameters_of`.
    """
    if request.method != "POST":
        return Parameters(request.query), None
    body = posted(request)
    if isinstance(body, dict) and "type" not in body:
        fields = {str(name).lower(): value for name, value in body.items()}
        return Parameters({**request.query, **fields}), None
    return Parameters(request.query), body


def posted(request: Request) -> Any:
    """Return the body of a request: parsed JSON, or the fields of a form.

    Raises:
        MediaTypeError, InvalidParameterError, RequestTooLargeError: as in `parameters_of`.
    """
    media_type = request.media_type
    if media_type == _FORM:
        # Loaded on first use: with the reader of XML.
        from mastaba_ows.post import form_parameters

        return form_parameters(request.body())
    if media_type not in _JSON:
        raise MediaTypeError("the Content-Type of the body is not application/json")
    try:
        return orjson.loads(request.body())
    except orjson.JSONDecodeError:
        raise InvalidParameterError("the body is not valid JSON") from None


def _between(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return "a finite number"
    if math.isinf(high):
        return f"a number of at least {low:g}"
    return f"a number from {low:g} to {high:g}"
