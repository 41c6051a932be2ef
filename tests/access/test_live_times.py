"""A limit of times over WMS, WMTS and TMS: nothing of a hidden time leaves a server.

Clients that may see all times ask for the same in turn, so caches contain what is hidden.
"""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.access.identification.conftest import Credentials
from tests.live.client import Answer, ask
from tests.live.processes import Mastaba, changed, free_port
from tests.series import colour_of, series_installation

pytestmark = pytest.mark.live

YEARS = ("1950", "1975", "1987", "2041")
HIDDEN, UNKNOWN = ("1987", "2041"), "1991"
RULES = {
    "default": "allow",
    "rules": [
        {"name": "all", "who": ["group:archive"], "allow": {}},
        {"name": "old", "what": {"layers": ["ORTHO"]}, "limit": {"time": ["1950", "1975"]}},
    ],
}
DOCUMENTS = (
    "/wms{}?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.3.0",
    "/wms{}?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.1.1",
    "/wmts{}?SERVICE=WMTS&REQUEST=GetCapabilities",
    "/tms{}",
    "/tms{}/1.0.0",
    "/tms{}/1.0.0/ORTHO",
    "/tms{}/1.0.0/ORTHO/metadata.json",
    "/tms{}/1.0.0/ORTHO/gdal.xml",
    "/ogcapi{}/collections/ORTHO?f=json",
)
MAP = (
    "/wms{}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&CRS=EPSG:3857&WIDTH=16&HEIGHT=16"
    "&BBOX=1000000,6000000,1200000,6200000&FORMAT=image/png"
)
KVP = (
    "/wmts{}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2"
)
PICTURES = (
    MAP + "&LAYERS=ORTHO&TIME=YEAR",
    MAP + "&LAYERS=ORTHO&TIME=YEAR-06",
    MAP + "&LAYERS=ORTHO&TIME=1950/YEAR",
    MAP + "&LAYERS=ORTHO&TIME=YEAR/2100",
    MAP + "&LAYERS=ORTHO&TIME=1950,YEAR",
    MAP + "&LAYERS=ORTHO&time=YEAR0101",
    MAP + "&LAYERS=ORTHO&DIM_TIME=YEAR",
    MAP + "&LAYERS=ORTHO;time=YEAR",
    MAP + "&LAYERS=ORTHO%3Btime%3DYEAR",
    MAP + "&LAYERS=ORTHO_YEAR",
    MAP + "&LAYERS=ORTHO",
    MAP + "&LAYERS=ORTHO&TIME=current",
    MAP.replace("GetMap", "GetFeatureInfo")
    + "&LAYERS=ORTHO&QUERY_LAYERS=ORTHO&TIME=YEAR&I=3&J=3&INFO_FORMAT=application/json",
    KVP + "&LAYER=ORTHO&TIME=YEAR",
    KVP + "&LAYER=ORTHO;time=YEAR",
    KVP + "&LAYER=ORTHO_YEAR",
    KVP + "&LAYER=ORTHO",
    "/wmts{}/1.0.0/ORTHO/normal/YEAR/PM/2/1/2.png",
    "/wmts{}/1.0.0/ORTHO;time=YEAR/normal/PM/2/1/2.png",
    "/tms{}/1.0.0/ORTHO;time=YEAR/2/2/2.png",
    "/tms{}/1.0.0/ORTHO;time=YEAR/metadata.json",
    "/tms{}/1.0.0/ORTHO;time=YEAR",
    "/tms{}/1.0.0/ORTHO_YEAR/2/2/2.png",
    "/tms{}/1.0.0/ORTHO/2/2/2.png",
    "/ogcapi{}/collections/ORTHO/map?width=16&height=16&datetime=YEAR",
    "/ogcapi{}/collections/ORTHO/map/tiles/PM/2/1/2?datetime=YEAR",
)


