"""Aerial campaigns of four years around the focus, as a series; the last one is of two flights.

They are made of the tiles of the imagery: the film of each campaign has its colours, a town grows,
and each tile shows its year.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps

from mastaba.api.catalogue import digest_of
from mastaba_demo.render import TileKey
from mastaba_demo.settings import BLOCK, TILE_SIZE, Settings
from mastaba_writer.documents import write_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

STACK: Final = "campaigns.stack.json"
"""Name of the list of the campaigns in the directory of the pyramids."""

_FINEST: Final = 11
_LEVELS: Final = 3
_QUALITY: Final = 85
_STREETS: Final = 500.0
"""Metres between two streets."""
_WORLD: Final = 40_075_016.68
"""Metres around the equator."""


class _Year(NamedTuple):
    """A campaign.

    Attributes:
        dark, light: colours of a film that is made of grey; empty for natural colours.
        town: radius of the town in metres of the projection.
        part: of the columns of tiles, from the west, that the campaign covers.
    """

    title: str
    dark: str
    light: str
    town: float
    part: float


YEARS: Final[Mapping[str, _Year]] = {
    "1950": _Year("Black and white, only the west", "#101010", "#f4f4f4", 900, 0.75),
    "1978": _Year("Faded film", "#3a1420", "#f6dcb8", 2200, 1),
    "2003": _Year("Infrared", "#0c2238", "#ff9a8c", 3800, 1),
    "2023": _Year("Two flights", "", "", 5600, 1),
}
_FLIGHTS: Final = (
    {"title": "Spring flight", "date": "2023-04-12", "gsd": 0.2, "licence": "etalab-2.0"},
    {"title": "Summer flight", "date": "2023-07-30", "gsd": 0.5, "licence": "CC-BY-4.0"},
)


def write_campaigns(directory: Path, settings: Settings, tiles: Mapping[TileKey, bytes]) -> None:
    """Write a pyramid of each year, their stack, and the sources of the newest one.

    Args:
        directory: of the pyramids.
        tiles: those of all layers.
    """
    rows = []
    for year, campaign in YEARS.items():
        plans = [_part(plan, campaign.part) for plan in plans_around_focus(settings)]
        name = f"campaigns_{year}"
        path = write_pyramid(
            directory,
            name,
            tile_matrix_set=web_mercator(),
            format="TIFF_JPG_UINT8",
            levels=plans,
            tile=lambda level, row, col, year=year: _tile(tiles, settings, year, level, row, col),  # type: ignore[misc]
            tiles_per_width=BLOCK,
            tiles_per_height=BLOCK,
        )
        document = json.loads(path.read_text(encoding="utf-8"))
        if year == max(YEARS):
            document |= _provenance(directory, name, plans, settings)
            write_document(path, document)
        limits = {
            plan.id: [plan.min_row, plan.max_row, plan.min_col, plan.max_col] for plan in plans
        }
        rows.append(
            {
                "at": {"time": year},
                "path": path.name,
                "generation": digest_of(document),
                "levels": limits,
                "title": f"Campaign of {year}",
                "final": year != max(YEARS),
            }
        )
    write_document(directory / STACK, {"variants": rows})


def plans_around_focus(settings: Settings) -> list[LevelPlan]:
    """Return the finest levels that have campaigns, the coarsest first."""
    levels = [plan for plan in settings.plans() if int(plan.id) <= _FINEST]
    return levels[-_LEVELS:]


def _part(plan: LevelPlan, part: float) -> LevelPlan:
    columns = max(1, round((plan.max_col - plan.min_col + 1) * part))
    return LevelPlan(plan.id, plan.min_row, plan.max_row, plan.min_col, plan.min_col + columns - 1)


def _tile(
    tiles: Mapping[TileKey, bytes], settings: Settings, year: str, level: str, row: int, col: int
) -> bytes:
    campaign = YEARS[year]
    with Image.open(io.BytesIO(tiles["imagery", int(level), row, col])) as stored:
        image = stored.convert("RGB")
    _build(image, settings, campaign.town, int(level), row, col)
    if campaign.dark:
        image = ImageOps.colorize(ImageOps.grayscale(image), campaign.dark, campaign.light)
    else:
        seam = min(max(_seam(settings, level, col), 0), TILE_SIZE)
        summer = image.crop((seam, 0, TILE_SIZE, TILE_SIZE))
        image.paste(Image.blend(summer, Image.new("RGB", summer.size, "#e8d070"), 0.25), (seam, 0))
    drawing = ImageDraw.Draw(image)
    for offset, colour in ((9, "#000"), (8, "#fff")):
        drawing.text((offset, offset - 2), year, colour, font=_font())
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=_QUALITY)
    return encoded.getvalue()


def _build(
    image: Image.Image, settings: Settings, radius: float, level: int, row: int, col: int
) -> None:
    """Draw the town, a disc of blocks and streets, into a tile."""
    scale = TILE_SIZE * 2**level
    x, y = (place * scale for place in settings.focus)
    left, top = col * TILE_SIZE, row * TILE_SIZE
    reach = radius * scale / _WORLD
    box = (x - reach - left, y - reach - top, x + reach - left, y + reach - top)
    if box[2] < 0 or box[3] < 0 or box[0] > TILE_SIZE or box[1] > TILE_SIZE:
        return
    blocks = Image.new("RGB", image.size, "#b8a598")
    drawing = ImageDraw.Draw(blocks)
    street = max(4, round(_STREETS * scale / _WORLD))
    for line in range(-left % street, TILE_SIZE, street):
        drawing.line((line, 0, line, TILE_SIZE), "#ece6da")
    for line in range(-top % street, TILE_SIZE, street):
        drawing.line((0, line, TILE_SIZE, line), "#ece6da")
    mask = Image.new("L", image.size)
    ImageDraw.Draw(mask).ellipse(box, 210)
    image.paste(blocks, mask=mask)


def _seam(settings: Settings, level: str, col: int) -> int:
    """Return the first column of pixels of a tile that the second flight covers."""
    return round(settings.focus[0] * TILE_SIZE * (1 << int(level))) - col * TILE_SIZE


@cache
def _font() -> Any:
    return ImageFont.load_default(20)


def _provenance(
    directory: Path, name: str, plans: list[LevelPlan], settings: Settings
) -> dict[str, str]:
    """Write the numbers of the flights of each pixel and their table; return what names them.

    The form is that of time.md section 5: the number of the source of each pixel of the finest
    level, 0 for none.
    """
    finest = plans[-1]

    def numbers(level: str, _row: int, col: int) -> NDArray[np.float32]:
        columns = np.arange(TILE_SIZE) >= _seam(settings, level, col)
        return np.broadcast_to(np.float32(1) + columns, (TILE_SIZE, TILE_SIZE)).astype(np.float32)

    write_pyramid(
        directory,
        f"{name}_sources",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        nodata=[0],
        levels=[finest],
        tile=numbers,
        tiles_per_width=BLOCK,
        tiles_per_height=BLOCK,
    )
    scale = TILE_SIZE * 2 ** int(finest.id)
    left, right = finest.min_col * TILE_SIZE, (finest.max_col + 1) * TILE_SIZE
    top, bottom = finest.min_row * TILE_SIZE, (finest.max_row + 1) * TILE_SIZE
    seam = min(max(round(settings.focus[0] * scale), left), right)
    rows = [
        {
            "number": number,
            **flight,
            "attribution": {"title": "A fictional world", "url": ""},
            "box": _degrees(scale, *edges, bottom, top),
            "pixels": (edges[1] - edges[0]) * (bottom - top),
        }
        for number, (flight, edges) in enumerate(
            zip(_FLIGHTS, ((left, seam), (seam, right)), strict=True), 1
        )
    ]
    table = {
        "version": 1,
        "pyramid": f"{name}_sources.json",
        "next": len(_FLIGHTS) + 1,
        "sources": rows,
    }
    write_document(directory / f"{name}.sources.json", table)
    return {"provenance": f"{name}.sources.json"}


def _degrees(scale: int, left: int, right: int, bottom: int, top: int) -> list[float]:
    """Return the box of pixels as west, south, east, north."""
    west, east = (360 * x / scale - 180 for x in (left, right))
    south, north = (
        math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * y / scale)))) for y in (bottom, top)
    )
    return [round(one, 7) for one in (west, south, east, north)]
