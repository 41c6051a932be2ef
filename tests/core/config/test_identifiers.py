"""Identifiers that no URL, or no file name, can contain."""

from __future__ import annotations

from typing import Any

import pytest

from mastaba.config.identifiers import problem_of

UNUSABLE = [".", "..", "é" * 126, "x" * 5000]


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable(name: str) -> None:
    assert problem_of(name)


@pytest.mark.parametrize("name", ["...", ".a", "a.", "x" * 250, "é" * 125, "\udcff"])
def test_usable(name: str) -> None:
    assert problem_of(name) is None


@pytest.mark.parametrize("name", [".", ".."])
def test_layer(name: str, installation: Any, run_check: Any) -> None:
    documents = installation.documents
    documents[f"layers/{name}.json"] = documents.pop("layers/L.json")
    documents["layers.txt"] = f"layers/{name}.json\n"
    status, reported = run_check()
    assert status == 1
    reasons = [fault.reason for fault in reported if fault.file.endswith(f"layers/{name}.json")]
    expected = f"{name!r} cannot be the identifier of a layer: "
    assert reasons == [expected + "browsers and proxies remove it from paths"]


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("key", ["styles", "extra_tilematrixsets"])
def test_names_of_styles_and_sets(name: str, key: str, installation: Any, run_check: Any) -> None:
    installation.documents["layers/L.json"][key] = [name]
    _, reported = run_check()
    kind = "style" if key == "styles" else "tile matrix set"
    found = [
        fault.reason for fault in reported if f"cannot be the name of a {kind}" in fault.reason
    ]
    assert len(found) == 1, reported
    assert len(found[0]) < 300


@pytest.mark.parametrize("name", UNUSABLE)
def test_identifier_of_a_style(name: str, installation: Any, run_check: Any) -> None:
    installation.documents["styles/ember.json"]["identifier"] = name
    _, reported = run_check()
    found = [fault for fault in reported if "cannot be an identifier" in fault.reason]
    assert [fault.path for fault in found] == ["$.identifier"]


@pytest.mark.parametrize("name", UNUSABLE)
def test_id_of_a_matrix(name: str, installation: Any, run_check: Any) -> None:
    matrices = installation.documents["tilematrixsets/PM.json"]["tileMatrices"]
    matrices[0]["id"] = name
    status, reported = run_check()
    assert status == 1
    found = [fault for fault in reported if "cannot be the id of a matrix" in fault.reason]
    assert [fault.path for fault in found] == ["$.tileMatrices[0].id"]
