"""Run ``mastaba new``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from mastaba.api.commands import USAGE, failed
from mastaba_conformance.new.names import InvalidNameError, names_of
from mastaba_conformance.new.templates import write

if TYPE_CHECKING:
    from argparse import Namespace


def run(arguments: Namespace) -> int:
    """Write the distribution; return 0, or 2 if the name or the directory cannot be used."""
    try:
        blocked, beside = arguments.plugins.blocked, arguments.plugins_directory
        names = names_of(arguments.kind, arguments.name, blocked, beside)
        directory = Path(arguments.directory or names.distribution)
        write(arguments.kind, names, directory)
    except InvalidNameError as error:
        return _refuse(error)
    except FileExistsError:
        return _refuse(f"{directory} is not an empty directory: choose another --directory")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return _refuse(f"cannot write {directory}: {reason}")
    print(f"Wrote {names.distribution} into {directory}. Next:")
    print(f"  cd {shlex.quote(str(directory))}")
    print("  pip install -e . && pytest --mastaba-report")
    return 0


def _refuse(reason: object) -> int:
    return failed(reason, status=USAGE, name="mastaba new")
