"""Requests made at random from the API definition find no server error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def address(serving: Any, rich_path: Callable[[str], Path]) -> Any:
    with serving(rich_path) as url:
        yield f"{url}/ogcapi"


def test_no_request_fails_and_all_answers_are_as_described(address: str) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings

    wanted = [
        getattr(schemathesis.checks, name)
        for name in (
            "not_a_server_error",
            "status_code_conformance",
            "content_type_conformance",
            "response_schema_conformance",
        )
    ]
    schema = schemathesis.openapi.from_url(f"{address}/api?f=json")
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=40,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Any) -> None:
            case.call_and_validate(checks=wanted)

        ask()
