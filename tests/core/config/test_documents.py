"""Files that cannot be read, and what is the same in JSON and YAML."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.documents.test_reading import BY_ALIASES, MOST_MEMORY
from tests.support.memory import peak_of

FILES = [
    "server.json",
    "services.json",
    "equivalences.json",
    "layers/L.json",
    "pyramids/P.json",
    "styles/ember.json",
    "tilematrixsets/PM.json",
]

UNREADABLE = {
    "empty": b"",
    "blank": b" \n",
    "null": b"null",
    "binary rubbish": bytes(range(256)) * 20,
    "image": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "UTF-16": '{"title": "é"}'.encode("utf-16"),
    "Latin-1": '{"title": "é"}'.encode("latin-1"),
    "cut short": b'{"title": "x", ',
    "trailing comma": b'{"title": "x",}',
    "comment": b'// x\n{"title": "x"}',
    "two documents": b'{"title": "x"} {}',
    "single quotes": b"{'title': 'x'}",
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "moderately deep": b'{"a":' * 80 + b"1" + b"}" * 80,
    "NaN": b'{"title": NaN}',
    "infinity": b'{"title": 1e999}',
    "huge number": b'{"title": ' + b"9" * 400 + b"}",
    "enormous number": b'{"title": ' + b"9" * 100_000 + b"}",
    "half a surrogate pair": b'{"title": "\\ud83d"}',
}


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE.keys())
@pytest.mark.parametrize("file", FILES)
def test_unreadable_file_is_reported_as_one_error(
    file: str, content: bytes, installation: Any, run_check: Any
) -> None:
    installation.documents[file] = content

    status, reported = run_check()

    assert status == 1
    found = [fault for fault in reported if fault.file == file]
    assert [fault.severity for fault in found] == ["error"], reported
    assert found[0].path.startswith("$")
    assert found[0].reason
    assert found[0].remedy
    assert len(found[0].reason) < 300


@pytest.mark.parametrize("file", FILES)
def test_directory_in_place_of_a_file_is_reported(
    file: str, installation: Any, run_check: Any, tmp_path: Path
) -> None:
    del installation.documents[file]
    (tmp_path / file).mkdir(parents=True)

    status, reported = run_check()

    assert status == 1
    # A style or tile matrix set is looked for under several names, and not found.
    name = file.removesuffix(".json")
    assert [fault for fault in reported if fault.file in (file, name)]


@pytest.mark.parametrize("file", FILES)
def test_absent_file_is_reported(file: str, installation: Any, run_check: Any) -> None:
    del installation.documents[file]

    status, reported = run_check()

    assert status == 1
    names = (file, file.removesuffix(".json"))
    assert [fault.severity for fault in reported if fault.file in names] == ["error"]


@pytest.mark.parametrize("file", FILES[1:])
def test_pipe_in_place_of_a_file_is_reported_without_waiting(
    file: str, installation: Any, run_check: Any, tmp_path: Path
) -> None:
    del installation.documents[file]
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / file)

    status, _ = run_check()
    assert status == 1


@pytest.mark.parametrize("content", [bytes(1000), "é".encode("latin-1"), "a".encode("utf-16")])
def test_layer_list_that_is_not_a_string_is_reported(
    content: bytes, installation: Any, run_check: Any
) -> None:
    installation.documents["layers.txt"] = content

    status, reported = run_check()
    assert status == 1
    assert reported


def test_byte_order_mark_is_accepted(installation: Any) -> None:
    for file in FILES:
        text = json.dumps(installation.documents[file])
        installation.documents[file] = b"\xef\xbb\xbf" + text.encode()

    assert list(installation.catalogue().layers) == ["L"]


def test_every_file_may_be_yaml(installation: Any) -> None:
    documents = installation.documents
    for file in [name for name in documents if name.endswith(".json")]:
        if file != "server.json":
            text = yaml.safe_dump(documents.pop(file), allow_unicode=True)
            documents[file.replace(".json", ".yaml")] = text.encode()
    server = json.dumps(documents["server.json"]).replace("services.json", "services.yaml")
    documents["server.json"] = json.loads(server)
    for name in ("services.yaml", "layers/L.yaml"):
        text = documents[name].decode()
        documents[name] = (
            text.replace("equivalences.json", "equivalences.yaml")
            .replace("P.json", "P.yaml")
            .encode()
        )
    documents["layers.txt"] = "layers/L.yaml\n"

    catalogue = installation.catalogue()
    assert list(catalogue.layers) == ["L"]
    assert [style.id for style in catalogue.layers["L"].styles] == ["normal", "ember"]


@pytest.mark.parametrize("text", BY_ALIASES.values(), ids=BY_ALIASES)
def test_layer_whose_aliases_would_fill_the_memory_is_refused(installation: Any, text: str) -> None:
    del installation.documents["layers/L.json"]
    installation.documents["layers/L.yaml"] = text.encode()
    installation.documents["layers.txt"] = "layers/L.yaml\n"
    (_, _, faults), peak = peak_of(installation.load)
    (fault,) = [fault for fault in faults if fault.file == "layers/L.yaml"]
    assert "by its aliases" in fault.reason
    assert peak < MOST_MEMORY
