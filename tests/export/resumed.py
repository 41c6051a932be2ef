"""An export in a process of its own, which a test kills."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.export.ground import opened, planned

from mastaba_coverage import compressed
from mastaba_export import run as running
from mastaba_export.writers import coverage


def resume(server: str, layer: str, inputs: Mapping[str, str], path: str, rate: float) -> int:
    """Say that it is ready, then begin or resume an export of a layer.

    Args:
        server: path of server.json.
        inputs: of the request.
        path: of the output.
        rate: most bytes in a second; 0 for no limit.
    """
    running._CHECKPOINT_BYTES = 1_000_000
    coverage._PART = 200_000
    site = opened(Path(server))
    compressed._PART = 1_000_000
    made = planned(site, layer, **inputs)
    print("ready", flush=True)
    running.run(made, Path(path), resume=True, rate=rate or None)
    return 0
