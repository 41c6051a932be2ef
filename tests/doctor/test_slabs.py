"""Sampled slabs: good ones, and all kinds of damaged ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import pytest
from tests.doctor.conftest import open_application

from mastaba import hookimpl
from mastaba.errors import AccessDeniedError, StorageUnavailableError
from mastaba.plugins.manager import Plugins
from mastaba_doctor.slabs import SlabFindings, look_at_slabs
from mastaba_documents.faults import Fault, Severity
from mastaba_storage.base import ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.environment import Environment


def examine(server_json: Path, samples: int = 2) -> SlabFindings:
    application = open_application(server_json)
    try:
        return look_at_slabs(application.site.catalogue, samples)
    finally:
        application.site.catalogue.storages.close()


def slabs(server_json: Path, layer: str, level: str = "4") -> list[Path]:
    folder = server_json.parent / "pyramids" / layer / "DATA" / level
    found = sorted(folder.rglob("*.tif"))
    assert found
    return found


def only_fault(findings: SlabFindings) -> Fault:
    (fault,) = findings.faults
    return fault


def test_no_error_is_reported_for_a_good_installation(own: Path) -> None:
    findings = examine(own)
    assert findings.faults == []
    assert findings.storages == 1
    # Nine pyramids of three levels; the two coarse ones of each have one slab and two.
    assert findings.levels == 27
    assert 27 < findings.slabs <= 54


def test_more_samples_read_more_slabs(own: Path) -> None:
    assert examine(own, 1).slabs < examine(own, 4).slabs


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("name", ["RGB_JPG", "RGB_PNG", "FLOAT32_ZIP", "VECTOR"])
def test_damaged_tiles(own: Path, name: str) -> None:
    for path in slabs(own, name):
        data = bytearray(path.read_bytes())
        data[2048 + 32 :] = b"\xaa" * (len(data) - 2080)
        path.write_bytes(data)
    findings = examine(own)
    assert findings.faults
    for fault in findings.faults:
        assert fault.severity is Severity.ERROR
        assert fault.file.endswith(".tif")
        assert fault.path.startswith("tile ")
        assert f"layer {name}, level 4" in fault.reason
        assert f"mastaba slab {fault.file}" in fault.remedy


def test_a_slab_that_was_cut_short(own: Path) -> None:
    path = slabs(own, "RGB_PNG")[0]
    path.write_bytes(path.read_bytes()[:-20])
    fault = only_fault(examine(own, 4))
    assert (fault.file, fault.path) == (str(path), "$")
    assert "truncated" in fault.reason


def test_no_slab_at_all(own: Path) -> None:
    path = slabs(own, "RGB_RAW", "2")[0]
    path.write_bytes(b"<html>not found</html>")
    fault = only_fault(examine(own))
    assert fault.file == str(path)
    assert "shorter than its header" in fault.reason


def test_a_descriptor_that_says_another_format(own: Path) -> None:
    descriptor = own.parent / "pyramids" / "RGB_PNG.json"
    document = json.loads(descriptor.read_text("utf-8"))
    document["format"] = "TIFF_JPG_UINT8"
    descriptor.write_text(json.dumps(document), encoding="utf-8")
    findings = examine(own)
    assert {fault.path.split()[0] for fault in findings.faults} == {"tile"}
    assert all("layer RGB_PNG" in fault.reason for fault in findings.faults)
    assert len(findings.faults) >= 3


def test_a_descriptor_that_says_another_channel_count(own: Path) -> None:
    descriptor = own.parent / "pyramids" / "RGB_RAW.json"
    document = json.loads(descriptor.read_text("utf-8"))
    document["raster_specifications"] |= {"channels": 4, "nodata": "0,0,0,0"}
    descriptor.write_text(json.dumps(document), encoding="utf-8")
    findings = examine(own)
    assert findings.faults
    assert all("instead of 262144" in fault.reason for fault in findings.faults)


def test_a_level_without_its_directory(own: Path) -> None:
    shutil.rmtree(own.parent / "pyramids" / "GREY_PNG" / "DATA" / "3")
    fault = only_fault(examine(own))
    assert fault.severity is Severity.ERROR
    assert "layer GREY_PNG, level 3: none of" in fault.reason
    assert "image_directory" in fault.remedy


def test_missing_slabs_among_others_are_not_reported(own: Path) -> None:
    slabs(own, "RGB_PNG")[0].unlink()
    assert examine(own, 4).faults == []


def test_a_level_too_large_to_be_searched_whole(own: Path) -> None:
    descriptor = own.parent / "pyramids" / "RGB_PNG.json"
    document = json.loads(descriptor.read_text("utf-8"))
    (level,) = (level for level in document["levels"] if level["id"] == "4")
    level["tile_limits"] = {"min_row": 0, "max_row": 15, "min_col": 0, "max_col": 15}
    level["storage"]["image_directory"] = "RGB_PNG/DATA/elsewhere"
    descriptor.write_text(json.dumps(document), encoding="utf-8")
    fault = only_fault(examine(own, 2))
    assert fault.severity is Severity.WARNING
    assert "none of 32 slabs" in fault.reason
    assert "out of 64" in fault.reason


class Refusing(Storage):
    """A storage whose objects are not readable."""

    name: ClassVar[str] = "ceph"
    container_field: ClassVar[str | None] = "pool_name"
    error: ClassVar[type[Exception]] = AccessDeniedError

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(container)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        raise self.error("no")

    def stat(self, key: str) -> ObjectStat:
        raise self.error("no")


class Slow(Refusing):
    error = StorageUnavailableError


@pytest.mark.parametrize(("driver", "word"), [(Refusing, "credentials"), (Slow, "network")])
def test_a_storage_that_cannot_be_read_is_reported_once(
    own: Path, driver: type[Refusing], word: str
) -> None:
    class Plugin:
        @hookimpl
        def register_storages(self) -> Sequence[type[Storage]]:
            return [driver]

    descriptor = own.parent / "pyramids" / "RGB_PNG.json"
    document = json.loads(descriptor.read_text("utf-8"))
    for level in document["levels"]:
        prefix = f"RGB_PNG/DATA_{level['id']}"
        level["storage"] = {"type": "CEPH", "pool_name": "maps", "image_prefix": prefix}
    descriptor.write_text(json.dumps(document), encoding="utf-8")
    plugins = Plugins(blocked=["storage_ceph"], extra={"other": Plugin()})
    application = open_application(own, plugins)
    findings = look_at_slabs(application.site.catalogue, 2)
    application.site.catalogue.storages.close()
    fault = only_fault(findings)
    assert fault.file.startswith("ceph://maps/RGB_PNG/DATA_")
    assert word in fault.remedy
    assert findings.storages == 2
    assert findings.levels == 24
