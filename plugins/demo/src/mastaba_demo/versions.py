"""Imagery around the focus that was published three times, with its history.

The first version is of old film. Each later one replaces a part of it by new imagery, as
`mastaba build --update` would.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from PIL import Image, ImageOps

from mastaba.api.catalogue import digest_of
from mastaba_demo.render import TileKey
from mastaba_demo.settings import BLOCK
from mastaba_writer.documents import write_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

NAME: Final = "mosaic"
"""Of the pyramid, and of its layer."""

_QUALITY: Final = 85
_WORLD: Final = 40_075_016.68
"""Metres around the equator."""


class _Version(NamedTuple):
    """A version.

    Attributes:
        published: when.
        new: the part of the area that new imagery covers, as parts of width and height from the
            upper left corner: left, top, right, bottom.
    """

    published: str
    by: str
    message: str
    new: tuple[float, float, float, float]


_VERSIONS: Final = (
    _Version("2023-11-06T09:00:00.000Z", "build", "Old film", (0, 0, 0, 0)),
    _Version("2024-05-14T09:00:00.000Z", "update", "New imagery of the west", (0, 0, 0.5, 1)),
    _Version("2025-03-20T09:00:00.000Z", "update", "New sheets of the north", (0.5, 0, 1, 0.5)),
)


def write_versions(directory: Path, plans: list[LevelPlan], tiles: Mapping[TileKey, bytes]) -> None:
    """Write the versions of the pyramid, and the documents of its history.

    Args:
        directory: of the pyramids.
        plans: levels, the coarsest first.
        tiles: those of all layers.
    """
    shown = {
        (plan.id, row, column): _old(tiles["imagery", int(plan.id), row, column])
        for plan in plans
        for row in range(plan.min_row, plan.max_row + 1)
        for column in range(plan.min_col, plan.max_col + 1)
    }
    entries: dict[str, Any] = {}
    published: list[dict[str, Any]] = []
    for number, version in enumerate(_VERSIONS, 1):
        changed = [_inside(plan, version.new) for plan in plans] if number > 1 else []
        for plan in changed:
            for row in range(plan.min_row, plan.max_row + 1):
                for column in range(plan.min_col, plan.max_col + 1):
                    shown[plan.id, row, column] = tiles["imagery", int(plan.id), row, column]
        path = write_pyramid(
            directory,
            f"{NAME}_{number}",
            tile_matrix_set=web_mercator(),
            format="TIFF_JPG_UINT8",
            levels=plans,
            tile=lambda *place: shown[place],
            tiles_per_width=BLOCK,
            tiles_per_height=BLOCK,
        )
        document = json.loads(path.read_text(encoding="utf-8"))
        generation = digest_of(document)
        entry: dict[str, Any] = {"generation": generation, "built": version.published, "bbox": None}
        if changed:
            entry |= {"since": published[-1]["generation"], "bbox": _box(changed[-1])}
            changes = _changes(changed[-1], published[-1]["generation"])
            write_document(directory / f"{NAME}_{number}.changes.json", changes)
        entries[str(number)] = entry
        published.append(
            {
                "generation": generation,
                "number": number,
                "from": version.published,
                "message": version.message,
                "by": version.by,
            }
        )
    write_document(
        directory / f"{NAME}.history.json", {"versions": entries, "published": published}
    )
    write_document(directory / f"{NAME}.json", document)


def _old(data: bytes) -> bytes:
    """Return a tile of imagery as old film."""
    with Image.open(io.BytesIO(data)) as stored:
        image = ImageOps.colorize(ImageOps.grayscale(stored), "#2c1c10", "#f2e4c8")
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=_QUALITY)
    return encoded.getvalue()


def _inside(plan: LevelPlan, part: tuple[float, float, float, float]) -> LevelPlan:
    """Return the tiles of a level in a part of its area."""
    columns, rows = plan.max_col - plan.min_col + 1, plan.max_row - plan.min_row + 1
    left, top, right, bottom = part
    return LevelPlan(
        plan.id,
        plan.min_row + round(top * rows),
        plan.min_row + round(bottom * rows) - 1,
        plan.min_col + round(left * columns),
        plan.min_col + round(right * columns) - 1,
    )


def _box(plan: LevelPlan) -> list[float]:
    """Return the box around tiles in Web Mercator: xmin, ymin, xmax, ymax."""
    side, half = _WORLD / 2 ** int(plan.id), _WORLD / 2
    return [
        round(one, 2)
        for one in (
            plan.min_col * side - half,
            half - (plan.max_row + 1) * side,
            (plan.max_col + 1) * side - half,
            half - plan.min_row * side,
        )
    ]


def _changes(plan: LevelPlan, since: str) -> dict[str, Any]:
    """Return what ``NAME_2.changes.json`` contains: the tiles of the finest level that differ."""
    rows = range(plan.min_row, plan.max_row + 1)
    return {
        "since": since,
        "level": plan.id,
        "tiles": [[row, plan.min_col, plan.max_col] for row in rows],
        "added": [],
        "removed": [],
        "slabs": {},
    }
