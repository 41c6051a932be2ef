"""Nodes that follow one bucket: every answer is of one generation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.agreement import Bucket, change_and_compare, running_nodes
from tests.live_storage.conftest import Store, s3_writer
from tests.sizes import sized

CHANGES = sized(4, 10)
"""A change is read by three nodes. tests/live/test_agreement.py has more of them, in files."""


def test_no_answer_is_mixed_in_many_changes(
    rgw: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in rgw.variables.items():
        if "_S3_" in name:
            monkeypatch.setenv(name, text)
    place = Bucket(s3_writer(rgw, "agreement"))
    with running_nodes(tmp_path, place, 3) as nodes:
        seconds = change_and_compare(nodes, place, CHANGES)
    print(f"{CHANGES} changes: all nodes agree after {max(seconds):.1f} s at most")
