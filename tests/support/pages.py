"""Pages for browsers that have one style sheet, in themselves."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256


def allows_its_style(page: str, policy: str) -> bool:
    """Return whether a policy allows the style sheet of a page, and no other one."""
    (style,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"style-src 'sha256-{digest}'" in policy
