"""The engine draws what an existing server answered on the same pyramids (shared data).

Where that server does not follow the rule, the test says so and draws what it does instead; the
numbers are those of "Known oddities of existing servers" in resampling.md.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from PIL import Image

import mastaba_render.plugin
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Site
from mastaba.wsgi import create_application
from mastaba_render.encoded_map import as_data
from mastaba_render.map_request import Background, MapLayer, MapRequest

pytestmark = pytest.mark.shared_data

SHARED_DATA = Path(__file__).parents[3] / "shared" / "data"
ANSWERS = SHARED_DATA / "alps-answers"
LOSSLESS = ("image/png", "image/tiff", "image/geotiff", "image/x-bil;bits=32")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the shared data is not at {SHARED_DATA}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(SHARED_DATA / "alps")
        site = create_application(
            "conf/server.json", Plugins(autoload=False, extra={"render": mastaba_render.plugin})
        ).site
        yield site
        site.catalogue.storages.close()


def recorded(group: str) -> list[tuple[str, dict[str, str]]]:
    """Return number and query of the maps that were answered in a lossless format."""
    if not ANSWERS.is_dir():
        return []
    found = []
    for entry in json.loads((ANSWERS / "index.json").read_text()):
        if entry["group"] == group and entry["status"] == 200:
            query = dict(parse_qsl(urlsplit(entry["path"]).query, keep_blank_values=True))
            if query["FORMAT"] in LOSSLESS:
                found.append((entry["id"], query))
    return found


def theirs(number: str, query: dict[str, str], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    body = (ANSWERS / f"{number}.body").read_bytes()
    if query["FORMAT"] == "image/x-bil;bits=32":
        return np.frombuffer(body, "<f4").reshape(shape)
    return np.array(Image.open(io.BytesIO(body))).reshape(shape)


def ours(site: Site, layer: Layer, query: dict[str, str]) -> np.ndarray[Any, Any]:
    crs = CRS.from_code(query["CRS"])
    corners = [float(number) for number in query["BBOX"].split(",")]
    if crs.northing_first:
        corners = [corners[i] for i in (1, 0, 3, 2)]
    style = layer.style(query["STYLES"]) if query["STYLES"] else layer.default_style
    assert style is not None
    size = int(query["WIDTH"]), int(query["HEIGHT"])
    request = MapRequest((MapLayer(layer, style),), BoundingBox(*corners), crs, *size)
    return as_data(site.renderer.render(request), Background())


def as_they_resample(site: Site, layer: Layer, crs: str) -> Layer:
    """Return the layer with the kernel that the other server really uses.

    Oddity 3: every lanczos name is order 3 in the CRS of the layer, and order 2 in others.
    """
    if not layer.resampling.startswith("lanczos"):
        return layer
    native = layer.pyramid.tile_matrix_set.crs.code
    same = site.catalogue.settings.equivalences.equal(crs, native)
    return replace(layer, resampling="lanczos_3" if same else "lanczos_2")


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("group", "count"), [("wms.getmap", 150), ("wms.styles", 21), ("wms.formats", 52)]
)
def test_lossless_maps_are_equal(site: Site, group: str, count: int) -> None:
    answers = recorded(group)
    assert len(answers) == count
    for number, query in answers:
        layer = as_they_resample(site, site.catalogue.layers[query["LAYERS"]], query["CRS"])
        image = ours(site, layer, query)
        expected = theirs(number, query, image.shape)
        assert image.dtype == expected.dtype
        difference = np.abs(image.astype(np.float64) - expected)
        if image.dtype == np.float32:
            # A position just at 1/1024 of a pixel may be cut to the one before it.
            off = difference > 1e-4 * np.abs(expected)
            assert off.mean() < 1e-3, number
            assert (difference <= 1e-3 * np.abs(expected)).all(), number
        else:
            # One level where rounding goes the other way (palettes: style.md 3, item 4)
            assert difference.max() <= 1, number
            assert (difference > 0).mean() < (0.5 if group == "wms.styles" else 0.01), number


def test_named_order_of_lanczos_is_used_in_the_crs_of_the_layer(site: Site) -> None:
    """Oddity 3 again: all layers with another order than 3 differ, and only in resampled maps."""
    differing = set()
    for number, query in recorded("wms.getmap"):
        layer = site.catalogue.layers[query["LAYERS"]]
        if as_they_resample(site, layer, query["CRS"]) is not layer:
            image = ours(site, layer, query)
            expected = theirs(number, query, image.shape)
            if np.abs(image.astype(np.float64) - expected).max() > 1:
                differing.add((query["LAYERS"], layer.resampling, query["CRS"]))
    assert differing
    for name, kernel, crs in differing:
        layer = site.catalogue.layers[name]
        used = as_they_resample(site, layer, crs).resampling
        assert kernel != used
