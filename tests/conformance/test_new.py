"""``mastaba new``: names and directories it refuses, and whether its files are correct.

tests/live/test_examples.py installs what it writes, and runs its tests.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mastaba.tooling.commands import main
from mastaba_conformance.new import KINDS
from mastaba_conformance.new.names import OURS

REPOSITORY = Path(__file__).parents[2]
LONGEST = "abcdefghijklmnopqrst_uvw"

kinds = pytest.mark.parametrize("kind", KINDS)


def new(*arguments: str | Path) -> int:
    return main(["new", *map(str, arguments)])


@pytest.mark.sampled(one_in=3)
@kinds
@pytest.mark.parametrize("name", ["q", LONGEST])
def test_files_are_formatted_and_pass_strict_checks(kind: str, name: str, tmp_path: Path) -> None:
    assert new(kind, name, "--directory", tmp_path / "new") == 0
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        ended = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache"],
            cwd=tmp_path / "new",
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr


@kinds
def test_distribution_is_complete(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new(kind, "my_own") == 0
    plugin = "storage_my_own" if kind == "storage" else "my_own"
    directory = f"mastaba-{plugin.replace('_', '-')}"
    printed = capsys.readouterr().out
    assert f"cd {directory}\n" in printed
    assert "pip install -e . && pytest" in printed
    files = {
        str(path.relative_to(directory)) for path in Path(directory).rglob("*") if path.is_file()
    }
    assert files >= {
        ".github/workflows/ci.yml",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        f"src/mastaba_{plugin}/__init__.py",
        f"src/mastaba_{plugin}/py.typed",
        "tests/test_conformance.py",
    }
    for path in files:
        text = (Path(directory) / path).read_text("utf-8")
        assert "${" not in text.replace("${{ matrix", ""), path
        assert text.isascii() or "©" in text, path


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("service", "my-own", "not a usable name"),
        ("service", "my.own", "not a usable name"),
        ("service", "MyOwn", "not a usable name"),
        ("service", "1st", "not a usable name"),
        ("service", "", "not a usable name"),
        ("service", "a" * 25, "not a usable name"),
        ("service", "été", "not a usable name"),
        ("service", "../x", "not a usable name"),
        ("service", "a\nb", "not a usable name"),
        ("storage", "class", "keyword"),
        ("service", "core", "Mastaba itself"),
        ("service", "wmts", "Mastaba itself"),
        ("encoder", "tms", "Mastaba itself"),
        ("storage", "s3", "Mastaba itself"),
        ("storage", "file", "duplicate storage driver 'file'"),
        ("service", "health", "duplicate service 'health'"),
        ("service", "title", "a key of the core"),
        ("encoder", "png", "duplicate encoder name 'png'"),
        ("encoder", "tif", "duplicate file extension 'tif'"),
        ("container", "cog", "Mastaba itself"),
        ("container", "gpkg", "duplicate suffix of containers '.gpkg'"),
    ],
)
def test_name_is_refused_in_one_line(
    kind: str, name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(kind, name, "--directory", tmp_path / "new") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mastaba new: ")
    assert reason in line
    assert not (tmp_path / "new").exists()


def test_name_of_an_installed_plugin_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        '"""A plugin."""\n'
        "from mastaba import hookimpl\n"
        "@hookimpl\n"
        "def register_commands(subparsers):\n"
        "    pass\n"
    )
    directory = tmp_path / "new"
    assert (
        main(["--plugins", str(tmp_path), "new", "service", "mine", "--directory", str(directory)])
        == 2
    )
    assert "duplicate plugin name 'mine'" in capsys.readouterr().err
    assert not directory.exists()


def test_installed_package_is_not_shadowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mastaba_library.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert new("encoder", "library", "--directory", tmp_path / "new") == 2
    assert "the package mastaba_library is installed" in capsys.readouterr().err


def test_directory_that_is_not_empty_is_not_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for directory in (tmp_path, tmp_path / "mine.txt"):
        assert new("service", "my_own", "--directory", directory) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "not an empty directory" in line
    assert new("service", "my_own", "--directory", tmp_path / "mine.txt/x") == 2
    assert "cannot write" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_commands_to_run_next_can_be_copied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "it's mine"
    assert new("service", "my_own", "--directory", directory) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert shlex.split(line) == ["cd", str(directory)]


def test_empty_directory_is_filled(tmp_path: Path) -> None:
    assert new("service", "my_own", "--directory", tmp_path) == 0
    assert (tmp_path / "pyproject.toml").is_file()


def test_the_container_of_the_manual_is_that_of_the_template(tmp_path: Path) -> None:
    assert new("container", "zip", "--directory", tmp_path) == 0
    example = REPOSITORY / "examples/zip"
    for path in [*example.rglob("src/**/*.py"), *example.rglob("tests/*.py")]:
        written = (tmp_path / path.relative_to(example)).read_text("utf-8")
        # Only the order of imports differs inside the repository.
        assert sorted(written.splitlines()) == sorted(path.read_text("utf-8").splitlines()), path


def test_reserved_names_are_the_plugins_of_this_repository() -> None:
    projects = [
        path for place in ("libs", "plugins") for path in REPOSITORY.glob(f"{place}/*/p*.toml")
    ]
    names = {tomllib.loads(path.read_text("utf-8"))["project"]["name"] for path in projects}
    assert {name.removeprefix("mastaba-").replace("-", "_") for name in names} | {"core"} == OURS
