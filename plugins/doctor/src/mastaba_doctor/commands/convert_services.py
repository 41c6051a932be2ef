"""``mastaba convert-services OLD [NEW]``: services.json from version 6 to version 7."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from mastaba.api.commands import failed, print_json
from mastaba.api.documents import Faults, parse_document, read_local_text
from mastaba.errors import escaped
from mastaba.tooling.documents import started_at, unreadable
from mastaba_doctor.rok4_v6 import to_rok4_v7


def run(arguments: argparse.Namespace) -> int:
    """Write the converted document to NEW, or print it; notes go to standard error.

    Return 0 if it is written; 1 if OLD cannot be read or is not of version 6, or if NEW
    cannot be written or exists (it is never overwritten).
    """
    faults = Faults()
    document = _read(arguments.old, faults)
    if document is None:
        return failed(*faults.all)
    converted, notes = to_rok4_v7(document)
    if arguments.new is None:
        print_json(converted)
    else:
        try:
            with open(arguments.new, "x", encoding="utf-8") as stream:
                stream.write(json.dumps(converted, indent=2, ensure_ascii=False) + "\n")
        except FileExistsError:
            return failed(f"{arguments.new} already exists: choose another file, or remove it")
        except OSError as error:
            return failed(f"cannot write {arguments.new}: {error.strerror}")
    for note in notes:
        sys.stderr.write(escaped(f"{arguments.old}: {note}") + "\n")
    return 0


def _read(file: str, faults: Faults) -> dict[str, Any] | None:
    try:
        text = read_local_text(file)
    except (OSError, ValueError) as error:
        faults.error(file, "$", unreadable(error) + started_at(file), "name a services.json")
        return None
    document = parse_document(text, file, faults)
    if faults.errors:
        return None
    if not isinstance(document, dict):
        faults.error(file, "$", "is not an object", "name a services.json")
    elif "global" in document:
        faults.error(file, "$.global", "is already of version 7", "use it as it is")
    else:
        return document
    return None
