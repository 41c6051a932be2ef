"""Digests: short names of what is published, equal on all nodes that publish the same."""

from __future__ import annotations

import json
from hashlib import blake2b


def digest_of(*parts: object) -> str:
    """Return 12 hexadecimal digits that depend on the content of the parts only.

    Args:
        parts: documents as read from files, or values with a stable ``repr``.
    """
    text = json.dumps(parts, sort_keys=True, default=repr)
    return blake2b(text.encode(), digest_size=6).hexdigest()
