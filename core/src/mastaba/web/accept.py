"""Accept headers: what a client accepts, and what it prefers (RFC 9110 section 12.5)."""

from __future__ import annotations

from collections.abc import Sequence


class Accept:
    """Elements of an Accept, Accept-Encoding or Accept-Language header.

    Args:
        header: value of the header; empty if the client has sent none.

    Attributes:
        elements: names in lower case and weights, the most specific first, then by weight.
            Elements with an invalid weight are left out.
    """

    __slots__ = ("elements",)

    def __init__(self, header: str) -> None:
        found = map(_element, header.split(","))
        self.elements = sorted((one for one in found if 0 <= one[1] <= 1), key=_rank, reverse=True)

    def __getitem__(self, name: str) -> float:
        """Return the weight of a name, 0 if the client does not accept it."""
        return self._covering(name)[1]

    def best(self, names: Sequence[str]) -> str | None:
        """Return the preferred name, or None if the client accepts none of them.

        Among names of equal weight, the one that the header names most specifically, then the
        first one.
        """
        found = {name: self._covering(name) for name in names}
        best = max(names, key=lambda name: (found[name][1], _rank(found[name])))
        return best if found[best][1] > 0 else None

    def _covering(self, name: str) -> tuple[str, float]:
        wanted, _ = _element(name)
        return next((one for one in self.elements if _covers(one[0], wanted)), ("", 0.0))


def _element(text: str) -> tuple[str, float]:
    """Return the name with its parameters in a fixed order, and the weight; -1 if it is invalid."""
    name, *parameters = text.lower().replace(" ", "").replace('"', "").split(";")
    kept = sorted(part for part in parameters if part and not part.startswith("q="))
    try:
        weight = next((float(part[2:]) for part in parameters if part.startswith("q=")), 1.0)
    except ValueError:
        weight = -1.0
    return ";".join((name, *kept)), weight


def _covers(element: str, name: str) -> bool:
    return element in (name, "*/*") or (element[-1:] == "*" and name.startswith(element[:-1]))


def _rank(element: tuple[str, float]) -> tuple[bool, bool, int, float]:
    name, weight = element
    return name not in ("*", "*/*"), not name.endswith("/*"), name.count(";"), weight
