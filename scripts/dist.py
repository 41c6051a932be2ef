"""Build everything that is uploaded for a release, check it, and prove that it installs.

    python -m scripts.dist                      # into dist/, then all checks
    python -m scripts.dist --no-proof           # without the installation into empty environments
    python -m scripts.dist --try                # whatever CHANGELOG.md says: no release

A release needs a dated section of its version in CHANGELOG.md, and nothing in ``[Unreleased]``.

Wheels and source distributions are built from a copy of the files that git knows. The copy adds
what each distribution contains only when it is released: the licence, and a README without relative
links, which lead nowhere outside the repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from mastaba import __version__

REPOSITORY = Path(__file__).resolve().parents[1]
DIST = REPOSITORY / "dist"
BIN = Path(sys.executable).parent
SBOM = "sbom.cdx.json"
SUMS = "SHA256SUMS"

_HEADING = re.compile(r"^## ", re.M)
_ENTRY = re.compile(r"^ *[-*] +\S", re.M)
_DATED = re.compile(r" - 20[0-9]{2}-[01][0-9]-[0-3][0-9]")
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?!https?:|mailto:|#)[^()]*\)")
_TILE = (
    "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=RGB_PNG&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW=2&TILECOL=4"
)
_SERVE = """
import sys
from wsgiref.util import setup_testing_defaults
from mastaba.wsgi import create_application
path, _, query = sys.argv[2].partition("?")
environ = {"PATH_INFO": path, "QUERY_STRING": query}
setup_testing_defaults(environ)
answer = b"".join(create_application(sys.argv[1])(environ, lambda *head: print(head[0])))
assert answer.startswith(b"\\x89PNG"), answer[:200]
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Build and check; return 0, or raise what failed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.dist", description=__doc__)
    parser.add_argument("--no-proof", action="store_true", help="install nothing")
    parser.add_argument(
        "--try",
        dest="is_trial",
        action="store_true",
        help="also if CHANGELOG.md is not that of a release",
    )
    options = parser.parse_args(argv)
    problem = problem_of_changes((REPOSITORY / "CHANGELOG.md").read_text("utf-8"), __version__)
    if problem is not None:
        sys.stderr.write(f"CHANGELOG.md: {problem}\n")
        if not options.is_trial:
            return 1
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory(prefix="mastaba-dist-") as name:
        folders = copied(Path(name))
        for folder in folders:
            run(BIN / "uv", "build", "-q", "--out-dir", DIST, folder)
    files = sorted(DIST.glob("mastaba*"))
    version = check(files, len(folders))
    if not options.no_proof:
        prove(version)
    write_sums()
    print(f"{len(files)} files of version {version}, {SBOM} and {SUMS} are in {DIST.name}/")
    return 0


def problem_of_changes(changelog_text: str, version: str) -> str | None:
    """Return why a change log is not that of a release; None if it is.

    Args:
        changelog_text: in the form of Keep a Changelog.
        version: of the release.
    """
    parts = (part.partition("\n") for part in _HEADING.split(changelog_text)[1:])
    sections = {title.strip(): text for title, _, text in parts}
    if _ENTRY.search(sections.get("[Unreleased]", "")):
        return "[Unreleased] has entries: move them to a section of the version, with its date"
    dated = [title for title in sections if title.startswith(f"[{version}]")]
    if not dated:
        return f"there is no section [{version}]"
    if not _DATED.fullmatch(dated[0].removeprefix(f"[{version}]")):
        return f"the section [{version}] has no date: ## [{version}] - YYYY-MM-DD"
    if not _ENTRY.search(sections[dated[0]]):
        return f"the section [{version}] has no entries"
    return None


# ---------------------------------------------------------------- build


def copied(target: Path) -> list[Path]:
    """Copy the sources, complete them for a release, and return the folders of distributions."""
    listed = run("git", "ls-files", "-z", "LICENSE", "core", "libs", "plugins").split("\0")
    for name in filter(None, listed):
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, copy)
    folders = [project.parent for project in sorted(target.glob("**/pyproject.toml"))]
    for folder in folders:
        shutil.copy2(target / "LICENSE", folder)
        readme = folder / "README.md"
        readme.write_text(without_relative_links(readme.read_text("utf-8")), "utf-8")
    return folders


def without_relative_links(text: str) -> str:
    """Return Markdown in which links to files of the repository are their texts."""
    return _LINK.sub(lambda link: "" if link[1] else link[2], text)


# ---------------------------------------------------------------- checks


def check(files: Sequence[Path], count: int) -> str:
    """Check the files of a release; return its version.

    Raises:
        AssertionError: a file is missing, incomplete, or of another version.
        subprocess.CalledProcessError: twine or check-wheel-contents reports an error.
    """
    run(BIN / "twine", "check", "--strict", *files)
    wheels = [path for path in files if path.suffix == ".whl"]
    # W002: the bundle of the viewer contains its icon again. W004: the compiled kernels are not
    # modules; ctypes loads them.
    run(BIN / "check-wheel-contents", "--ignore", "W002,W004", *wheels)
    versions = set()
    for path in files:
        metadata, names = described(path)
        assert any(name.endswith("LICENSE") for name in names), f"{path.name}: no licence"
        for field in ("Author", "License-Expression", "Classifier", "Keywords", "Summary"):
            assert f"\n{field}: " in metadata, f"{path.name}: no {field}"
        found = re.search(r"^Version: (\S+)$", metadata, re.M)
        assert found is not None
        versions.add(found[1])
    assert len(wheels) == len(files) - len(wheels) == count, "a wheel and an sdist for each"
    (version,) = versions
    return version