class Server:
    """A server with a key that shows all times."""

    def __init__(self, folder: Path, stack: ExitStack, *, nearest: bool) -> None:
        credentials, port = Credentials(folder), free_port()
        self.key = credentials.key(groups=["archive"])
        self.url = f"http://127.0.0.1:{port}"
        (folder / "rules.json").write_text(json.dumps(RULES))
        path = series_installation(
            folder / "series",
            [{"time": year} for year in YEARS],
            services=("wms", "wmts", "tms", "ogcapi"),
            dimensions=[{"name": "time", "nearest": nearest}],
            names={"template": "ORTHO_{time}", "listed": True},
            get_feature_info={"type": "PYRAMID"},
        )
        section = {"rules": str(folder / "rules.json"), **credentials.section()}
        logger = {"output": "standard_output", "level": "info"}
        file = changed(
            path, folder / "server.json", workers=2, logger=logger, plugins={"access": section}
        )
        stack.enter_context(Mastaba(file, folder, http=port))

    def get(self, template: str, year: str = "", *, sees_all: bool = False, **more: Any) -> Answer:
        segment = f"/~{self.key}" if sees_all else ""
        return ask(self.url, template.format(segment).replace("YEAR", year), **more)


@pytest.fixture(scope="module", params=[False, True], ids=["exact", "nearest"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with ExitStack() as stack:
        yield Server(tmp_path_factory.mktemp("times"), stack, nearest=request.param)


def colours(answer: Answer) -> set[tuple[int, ...]]:
    """Return the colours of a picture, or of values in text; none of errors and documents."""
    kind = answer.headers.get("content-type", "")
    if kind.startswith("image/") and answer.status == 200:
        with Image.open(io.BytesIO(answer.body)) as image:
            found: Any = image.convert("RGB").getcolors(65536)
        return {tuple(colour) for _, colour in found}
    text = answer.body.decode("utf-8", "replace").replace(" ", "")
    return {
        colour_of(place)
        for place in range(len(YEARS))
        if all(f"{sample}" in text for sample in (",".join(map(str, colour_of(place))),))
    }


def test_documents_name_no_hidden_time(server: Server) -> None:
    for document in DOCUMENTS:
        full, shown = server.get(document, sees_all=True), server.get(document)
        assert (full.status, shown.status) == (200, 200), document
        for year in HIDDEN:
            # Not within the digits of another number.
            word = rf"(?<![0-9]){year}(?![0-9])"
            assert not re.search(word, shown.body.decode()), document
            assert not re.search(word, str(dict(shown.headers))), document
    # The key sees them, so the test can fail.
    for document in (DOCUMENTS[0], DOCUMENTS[2], DOCUMENTS[-1]):
        assert HIDDEN[1].encode() in server.get(document, sees_all=True).body, document


def test_no_pixel_of_a_hidden_time_leaves_the_server(server: Server) -> None:
    hidden = {colour_of(YEARS.index(year)) for year in HIDDEN}
    source, seen_by_key = random.Random(11), set()
    etags = ["*"]
    for _ in range(8):
        for template in source.sample(PICTURES, len(PICTURES)):
            year = source.choice((*HIDDEN, "1950", "1975", UNKNOWN))
            full = server.get(template, year, sees_all=True)
            seen_by_key |= colours(full)
            if "etag" in full.headers:
                etags.append(full.headers["etag"])
            headers = source.choice(
                ({}, {"If-None-Match": source.choice(etags)}, {"Range": "bytes=0-9999"})
            )
            shown = server.get(template, year, headers=headers)
            assert shown.status != 500, (template, year)
            assert not colours(shown) & hidden, (template, year)
            assert (
                shown.status != 304
                or shown.headers.get("etag") != full.headers.get("etag")
                or (not colours(full) & hidden)
            ), (template, year)
    assert hidden <= seen_by_key


def test_a_hidden_time_has_the_answers_of_one_that_never_existed(server: Server) -> None:
    for template in PICTURES:
        for year in HIDDEN:
            server.get(template, year, sees_all=True)
            shown = server.get(template, year)
            # Before or after the same times that are left.
            other = UNKNOWN if year < "2000" else "2042"
            unknown = server.get(template, other)
            assert shown.status == unknown.status, (template, year)
            body = shown.body.replace(year.encode(), other.encode())
            assert body == unknown.body, (template, year)
            kept = {name: value for name, value in shown.headers.items() if name != "date"}
            expected = {name: value for name, value in unknown.headers.items() if name != "date"}
            assert str(kept).replace(year, other) == str(expected), (template, year)
