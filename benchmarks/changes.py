"""Pyramids and layers in a bucket that are replaced, and show which version they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.distant_store import BUCKET, Store
from mastaba_writer.pyramids import LevelPlan, object_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

_LEVELS = [LevelPlan("6", 16, 19, 32, 35)]
_MARK = re.compile(rb"version (\d+);")


@dataclass(frozen=True)
class Resource:
    """Something that a node answers.

    Attributes:
        path: on the node.
        header: name of the response header with the generation.
    """

    path: str
    header: str

    def numbers(self, body: bytes) -> set[int]:
        """Return the numbers of all versions in a response body."""
        return {int(mark) for mark in _MARK.findall(body)}


class Changes:
    """Two layers that are written again and again.

    The slabs of each version have other names, as ``mastaba build`` gives them: what a node has
    loaded stays complete.

    Attributes:
        layers: their names.
        resources: a tile of each layer, and the document with the titles of both.
    """

    layers: ClassVar = ("first", "second")
    resources: ClassVar = {
        "first": Resource("/tms/1.0.0/first/6/33/17.pbf", "Mastaba-Pyramid"),
        "second": Resource("/tms/1.0.0/second/6/33/17.pbf", "Mastaba-Pyramid"),
        "document": Resource("/tms/1.0.0/", "Mastaba-Generation"),
    }

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, number: int) -> None:
        """Write version ``number`` of everything; slabs before the documents that refer to them."""
        documents = {}
        mark = f"version {number};"
        for name in self.layers:
            pyramid = f"{name}-{number}"
            descriptor, slabs = object_pyramid(
                pyramid,
                storage={"type": "S3", "bucket_name": BUCKET},
                tile_matrix_set=web_mercator(),
                format="TIFF_PBF_MVT",
                levels=_LEVELS,
                tile=lambda level, row, col: f"{level}/{row}/{col} {mark}".encode(),
                tiles_per_width=4,
                tiles_per_height=4,
            )
            for key, data in slabs:
                self._store.put(key, data)
            documents[f"{name}.json"] = descriptor
            used = {"path": f"s3://{BUCKET}/{name}.json", "bottom_level": "6", "top_level": "6"}
            documents[f"layers/{name}.json"] = {"title": mark, "abstract": mark, "pyramids": [used]}
        for key, document in documents.items():
            self._store.put(key, document)
