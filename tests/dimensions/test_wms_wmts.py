"""Values of time over WMS and WMTS, compared with an oracle."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.series import colour_of, series_document, series_installation
from tests.sizes import sized
from werkzeug.test import Client, TestResponse

pytestmark = pytest.mark.thorough

OpenClient = Callable[[Path], Client]

HALF = 20037508.342789244
BOX = ",".join(str(HALF * 3 / 8 + n * HALF / 1024) for n in (-1, -1, 1, 1))
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "PLAIN": {},
    "NEAREST": {"nearest": True},
    "ONE": {"nearest": True, "multiple": False},
}
MAP = {
    "SERVICE": "WMS",
    "REQUEST": "GetMap",
    "STYLES": "",
    "BBOX": BOX,
    "WIDTH": "2",
    "HEIGHT": "2",
    "FORMAT": "image/png",
}
TILE = {
    "SERVICE": "WMTS",
    "REQUEST": "GetTile",
    "VERSION": "1.0.0",
    "STYLE": "normal",
    "FORMAT": "image/png",
    "TILEMATRIXSET": "PM",
    "TILEMATRIX": "3",
    "TILEROW": "2",
    "TILECOL": "4",
}


def pixels_of(response: TestResponse) -> NDArray[Any]:
    assert response.status_code == 200, response.text
    return np.asarray(Image.open(io.BytesIO(response.data)))


class Protocols:
    """Asks for one value of a layer in every binding."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def maps(self, layer: str, text: str) -> Iterator[TestResponse]:
        for version, crs in (("1.3.0", "CRS"), ("1.1.1", "SRS")):
            query = MAP | {"VERSION": version, crs: "EPSG:3857", "LAYERS": layer, "TIME": text}
            yield self.client.get("/wms", query_string=query)

    def tiles(self, layer: str, text: str) -> Iterator[TestResponse]:
        """Yield the answers to parameters, twice, which the tile table answers, and to XML."""
        query = TILE | {"LAYER": layer, "Time": text}
        for _ in range(2):
            yield self.client.get("/wmts", query_string=query)
        yield self.client.post("/wmts", data=query)

    def path(self, layer: str, text: str) -> TestResponse:
        return self.client.get(f"/wmts/1.0.0/{layer}/normal/{text}/PM/3/2/4.png")


@pytest.mark.parametrize("name", ["years", "campaigns", "months", "days", "mixed"])
def test_values_over_wms_and_wmts_are_those_of_the_oracle(
    tmp_path: Path, open_client: OpenClient, name: str
) -> None:
    from tests.dimensions.oracle import Oracle
    from tests.dimensions.test_resolution import FIXED, SETS, random_text, spellings

    texts = SETS[name]
    rows = [{"time": text} for text in texts]
    layers = {
        layer: series_document(tmp_path / layer, rows, dimensions=[{"name": "time", **options}])
        for layer, options in OPTIONS.items()
    }
    server_json = series_installation(tmp_path, rows, services=("wms", "wmts"), others=layers)
    protocols = Protocols(open_client(server_json))
    rng = random.Random(name)
    asked = [*FIXED, *(one for text in texts for one in spellings(text))]
    asked += [random_text(rng, texts) for _ in range(150)]
    asked = rng.sample(asked, sized(len(asked) // 8, len(asked)))
    for layer, options in OPTIONS.items():
        oracle = Oracle(texts, options.get("nearest", False), None, options.get("multiple", True))
        for text in dict.fromkeys(asked):
            if text.startswith("-") or "/-" in text or ",-" in text:
                continue  # The oracle has no negative years.
            for response in protocols.maps(layer, text):
                check(response, oracle.answer(text, 16), texts, 400, (layer, text))
                expected = oracle.answer(text, 16).note
                warned = response.headers.get("Warning", "")
                if response.status_code == 200:
                    assert warned[3:10].lower().strip() == expected, (layer, text)
            for response in protocols.tiles(layer, text):
                check(response, oracle.answer(text, 1), texts, 400, (layer, text))
            if text and "/" not in text and text not in (".", "..") and text.isascii():
                answer = oracle.answer(text, 1)
                status = 404 if answer.error == "none" else 400
                for response in (protocols.path(layer, text), protocols.path(layer, text)):
                    check(response, answer, texts, status, (layer, text))


def _in_order(texts: tuple[str, ...]) -> list[Any]:
    from tests.dimensions.oracle import values_of

    return values_of(texts)


def check(
    response: TestResponse, answer: Any, texts: tuple[str, ...], status: int, context: object
) -> None:
    """Compare a response with what the oracle says; the newest value is on top."""
    if answer.error:
        assert response.status_code == status, (context, answer)
        return
    by_text = {value.text: value.spelt for value in _in_order(texts)}
    wanted = answer.texts[0]
    position = texts.index(by_text[wanted]) if wanted else len(texts) - 1
    found = pixels_of(response)[0, 0]
    assert tuple(int(one) for one in found[:3]) == colour_of(position), (context, answer)
