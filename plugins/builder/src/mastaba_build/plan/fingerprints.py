"""Fingerprints of slabs: equal ones mean equal pixels, so an update keeps the slab."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cached_property
from itertools import accumulate, product
from typing import Any

from mastaba.api.catalogue import BoundingBox
from mastaba_build.plan.plan import Plan, SlabKey, slab_options
from mastaba_build.plan.sizes import slabs_of
from mastaba_build.sources.groups import Member
from mastaba_build.sources.sets import proj_crs
from mastaba_build.sources.turns import period_of
from mastaba_render.api.resampling import BASE_RADIUS

_SIZE = 8


class Fingerprints:
    """Fingerprints of the slabs of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        styling = plan.styling
        self._margin = 0 if styling is None else styling.margin
        self._common = json.dumps(
            [slab_options(plan.configuration), asdict(plan.pixel_type), plan.encoder],
            sort_keys=True,
        )
        self._sources = [
            [json.dumps(member.source.described(), sort_keys=True) for member in group.members]
            for group in plan.groups
        ]

    def of(self, slab: SlabKey, quarters: Iterable[tuple[SlabKey, str]] = ()) -> str:
        """Return the fingerprint of a slab.

        Args:
            quarters: its children with data, and the hashes of their quarter images.
        """
        level = self._plan.levels[slab.level]
        parts: list[Any] = [self._common, level.matrix.id, slab.column, slab.row]
        parts.append(self._plan.described(slab))
        if level.from_sources:
            for group, members in self._near.get(slab, {}).items():
                one = self._plan.groups[group]
                parts += [one.crs, one.transform, one.width, one.height]
                parts += [self._sources[group][member] for member in members]
        else:
            parts += sorted((child.column, child.row, hash_) for child, hash_ in quarters)
        text = json.dumps(parts)
        return hashlib.blake2b(text.encode(), digest_size=_SIZE).hexdigest()

    def sources_of(self, slab: SlabKey) -> Iterator[int]:
        """Yield the numbers in the plan of the sources that a kernel may reach from a slab."""
        for group, members in self._near.get(slab, {}).items():
            for member in members:
                yield self._starts[group] + member

    @cached_property
    def _starts(self) -> list[int]:
        """Number of the first source of each group."""
        return [0, *accumulate(len(group.members) for group in self._plan.groups)]

    @cached_property
    def _near(self) -> dict[SlabKey, dict[int, list[int]]]:
        """Sources that a kernel may reach from each slab: members by group, in their order."""
        plan = self._plan
        found: dict[SlabKey, dict[int, list[int]]] = {}
        levels = [number for number, level in enumerate(plan.levels) if level.from_sources]
        for index, (group, boxes) in enumerate(zip(plan.groups, plan.member_boxes, strict=True)):
            turns = [0.0]
            if group.closed_turn and (period := period_of(proj_crs(plan.crs.code).to_wkt())):
                turns = [-period, 0.0, period]
            for number, (member, some) in enumerate(zip(group.members, boxes, strict=True)):
                for box, level, turn in product(some, levels, turns):
                    matrix = plan.levels[level].matrix
                    limits = matrix.limits_of(self._widened(box, member, matrix.cell_size, turn))
                    if limits is None:
                        continue
                    rows, columns = slabs_of(limits, plan.configuration.slab)
                    for slab in (SlabKey(level, x, y) for y in rows for x in columns):
                        near = found.setdefault(slab, {}).setdefault(index, [])
                        if number not in near[-1:]:
                            near.append(number)
        return found

    def _widened(self, box: BoundingBox, member: Member, cell: float, turn: float) -> BoundingBox:
        """Return a box with the reach of a kernel, in another turn."""
        pixel = max(
            (box.xmax - box.xmin) / member.source.width,
            (box.ymax - box.ymin) / member.source.height,
        )
        radius = BASE_RADIUS[self._plan.configuration.interpolation] + 1
        reach = radius * max(cell, pixel) + self._margin * cell
        left, right = box.xmin + turn - reach, box.xmax + turn + reach
        return BoundingBox(left, box.ymin - reach, right, box.ymax + reach)
