"""What a reload must not start again from zero, such as counters that limit clients."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

_known: Final[WeakValueDictionary[Hashable, Any]] = WeakValueDictionary()


def lasting(made: Callable[..., T], *key: Hashable) -> T:
    """Return the object of a kind and key that is in use, or else a new one.

    A reload builds the new state in the supervisor while the old one still exists there. Both get
    the same object from here, so old and new workers share its memory.

    Args:
        made: class, or function that makes the object; without arguments.
        key: of the configuration that the object belongs to, such as the path of a file.
    """
    found: T | None = _known.get((made, key))
    if found is None:
        found = _known[made, key] = made()
    return found
