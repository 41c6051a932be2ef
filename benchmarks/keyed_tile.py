"""Cost of a stored tile by what access rules add: ``python -m benchmarks.keyed_tile``.

Answers of the tile table are made in this process, without sockets, in short turns of each kind.
The shortest turn of each counts, so other programs on the machine hardly matter.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.attack import written_key
from mastaba.api.tools import create_application
from mastaba_conformance.tiny_installation import tiny_installation

_TILE: Final = "/tms{}/1.0.0/RGB_JPG/4/9/6.jpg"
_HEADERS: Final = {"REMOTE_ADDR": "192.0.2.1", "HTTP_HOST": "localhost", "HTTP_ACCEPT": "*/*"}
_OPEN: Final[dict[str, Any]] = {"default": "allow", "rules": []}
_AREA: Final[dict[str, Any]] = {
    "default": "allow",
    "areas": {
        "world": {"wkt": "POLYGON((-179 -85, 179 -85, 179 85, -179 85, -179 -85))", "crs": "CRS:84"}
    },
    "rules": [{"name": "area", "who": ["known"], "limit": {"area": "world"}}],
}
_RATE: Final = {"name": "all", "per": "key", "rate": 1e9, "burst": 1e9}
_PER_TURN: Final = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyed_tile", description=__doc__)
    parser.add_argument("--turns", type=int, default=1500, help="of each kind (%(default)d)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mastaba-keyed-tile-") as name:
        folder = Path(name)
        plain, _ = _opened(folder / "plain", None)
        opened, key = _opened(folder / "open", _OPEN)
        inside, inside_key = _opened(folder / "area", _AREA)
        counted, counted_key = _opened(folder / "all", {**_AREA, "rates": [_RATE]}, usage=True)
        kinds = {
            "without access rules": _tile(plain),
            "anonymous": _tile(opened),
            "key in the path": _tile(opened, path=key),
            "key in the query": _tile(opened, query=key),
            "key in the path, area": _tile(inside, path=inside_key),
            "the same, rate, usage": _tile(counted, path=counted_key),
        }
        best = dict.fromkeys(kinds, float("inf"))
        for _ in range(options.turns):
            for kind, answer in kinds.items():
                begun = time.perf_counter()
                for _ in range(_PER_TURN):
                    answer()
                best[kind] = min(best[kind], (time.perf_counter() - begun) / _PER_TURN)
    first = best["without access rules"]
    print(f"{'':<24}{'us':>7}{'more':>7}")
    for kind, seconds in best.items():
        print(f"{kind:<24}{1e6 * seconds:>7.2f}{1e6 * (seconds - first):>7.2f}")
    return 0


def _opened(folder: Path, rules: dict[str, Any] | None, *, usage: bool = False) -> tuple[Any, str]:
    """Return an application, and a key for it; without access rules for None."""
    folder.mkdir()
    plugins: dict[str, Any] = {}
    services: dict[str, Any] = {}
    key = ""
    if rules is not None:
        key, file = written_key(folder), folder / "rules.json"
        file.write_text(json.dumps(rules), "utf-8")
        plugins["access"] = {"rules": str(file), "keys": str(folder / "keys.sqlite")}
    if usage:
        (folder / "usage").mkdir()
        plugins["usage"] = {"directory": str(folder / "usage")}
        services["usage"] = {"enabled": True}
    logger = {"output": "standard_output", "level": "error"}
    installation = tiny_installation(
        folder / "installation",
        services_overrides=services,
        server_overrides={"plugins": plugins, "logger": logger},
    )
    return create_application(str(installation)), key


def _tile(application: Any, path: str = "", query: str = "") -> Callable[[], object]:
    """Return a function that answers a request for a tile, which the table knows from here on."""
    asked = _TILE.format(f"/~{path}" if path else ""), f"apikey={query}" if query else ""

    def answer() -> object:
        return application.stored_tile(*asked, _HEADERS)

    # What is not known yet is answered by the application, and then known.
    environ = {
        **_HEADERS,
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": asked[0],
        "QUERY_STRING": asked[1],
    }
    list(application(environ, lambda *_: None))
    if answer() is None:
        raise RuntimeError("the table does not answer the request")
    return answer


if __name__ == "__main__":
    raise SystemExit(main())
