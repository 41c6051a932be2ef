"""Installations with many layers."""

from __future__ import annotations

import shutil
from pathlib import Path

from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_writer.installation import layer_document, write_installation


def installation_with_layers(folder: Path, count: int) -> Path:
    """Write an installation with ``count`` raster layers, each with its own pyramid descriptor."""
    tiny_installation(folder / "tiny")
    pyramids = folder / "tiny" / "pyramids"
    originals = sorted(path for path in pyramids.glob("*.json") if path.stem != "VECTOR")
    layers = {}
    for number in range(count):
        original = originals[number % len(originals)]
        descriptor = pyramids / f"{original.stem}_{number}.json"
        shutil.copyfile(original, descriptor)
        layers[f"LAYER_{number}"] = layer_document(descriptor)
    return write_installation(folder, layers=layers)
