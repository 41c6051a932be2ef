"""The body of an order: inputs of a process (18-062r2 clauses 7.9.2, 7.9.3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError
from mastaba_ows.errors import MediaTypeError
from mastaba_ows.links import JSON

if TYPE_CHECKING:
    from mastaba.api.web import Request


_KNOWN: Final = frozenset({"inputs", "outputs", "response", "mode", "subscriber"})


def inputs_of(request: Request) -> dict[str, Any]:
    """Return the inputs that the body of a request gives, by name.

    A value may be given as it is, or in a member ``value``. A box may also be an object with the
    members ``bbox`` and ``crs``.

    Raises:
        MediaTypeError: the body is not JSON by its media type, which browsers send for pages of
            other origins only with permission.
        InvalidParameterError: the body is not of this form, or asks for what is not offered.
        RequestTooLargeError: it is too large.
    """
    if request.media_type != JSON:
        raise MediaTypeError(f"send the body as {JSON}")
    body = _parsed(request.body())
    if not isinstance(body, dict):
        raise InvalidParameterError("the body is not a JSON object")
    unknown = sorted(map(printable, body.keys() - _KNOWN))
    if unknown:
        raise InvalidParameterError(f"the body has the unknown member {unknown[0]}", unknown[0])
    if "subscriber" in body:
        text = "subscribers are not notified; request the status of the job"
        raise InvalidParameterError(text, "subscriber")
    if body.get("response", "document") != "document":
        raise InvalidParameterError("response must be document", "response")
    outputs = body.get("outputs", {})
    if not isinstance(outputs, dict) or outputs.keys() - {"result"}:
        raise InvalidParameterError("the only output is result", "outputs")
    inputs = body.get("inputs", {})
    if not isinstance(inputs, dict):
        raise InvalidParameterError("inputs is not an object", "inputs")
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        found[name] = _value(name, value)
    box = found.get("bbox")
    if isinstance(box, dict):
        found["bbox"] = box.get("bbox")
        if "crs" in box:
            found.setdefault("crs", box["crs"])
    return found


def _value(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "href" in value and "type" not in value:
        text = f"{printable(name)} must be given in the body: nothing is read from other servers"
        raise InvalidParameterError(text, printable(name))
    return value.get("value", value)


def _parsed(data: bytes) -> Any:
    try:
        found = json.loads(data, parse_constant=_refuse, parse_float=_number)
        # Half of a surrogate pair is a string of JSON, but not text.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
        return found
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidParameterError(f"the body is not JSON: {printable(reason)}") from error


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:20]} is too large")
    return number


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number")
