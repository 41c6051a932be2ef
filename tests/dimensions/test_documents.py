"""Capabilities of many layers with many dates (time.md section 7, row 7)."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from tests.series import write_value
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation

LAYERS = 100
DATES = 500
FIRST = date(1990, 1, 1)

OpenClient = Callable[[Path], Client]
Dates = Callable[[int], list[str]]


def regular(_layer: int) -> list[str]:
    return [f"{FIRST + timedelta(days=16 * number)}" for number in range(DATES)]


def irregular(layer: int) -> list[str]:
    """Return dates that no other layer has."""
    days = sorted(random.Random(layer).sample(range(12_000), DATES))
    return [f"{FIRST + timedelta(days=number)}" for number in days]


def installation(folder: Path, dates: Dates | None) -> Path:
    """Write layers with a pyramid for all dates; without dates, plain ones."""
    path = write_value(folder, "value", (1, 2, 3))
    layers = {f"L{number:03d}": dict(layer_document(path)) for number in range(LAYERS)}
    for number, (name, document) in enumerate(layers.items()):
        if dates is not None:
            facts = {"path": path.name, "generation": "0" * 12}
            rows = [{"at": {"time": text}, **facts} for text in dates(number)]
            stack = folder / f"pyramids/{name}.stack.json"
            stack.write_text(json.dumps({"variants": rows}))
            document |= {"dimensions": [{"name": "time"}], "variants": {"stack": str(stack)}}
    return write_installation(folder, layers=layers, services=("wms", "wmts"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> dict[str, bytes]:
    client = open_client(installation(tmp_path_factory.mktemp("plain"), None))
    return {service: capabilities(client, service)[0] for service in ("wms", "wmts")}


def capabilities(client: Client, service: str) -> tuple[bytes, float]:
    """Return a document, and the seconds of processor time that it took."""
    query = {"SERVICE": service.upper(), "REQUEST": "GetCapabilities"}
    began = time.process_time()
    answer = client.get(f"/{service}", query_string=query)
    assert answer.status_code == 200
    return answer.data, time.process_time() - began


@pytest.mark.parametrize(("dates", "kibibytes"), [(regular, 64), (irregular, 300)])
def test_capabilities_of_many_dates_are_small(
    tmp_path: Path,
    open_client: OpenClient,
    plain: dict[str, bytes],
    dates: Dates,
    kibibytes: int,
) -> None:
    client = open_client(installation(tmp_path, dates))
    for service in ("wms", "wmts"):
        found, seconds = capabilities(client, service)
        assert found.count(b"L000<") >= 1
        # Regular dates are one run in WMS. Lists, which WMTS always has, count as they are sent.
        is_list = dates is irregular or service == "wmts"
        sent = [len(gzip.compress(one) if is_list else one) for one in (found, plain[service])]
        assert sent[0] - sent[1] <= kibibytes * 1024, service
        # The bar is 1 s; the machine of a test may be slow.
        assert seconds < 4, service
