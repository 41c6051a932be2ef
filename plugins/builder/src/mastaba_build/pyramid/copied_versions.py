"""The versions of a pyramid that is copied, and their slabs in the target."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.source_records import SUMS
from mastaba_build.output.storage import OutputStore
from mastaba_build.pyramid.provenance import PYRAMID
from mastaba_writer.slab_names import slab_object, slab_path

_PATH_DEPTH: Final = 2
_NAMES: Final = {"image": "DATA", "mask": "MASK"}


class Slab(NamedTuple):
    """A slab of any version, by the directory or prefix and the kind of its slabs."""

    root: str
    kind: str
    level: str
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Version:
    """Documents of one version of a pyramid: the start of their names, and its descriptor.

    Attributes:
        numbers: descriptor of its pyramid of source numbers, if it has one.
    """

    stem: str
    descriptor: dict[str, Any]
    root: str
    numbers: dict[str, Any] | None


def versions_of(store: OutputStore, output: Destination, name: str) -> list[Version]:
    """Return the versions of a pyramid, the published one last.

    Raises:
        PlanError: there is no such pyramid.
        VerificationError: a document is damaged.
    """
    listed = store.read_if_exists(f"{name}.versions.json")
    try:
        numbers = [one["number"] for one in json.loads(listed)["versions"]] if listed else []
        if not listed and store.stat(f"{name}.history.json") is not None:
            numbers = [1]
        stems = [*(f"{name}_{number}" for number in numbers), name]
        descriptors = [json.loads(store.read(f"{stem}.json")) for stem in stems]
        return [
            Version(stem, one, _root_of(one, name), _numbers(store, stem))
            for stem, one in zip(stems, descriptors, strict=True)
        ]
    except FileNotFoundError as error:
        raise PlanError(f"{output.path(f'{name}.json')}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise VerificationError(f"the documents of {name} cannot be used: {error}") from None


def _numbers(store: OutputStore, stem: str) -> dict[str, Any] | None:
    """Return the descriptor of the pyramid of source numbers of a version, if it has one."""
    data = store.read_if_exists(f"{stem}{PYRAMID}")
    if data is None or store.stat(f"{stem}{SUMS}") is None:
        return None
    document: dict[str, Any] = json.loads(data)
    return document


def _root_of(descriptor: dict[str, Any], name: str) -> str:
    """Return the name of the directory or prefix of all slabs of a version."""
    level = descriptor["levels"][0]
    storage = level["storage"]
    images = storage.get("image_directory") or posixpath.dirname(storage["image_prefix"])
    if not images.endswith(f"/DATA/{level['id']}") and "image_directory" in storage:
        return name  # as of a pyramid of source numbers
    images = images.removesuffix(f"/DATA/{level['id']}")
    return posixpath.basename(posixpath.normpath(images)) or name


def slab_key(target: Destination, slab: Slab) -> str:
    """Return the key of a slab in the target."""
    if target.is_local:
        path = slab_path(slab.column, slab.row, _PATH_DEPTH)
        return f"{slab.root}/{slab.kind}/{slab.level}/{path}"
    return slab_object(f"{slab.root}/{slab.kind}_{slab.level}", slab.column, slab.row)


def level_storage(
    target: Destination, root: str, level: dict[str, Any], names: Mapping[str, str] = _NAMES
) -> dict[str, Any]:
    """Return the object ``storage`` of a level in the target (pyramid.md section 2.4)."""
    kinds = ["image"]
    if {"mask_directory", "mask_prefix"} & level["storage"].keys():
        kinds.append("mask")
    storage: dict[str, Any] = {"type": target.storage.upper()}
    if target.is_local:
        storage["path_depth"] = _PATH_DEPTH
        for kind in kinds:
            storage[f"{kind}_directory"] = f"{root}/{names[kind]}/{level['id']}"
        return storage
    if target.container_field is not None:
        storage[target.container_field] = target.container.partition("@")[0]
    for kind in kinds:
        storage[f"{kind}_prefix"] = target.key(f"{root}/{names[kind]}_{level['id']}")
    return storage
