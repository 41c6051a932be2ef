"""Validation by jsonschema_rs and by jsonschema: ``python -m benchmarks.validation``."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs

from mastaba.api.tools import Plugins
from mastaba.config.schema import schema
from mastaba_conformance.tiny_installation import tiny_installation

_REPEATS = 200


def main(argv: Sequence[str] | None = None) -> int:
    """Print the processor time of one validation by each library."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validation", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds, by turns (default: 7)")
    rounds = parser.parse_args(argv).rounds
    plugins = Plugins()
    print(f"{'document':>10}{'jsonschema_rs ms':>20}{'jsonschema ms':>16}{'ratio':>8}")
    with tempfile.TemporaryDirectory(prefix="mastaba-validation-") as name:
        folder = Path(name)
        tiny_installation(folder)
        for kind, file in (("layer", "layers/RGB_PNG.json"), ("pyramid", "pyramids/RGB_PNG.json")):
            document = json.loads((folder / file).read_text("utf-8"))
            rules = schema(kind, plugins)
            fast = jsonschema_rs.Draft202012Validator(rules)
            reference = jsonschema.Draft202012Validator(rules)
            pairs = [
                (
                    _milliseconds(fast.iter_errors, document),
                    _milliseconds(reference.iter_errors, document),
                )
                for _ in range(rounds)
            ]
            first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(slow / quick for quick, slow in pairs)
            print(f"{kind:>10}{first:>20.4f}{second:>16.3f}{ratio:>8.0f}")
    return 0


def _milliseconds(errors: Callable[[Any], Any], document: Any) -> float:
    begin = time.process_time()
    for _ in range(_REPEATS):
        list(errors(document))
    return (time.process_time() - begin) / _REPEATS * 1000


if __name__ == "__main__":
    raise SystemExit(main())
