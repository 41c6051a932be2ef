"""The demo's pyramids, generated once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.servers import Missing

_FOLDER = Path(__file__).resolve().parent.parent / ".run" / "benchmark-demo"


def demo_installation() -> Path:
    """Return server.json of the demo.

    Raises:
        Missing: the plugin is not installed, or cannot generate its data.
    """
    server_json = _FOLDER / "server.json"
    if not server_json.exists():
        sys.stderr.write(f"generating the demo in {_FOLDER}\n")
        command = [sys.executable, "-m", "mastaba", "demo", str(_FOLDER), "--no-serve"]
        if subprocess.run(command, check=False).returncode != 0 or not server_json.exists():
            raise Missing("there is no demo; name an installation with --server-json")
    return server_json
