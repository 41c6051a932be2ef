"""The documentation site: its parts, and the whole of it where Sphinx is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.docs_site.api import api_pages, first_modules
from scripts.docs_site.reference import reference_pages
from scripts.docs_site.stage import BrokenLinkError, stage
from scripts.public_api.members import members_of
from scripts.public_api.names import CORE, HOOKS, KIT, WRITER, names_of

from mastaba.config.schema import SCHEMA_NAMES
from mastaba.plugins.manager import Plugins

NEEDED = ("sphinx", "furo", "myst_parser")


@pytest.fixture(scope="module")
def pages(repository: Path) -> dict[str, str]:
    return reference_pages(repository)


def test_every_schema_has_a_page(pages: dict[str, str]) -> None:
    assert set(pages) == {f"configuration/{name}.md" for name in SCHEMA_NAMES}


def test_keys_are_described_with_type_default_and_meaning(pages: dict[str, str]) -> None:
    server = pages["configuration/server.md"]
    (row,) = re.findall(r"^\| `threads` .*$", server, re.M)
    assert "integer" in row
    assert "`1`" in row
    assert "At least 1" in row
    assert "## `configurations`" in server
    (row,) = re.findall(r"^\| `tile_matrix_sets` .*$", server, re.M)
    assert "**required**" in row


def test_members_of_lists_have_sections(pages: dict[str, str]) -> None:
    assert "## `levels[].storage`" in pages["configuration/pyramid.md"]
    assert "## `palette.colours[]`" in pages["configuration/style.md"]


def test_sections_of_installed_services_are_described(pages: dict[str, str]) -> None:
    for name, service in Plugins().services.items():
        if not service.is_fallback:
            assert f"## `{name}`" in pages["configuration/services.md"]


def test_samples_are_shown(pages: dict[str, str]) -> None:
    assert "## Sample" in pages["configuration/layer.md"]


def test_tables_have_as_many_cells_in_each_row(pages: dict[str, str]) -> None:
    for text in pages.values():
        for row in re.findall(r"^\|.*$", text, re.M):
            assert len(re.findall(r"(?<!\\)\|", row)) == 5, row


def _repository(folder: Path, page: str) -> Path:
    """A small repository with one page, one picture and one plugin."""
    (folder / "docs" / "images").mkdir(parents=True)
    (folder / "docs" / "conf.py").write_text("")
    (folder / "docs" / "images" / "map.jpg").write_bytes(b"")
    (folder / "docs" / "index.md").write_text(page)
    (folder / "plugins" / "storage_tape").mkdir(parents=True)
    readme = folder / "plugins" / "storage_tape" / "README.md"
    readme.write_text("# Tape\n\n[up](../../README.md) and [code](../../setup.py)\n")
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "setup.py"):
        (folder / name).write_text("# Page\n")
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "README.md").write_text("# Page\n")
    return folder


def test_links_follow_the_pages_to_their_places(tmp_path: Path) -> None:
    page = (
        "[tape](../plugins/storage_tape/README.md#tape) ![map](images/map.jpg) [x](https://e.org)"
    )
    repository = _repository(tmp_path / "repository", page)
    stage(repository, tmp_path / "out", {"commands.md": "# Commands\n"})
    assert (tmp_path / "out" / "index.md").read_text() == (
        "[tape](storage/tape.md#tape) ![map](images/map.jpg) [x](https://e.org)"
    )
    # A page that is not on the site: its name stays, and no link that would be broken.
    assert "[up](../index.md) and code" in (tmp_path / "out" / "storage" / "tape.md").read_text()


def test_code_is_left_alone(tmp_path: Path) -> None:
    page = "```\n[no](link.md)\n```\n"
    repository = _repository(tmp_path / "repository", page)
    stage(repository, tmp_path / "out", {})
    assert (tmp_path / "out" / "index.md").read_text() == page


def test_broken_links_are_refused(tmp_path: Path) -> None:
    repository = _repository(tmp_path / "repository", "[gone](gone.md) [out](../nothing.txt)")
    with pytest.raises(BrokenLinkError, match=r"(?s)gone\.md.*nothing\.txt"):
        stage(repository, tmp_path / "out", {})


def test_a_link_to_a_schema_leads_to_the_page_made_of_it(tmp_path: Path) -> None:
    repository = _repository(tmp_path / "repository", "[keys](../config/server.schema.json)")
    stage(repository, tmp_path / "out", {"configuration/server.md": "# server.json\n"})
    assert (tmp_path / "out" / "index.md").read_text() == "[keys](configuration/server.md)"


def test_a_link_to_a_module_leads_to_its_reference(tmp_path: Path) -> None:
    page = "[tiles](../core/src/mastaba/api/tiles.py) [all](../core/src/mastaba/api)"
    repository = _repository(tmp_path / "repository", page)
    api = repository / "core" / "src" / "mastaba" / "api"
    api.mkdir(parents=True)
    (api / "tiles.py").write_text("")
    generated = {"reference/mastaba.api.tiles.rst": "", "reference/index.rst": ""}
    stage(repository, tmp_path / "out", generated)
    assert (tmp_path / "out" / "index.md").read_text() == (
        "[tiles](reference/mastaba.api.tiles.rst) [all](reference/index.rst)"
    )


def test_every_public_module_has_a_page_in_the_reference() -> None:
    pages = api_pages()
    modules = {place.removeprefix("reference/").removesuffix(".rst") for place in pages}
    assert modules == {"index", "conformance", "writer", *CORE, *KIT, *WRITER}
    listed = "".join(pages[f"reference/{name}.rst"] for name in ("index", "conformance", "writer"))
    assert all(f"<{module}>" in listed for module in (*CORE, *KIT, *WRITER))


def test_a_link_to_a_page_that_only_the_site_has_is_refused(tmp_path: Path) -> None:
    repository = _repository(tmp_path / "repository", "[commands](commands.md)")
    with pytest.raises(BrokenLinkError, match=r"commands\.md"):
        stage(repository, tmp_path / "out", {"commands.md": "# Commands\n"})


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason="the dependency group docs is not installed",
)
@pytest.mark.live  # it takes as long as hundreds of other tests
def test_the_site_is_built_without_warnings(repository: Path, tmp_path: Path) -> None:
    # Nothing is fetched: a proxy that does not exist would make that fail.
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "scripts.docs_site", str(tmp_path)],
        cwd=repository,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "html"
    for page in ("index", "plugin-authors", "migration", "services/wmts", "storage/s3"):
        assert (site / f"{page}.html").exists()
    commands = (site / "commands.html").read_text("utf-8")
    for name in ("check", "convert-services", "plugins", "schema", "slab"):
        assert f'id="mastaba-{name}"' in commands
    assert "--deep" in commands
    text = (site / "configuration" / "server.html").read_text("utf-8")
    assert "decoded_mebibytes" in text
    _check_reference(site / "reference")
    # Scripts, styles and fonts come from the site itself.
    loaded = re.findall(r'<(?:script|link|img)\b[^>]*?(?:src|href)="([^"]+)"', text)
    assert loaded
    assert [address for address in loaded if re.match(r"(?:https?:)?//", address)] == []


def _check_reference(folder: Path) -> None:
    """Check that each public name and member has an entry, and that the entries have their text."""
    for module in (*CORE, *KIT, *WRITER):
        page = (folder / f"{module}.html").read_text("utf-8")
        missing = [
            anchor
            for name in names_of(module)
            # A class of several modules has its entry in the first one.
            if not name.is_class or first_modules()[name.value] == module
            for anchor in (
                f"{module}.{name.name}",
                *(
                    f"{module}.{name.name}.{member.name}"
                    for member in (members_of(name.value) if name.is_class else ())
                    if member.value is not None
                ),
            )
            if f'id="{anchor}"' not in page
        ]
        assert missing == []
    storages = (folder / "mastaba.api.storages.html").read_text("utf-8")
    # The text of a constant, a type in a signature, and a name in a docstring.
    assert "Maximum bytes of an object read as a whole" in storages
    assert re.search(r'href="#mastaba\.api\.storages\.ObjectRead"', storages)
    assert re.search(r'href="[^"]*#mastaba\.api\.storages\.MAX_WHOLE"', storages)
    hooks = (folder / f"{HOOKS}.html").read_text("utf-8")
    assert 'href="mastaba.api.services.html#mastaba.api.services.Site"' in hooks
    # The inside of the core is not shown.
    assert "mastaba_storage.base" not in re.sub(r"<[^>]*>", "", storages)
