"""The application on servers of other packages: ``python -m benchmarks.other_transports``.

Measures stored tiles over the project's own HTTP and FastCGI, and on those of the WSGI servers
below that are installed. Only the processor time of one request can be compared: some of them run
as one process.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.classes import from_installation
from benchmarks.demo import demo_installation
from benchmarks.measure import measure
from benchmarks.report import machine, table
from benchmarks.servers import (
    Missing,
    Target,
    fastcgi_behind_nginx,
    free_port,
    is_answering,
    nginx_before,
    plain_http,
    require_programs,
    start_process,
    wait_for,
)

_APPLICATION = "mastaba.wsgi:application"
_HTTP = {
    "granian": f"--interface wsgi --workers 2 --port {{port}} --log-level error {_APPLICATION}",
    "gunicorn": f"-w 2 -k gthread --threads 8 -b 127.0.0.1:{{port}} {_APPLICATION}",
    "uvicorn": f"--interface wsgi --workers 2 --port {{port}} --no-access-log {_APPLICATION}",
    "waitress": f"--threads 2 --listen 127.0.0.1:{{port}} {_APPLICATION}",
    "cheroot": f"--threads 8 --bind 127.0.0.1:{{port}} {_APPLICATION}",
}
_FLUP = (
    "import sys; from flup.server.fcgi import WSGIServer; from mastaba.wsgi import application; "
    "WSGIServer(application, bindAddress=sys.argv[1]).run()"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if nothing could be measured or a response was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server-json", type=Path, metavar="FILE", help="default: the demo's")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    targets: list[Target] = []
    try:
        require_programs()
        server_json = options.server_json or demo_installation()
        os.environ["MASTABA_SERVER"] = str(server_json)
        classes = from_installation(
            server_json, names=["tms"], media_type="image/jpeg", count=2000, seed=1
        )
        with tempfile.TemporaryDirectory(prefix="mastaba-transports-") as name:
            folder = Path(name)
            targets.append(plain_http(server_json, folder, workers=2, threads=1))
            targets += [_http(package, folder) for package in _HTTP if find_spec(package)]
            targets.append(fastcgi_behind_nginx(server_json, folder, workers=2, threads=1))
            targets.append(_flup(folder))
            results = measure(
                targets,
                classes,
                connections=options.connections,
                seconds=options.seconds,
                rounds=options.rounds,
                folder=folder,
            )
    except Missing as missing:
        sys.stderr.write(f"other_transports: {missing}\n")
        return 1
    finally:
        for target in targets:
            target.stop()
    print(table(results))
    print()
    print(machine(2, options.connections, options.seconds, options.rounds))
    return 1 if any(result.errors for result in results) else 0


def _http(package: str, folder: Path) -> Target:
    port = free_port()
    target = Target(package, f"http://127.0.0.1:{port}")
    command = [sys.executable, "-m", package, *_HTTP[package].format(port=port).split()]
    log = folder / f"{package}.log"
    server = start_process(target, command, log)
    target.pid = server.pid
    wait_for(lambda: is_answering(target.address), server, log)
    return target


def _flup(folder: Path) -> Target:
    target = Target("nginx + flup", f"http://127.0.0.1:{free_port()}")
    path, log = folder / "flup.sock", folder / "flup.log"
    server = start_process(target, [sys.executable, "-c", _FLUP, str(path)], log)
    target.pid = server.pid
    wait_for(path.exists, server, log)
    path.chmod(0o666)
    nginx_before(target, path, folder, "nginx-flup", keep=True)
    return target


if __name__ == "__main__":
    sys.exit(main())