def described(path: Path) -> tuple[str, list[str]]:
    """Return the metadata of a distribution file, and the names of all its members."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            (name,) = [name for name in names if name.endswith(".dist-info/METADATA")]
            return wheel.read(name).decode(), names
    with tarfile.open(path) as archive:
        names = archive.getnames()
        (name,) = [name for name in names if name.count("/") == 1 and name.endswith("/PKG-INFO")]
        member = archive.extractfile(name)
        assert member is not None
        return member.read().decode(), names


# ---------------------------------------------------------------- installation


def prove(version: str) -> None:
    """Install from ``dist/`` into empty environments, and answer a tile from each.

    With the lowest and the newest interpreter of this machine: WMTS alone, and everything.
    """
    everything = sorted({path.name.split("-")[0].replace("_", "-") for path in DIST.glob("*.whl")})
    interpreters = _interpreters()
    chosen = dict.fromkeys((interpreters[0], interpreters[-1]))
    with tempfile.TemporaryDirectory(prefix="mastaba-proof-") as name:
        folder = Path(name)
        installation = folder / "tiny"
        for number, python in enumerate(chosen):
            whole = _environment(folder / f"all-{number}", python, everything)
            if not installation.exists():
                write = "import sys, mastaba_conformance.tiny_installation as tiny, pathlib;"
                write += "tiny.tiny_installation(pathlib.Path(sys.argv[1]), services=['wmts'])"
                installation.mkdir()
                run(whole / "bin/python", "-c", write, installation)
            small = _environment(folder / f"wmts-{number}", python, ["mastaba-wmts"])
            _check_small(small)
            for environment in (whole, small):
                _check_ours(environment, version)
                assert run(environment / "bin/mastaba", "--version").strip().endswith(version)
                listed = json.loads(
                    run(environment / "bin/mastaba", "plugins", "--check", "--json")
                )
                assert not listed["problems"], listed["problems"]
                serve = (environment / "bin/python", "-c", _SERVE)
                assert run(*serve, installation / "server.json", _TILE).strip() == "200 OK"
            if number == 0:
                document = run(BIN / "cyclonedx-py", "environment", whole / "bin/python")
                (DIST / SBOM).write_text(document, "utf-8")
            shown = run(python, "--version").strip()
            print(f"installed and served with {shown}: WMTS alone, and everything", flush=True)


def _check_ours(environment: Path, version: str) -> None:
    """Check that our distributions are those of this release: a public index might have others."""
    python = environment / "bin/python"
    listed = json.loads(run(BIN / "uv", "pip", "list", "--format", "json", "--python", python))
    ours = {one["name"]: one["version"] for one in listed if one["name"].startswith("mastaba")}
    built = {path.name.split("-")[0].replace("_", "-") for path in DIST.glob("*.whl")}
    assert ours.keys() <= built, ours.keys() - built
    assert set(ours.values()) == {version}, ours


def _check_small(environment: Path) -> None:
    """Check that a server of stored tiles has no renderer, HTTP client or compiled part of ours."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    names = {path.name for path in packages.iterdir()}
    assert names.isdisjoint({"mastaba_render", "mastaba_http", "PIL", "urllib3"}), sorted(names)
    compiled = sorted(packages.glob("mastaba*/**/*.so"))
    assert not compiled, compiled


def _environment(folder: Path, python: Path, distributions: Sequence[str]) -> Path:
    run(BIN / "uv", "venv", "-q", "--python", python, folder)
    install = (BIN / "uv", "pip", "install", "-q", "--python", folder / "bin/python")
    run(*install, "--find-links", DIST, *distributions)
    return folder


def _interpreters() -> list[Path]:
    """Return the interpreters of this machine that Mastaba supports, the lowest version first."""
    supported = tomllib.loads((REPOSITORY / "core/pyproject.toml").read_text("utf-8"))
    lowest = list(map(int, supported["project"]["requires-python"].removeprefix(">=").split(".")))
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named = [shutil.which(f"python3.{minor}") for minor in range(lowest[1], lowest[1] + 9)]
    candidates: list[str | Path] = [
        sys.executable,
        *filter(None, named),
        *sorted(root.glob("versions/3.*/bin/python3")),
    ]
    found: dict[tuple[int, ...], Path] = {}
    for candidate in candidates:
        ask = "import ensurepip, json, sys; print(json.dumps(sys.version_info[:2]))"
        done = subprocess.run([candidate, "-c", ask], capture_output=True, text=True)
        if done.returncode == 0 and (version := json.loads(done.stdout)) >= lowest:
            found.setdefault(tuple(version), Path(candidate))
    return [found[version] for version in sorted(found)]


def write_sums() -> None:
    """Write the check sums of all files, in the form of ``sha256sum``."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(DIST.iterdir())
        if path.name not in (SUMS, ".gitignore")
    ]
    (DIST / SUMS).write_text("".join(lines), "ascii")


def run(*command: str | Path) -> str:
    """Return the standard output of a program; show everything that it prints if it fails."""
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
