"""``python -m scripts.docs_site [FOLDER [OPTION…]]``: the site in FOLDER/html.

The folder is build/docs by default. The options are those of ``sphinx-build``.
"""

from __future__ import annotations

import gc
import shutil
import sys
from pathlib import Path

from scripts.docs_site.api import api_pages
from scripts.docs_site.commands import commands_page
from scripts.docs_site.reference import reference_pages
from scripts.docs_site.stage import BrokenLinkError, stage
from sphinx.cmd.build import main as sphinx_build

REPOSITORY = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    """Build the site; return 1 if a link is broken or Sphinx reports a problem."""
    folder = Path(arguments[0]) if arguments else REPOSITORY / "build" / "docs"
    source, site = folder / "source", folder / "html"
    for old in (source, site):
        shutil.rmtree(old, ignore_errors=True)
    generated = {**reference_pages(REPOSITORY), **api_pages(), "commands.md": commands_page()}
    try:
        stage(REPOSITORY, source, generated)
    except BrokenLinkError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    # Collections take half of the time, and free little: the documents refer to each other.
    gc.disable()
    # Every warning is an error, and all of them are reported.
    options = ["-b", "html", "-W", "--keep-going", "-q", "-E", "-d", str(folder / "doctrees")]
    status = sphinx_build([*options, *arguments[1:], str(source), str(site)])
    if status == 0:
        print(f"the site is in {site}")
    return status


sys.exit(main(sys.argv[1:]))
