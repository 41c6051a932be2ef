"""nginx keeps what lives as long as it would keep it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("cache_control", "is_kept"),
    [
        ("", False),
        ("private", False),
        ("private, no-cache", False),
        ("no-store", False),
        ("private, max-age=0", False),
        ("private, max-age=5", False),
        ("private, max-age=59, stale-while-revalidate=9999", False),
        ("private, max-age=599", False),
        ("Private, Max-Age=0599", False),
        ("private, max-age=600", True),
        ('private, max-age="600"', True),
        ("private, max-age=1000", True),
        ("private, max-age=31536000, immutable", True),
        ("public, max-age=60, s-maxage=3600", False),
        ("public, max-age=86400, s-maxage=60", False),
        ("public, max-age=3600, s-maxage=86400", True),
    ],
)
def test_what_is_kept_lives_long_enough(deploy: Path, cache_control: str, is_kept: bool) -> None:
    text = (deploy / "nginx" / "mastaba-auth.conf").read_text("utf-8")
    assert "proxy_cache_valid 200 10m;" in text
    (entries,) = re.findall(r"map \$upstream_http_cache_control \S+ \{\n(.*?)\n\}", text, re.S)
    for pattern, value in re.findall(r'^ +"~\*(.*)" (\d);$', entries, re.M):
        if re.search(pattern.replace('\\"', '"'), cache_control, re.IGNORECASE):
            assert (value == "0") == is_kept
            return
    assert "default 1;" in entries
    assert not is_kept
