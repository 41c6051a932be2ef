"""The API definition, the descriptions of processes, and links."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openapi_schema_validator import OAS30Validator
from openapi_spec_validator import validate
from tests.export.service.conftest import Exports

LAYER = {"layer": "RGB_PNG"}
HOST = "http://maps.example"


@pytest.fixture
def definition(exports: Exports) -> dict[str, Any]:
    content: dict[str, Any] = exports.client.get("/export/api").get_json()
    return content


def test_definition_is_valid(definition: dict[str, Any]) -> None:
    validate(definition)
    assert definition["servers"] == [{"url": f"{HOST}/export"}]


@pytest.mark.shared_data
def test_definition_validates_with_the_schema_of_openapi(
    definition: dict[str, Any], shared_data: Path
) -> None:
    schema = json.loads((shared_data / "schemas/openapi/openapi-3.0.x.json").read_text())
    jsonschema.Draft4Validator(schema).validate(definition)


def test_answers_are_as_described(exports: Exports, definition: dict[str, Any]) -> None:
    """Every operation, once with success."""
    job = exports.done(LAYER)
    name = exports.file(job).rpartition("/")[2]
    values = {"processID": "export-tiles", "jobID": job[-32:], "name": name}
    operations = [
        (path, method, operation)
        for path, item in definition["paths"].items()
        for method, operation in item.items()
    ]
    # The dismissal comes last.
    for path, method, operation in sorted(operations, key=lambda item: item[1] == "delete"):
        address = path
        for key, value in values.items():
            address = address.replace(f"{{{key}}}", value)
        body = {"inputs": LAYER} if "requestBody" in operation else None
        response = exports.client.open(
            f"/export{address}".rstrip("/"), method=method.upper(), json=body
        )
        described = operation["responses"][str(response.status_code)]
        assert response.status_code < 300, path
        assert response.content_type in described["content"], path
        schema = described["content"][response.content_type]["schema"]
        if response.is_json:
            schema = {**schema, "components": definition["components"]}
            OAS30Validator(schema).validate(response.get_json())


def test_links_lead_somewhere(exports: Exports) -> None:
    job = exports.done(LAYER)
    open_paths = ["/export", job, "/export/jobs", "/export/processes"]
    seen: set[str] = set()
    while open_paths:
        path = open_paths.pop()
        if path in seen:
            continue
        seen.add(path)
        response = exports.client.get(path)
        if path.endswith(("/execution", "/estimate")):
            assert response.status_code == 405
            continue
        assert response.status_code == 200, path
        if response.is_json:
            content = response.get_json()
            items = [content, *content.get("processes", ()), *content.get("jobs", ())]
            for link in [link for item in items for link in item.get("links", ())]:
                assert link["href"].startswith(f"{HOST}/export")
                open_paths.append(link["href"].removeprefix(HOST))
    assert len(seen) > 20


@pytest.mark.parametrize("process", ["export-tiles", "export-coverage"])
def test_inputs_are_described(exports: Exports, process: str) -> None:
    path = f"/export/processes/{process}"
    content = exports.client.get(path).get_json()
    for name, item in content["inputs"].items():
        jsonschema.Draft202012Validator.check_schema(item["schema"])
        assert item["title"] != name
        assert item["description"], name
        # Not an option of the command line.
        assert "--" not in item["description"], name
    assert [name for name, item in content["inputs"].items() if item["minOccurs"]] == ["layer"]
    examples = {"layer": "FLOAT32_ZIP" if process == "export-coverage" else "RGB_PNG"}
    for name in content["inputs"]["format"]["schema"]["enum"]:
        inputs = {**examples, "format": name}
        response = exports.post(f"{path}/estimate", inputs)
        assert response.status_code == 200, response.text


@pytest.mark.parametrize("format", ["cog", "tif"])
def test_coverage_of_a_box(exports: Exports, format: str) -> None:
    inputs = {"layer": "FLOAT32_ZIP", "bbox": [0, 0, 40, 40], "format": format}
    response = exports.post("/export/processes/export-coverage/execution", inputs)
    assert response.status_code == 201, response.text
    assert exports.worker.run_one()
    job = response.headers["Location"].removeprefix(HOST)
    file = exports.client.get(exports.file(job))
    assert file.data[:4] in (b"II*\0", b"II+\0")
    assert file.content_type.startswith("image/tiff")
    assert len(file.data) == response.get_json()["estimate"]["bytes"]


def test_pages_learn_what_jobs_can_make_of_a_layer(open_exports: Callable[..., Exports]) -> None:
    exports = open_exports(limits={"estimates": 1000})
    service = exports.site.services["export"]
    found: dict[str, list[Any]] = {}
    for layer in exports.site.catalogue.layers.values():
        for download in service.downloads(layer):
            box = {"bbox": [0, 0, 5_000_000, 5_000_000], "crs": "EPSG:3857"}
            path = download.process.removeprefix(HOST)
            response = exports.post(f"{path}/estimate", {**download.inputs, **box})
            assert response.status_code == 200, (download, response.text)
            drawn = download.inputs.get("style")
            found.setdefault(layer.id, []).append((download.format, drawn))
    stored = [(format, None) for format in ("pmtiles", "mbtiles", "gpkg")]
    coverages = [("cog", None), ("tif", None)]
    assert found["RGB_PNG"] == coverages + stored
    assert found["VECTOR"] == stored[:2]
    # Pixels that are no pictures are drawn, as the default style shows them.
    assert found["RGB_RAW"] == coverages + [(format, "normal") for format, _ in stored]
    # Heights have no style in which they are pictures.
    assert found["FLOAT32_ZIP"] == [*coverages, ("gpkg", None)]
    # It has not the switch.
    assert "RGBA_PNG" not in found
