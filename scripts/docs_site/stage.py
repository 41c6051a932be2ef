"""Collection of all pages in one folder: docs/, the READMEs and the generated pages."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

_FENCES = ("```", "~~~")
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\[\]\s]+)\)")
_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|#|//", re.I)


class BrokenLinkError(Exception):
    """Broken links in the repository, one per line."""


def stage(repository: Path, folder: Path, generated: Mapping[str, str]) -> None:
    """Copy the pages of the repository, and adapt links to their new places.

    A link to a file that is not a page becomes plain text: the site does not contain the sources.

    Args:
        generated: additional pages, by path on the site.

    Raises:
        BrokenLinkError: a link names a file that does not exist.
    """
    pages = _pages(repository)
    places = {repository / source: place for source, place in pages.items()}
    for path in (repository / "docs" / "images").iterdir():
        places[path] = f"images/{path.name}"
    # Links name files in the repository, because it is also read without the site. A link to a page
    # generated from a schema or a module names the schema or the module.
    for place in generated:
        name = Path(place).stem
        if place.startswith("configuration/"):
            places[repository / "config" / f"{name}.schema.json"] = place
        elif place.startswith("reference/mastaba."):
            places[repository / "core" / "src" / f"{name.replace('.', '/')}.py"] = place
    places[repository / "core" / "src" / "mastaba" / "api"] = "reference/index.rst"
    # Links to the project itself become links to the front page.
    for name in ("README.md", "core", "core/README.md"):
        places[repository / name] = "index.md"
    broken: list[str] = []
    for source, place in pages.items():
        text = (repository / source).read_text("utf-8")
        moved = _moved_links(text, repository / source, place, places, broken)
        _write(folder / place, moved)
    for place, text in generated.items():
        _write(folder / place, text)
    if broken:
        raise BrokenLinkError("\n".join(broken))
    shutil.copytree(repository / "docs" / "images", folder / "images")
    shutil.copy(repository / "docs" / "conf.py", folder / "conf.py")


def _pages(repository: Path) -> dict[str, str]:
    """Return the path on the site for each page of the repository."""
    docs = repository / "docs"
    pages = {
        str(path.relative_to(repository)): str(path.relative_to(docs))
        for path in sorted(docs.rglob("*.md"))
    }
    for path in sorted(repository.glob("libs/*/README.md")):
        pages[str(path.relative_to(repository))] = f"libraries/{path.parent.name}.md"
    for path in sorted(repository.glob("plugins/*/README.md")):
        name = path.parent.name
        if name.startswith("storage_"):
            place = f"storage/{name.removeprefix('storage_')}.md"
        else:
            place = f"services/{name}.md"
        pages[str(path.relative_to(repository))] = place
    pages |= {
        "benchmarks/README.md": "benchmarks.md",
        "CHANGELOG.md": "changes.md",
        "CONTRIBUTING.md": "contributing.md",
    }
    return pages


def _moved_links(
    text: str, source: Path, place: str, places: Mapping[Path, str], broken: list[str]
) -> str:
    def moved(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if _EXTERNAL.match(target):
            return match[0]
        path, separator, anchor = target.partition("#")
        resolved = Path(os.path.normpath(source.parent / path))
        if resolved in places:
            there = os.path.relpath(places[resolved], os.path.dirname(place) or ".")
            return f"{image}[{label}]({there}{separator}{anchor})"
        if not resolved.exists():
            broken.append(f"{source}: the link to {target} leads nowhere")
        return label

    # Links inside code are not links.
    prose: list[str] = []
    parts: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        begins = line.startswith(fence or _FENCES)
        if fence or begins:
            parts += (_LINK.sub(moved, "".join(prose)), line)
            prose = []
        else:
            prose.append(line)
        if begins:
            fence = "" if fence else line[:3]
    return "".join([*parts, _LINK.sub(moved, "".join(prose))])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
