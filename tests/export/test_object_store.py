"""Exports that become objects: uploaded in parts, resumed, and never seen half written."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.conformance.shelf import ShelfStorage
from tests.export.ground import planned
from tests.export.test_resume import Killed, content

from mastaba.api.services import Site
from mastaba.errors import AccessDeniedError, ObjectNotFoundError, StorageUnavailableError
from mastaba_coverage import compressed
from mastaba_export import object_store
from mastaba_export import run as running
from mastaba_export.errors import (
    DestinationError,
    ExportTooLargeError,
    UploadError,
    WriteError,
)
from mastaba_export.object_store import ObjectTarget
from mastaba_export.output import discard
from mastaba_export.plan import ExportPlan
from mastaba_export.run import Progress, run
from mastaba_export.verify import verify

PART = 400_000


class Shelf(ShelfStorage):
    """Objects in files; as many calls as allowed succeed."""

    allowed: ClassVar[float] = float("inf")
    uploaded: ClassVar[list[int]] = []
    writer: ClassVar[str | None] = "tests.export.test_object_store:Shelf"

    def write_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        Shelf.allowed -= 1
        if Shelf.allowed < 0:
            raise self.error(StorageUnavailableError, key, "is not answered")
        Shelf.uploaded.append(number)
        return super().write_part(key, upload, number, data)


class Whole(ShelfStorage):
    """Objects that are written as a whole."""

    most_parts = 0
    writer: ClassVar[str | None] = "tests.export.test_object_store:Whole"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(object_store, "_PART", PART)
    monkeypatch.setattr(object_store, "_WAIT", 0)
    monkeypatch.setattr(running, "_CHECKPOINT_BYTES", 2 * PART)
    monkeypatch.setattr(compressed, "_PART", 500_000)
    Shelf.allowed, Shelf.uploaded = float("inf"), []
    found = tmp_path / "bucket"
    found.mkdir()
    return found


def target_in(folder: Path, storage: type[ShelfStorage] = Shelf) -> ObjectTarget:
    assert storage.writer is not None
    return ObjectTarget("shelf", str(folder), "deep/map", storage.writer)


def made_for(site: Site, format: str) -> ExportPlan:
    if format == "cog":
        return planned(site, "HEIGHTS", "cog", compression="deflate")
    return planned(site, "IMAGES", format, zoom=[5, 8])


def stored(folder: Path, path: Path) -> Path:
    """Return a file with the bytes of the object."""
    storage = ShelfStorage(str(folder))
    path.write_bytes(storage.read("deep/map").data)
    assert list(storage.list("")) == ["deep/map"]
    return path


@pytest.mark.parametrize("format", ["pmtiles", "mbtiles", "cog"])
def test_object_has_what_a_file_has(site: Site, tmp_path: Path, folder: Path, format: str) -> None:
    made = made_for(site, format)
    work = tmp_path / "work"
    work.mkdir()
    result = run(made, work / "map", target=target_in(folder))
    assert list(work.iterdir()) == []
    found = stored(folder, tmp_path / f"a{made.extension}")
    assert result.bytes == found.stat().st_size
    assert sorted(set(Shelf.uploaded)) == list(range(1, -(-result.bytes // PART) + 1))
    assert len(Shelf.uploaded) > 3
    verify(made, found, deep=True)
    with pytest.raises(DestinationError, match="exists"):
        run(made, work / "map", target=target_in(folder))
    assert list(work.iterdir()) == []


def test_uploaded_parts_leave_the_disk(site: Site, tmp_path: Path, folder: Path) -> None:
    most = 0

    def progress(_progress: Progress) -> None:
        nonlocal most
        most = max(most, (tmp_path / "map.part").stat().st_blocks * 512)

    result = run(
        made_for(site, "pmtiles"), tmp_path / "map", progress=progress, target=target_in(folder)
    )
    assert most < result.bytes
    assert most < 6 * PART


@pytest.mark.parametrize("format", ["pmtiles", "cog"])
def test_interrupted_uploads_are_resumed(
    site: Site, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setenv("MASTABA_OBJECT_ATTEMPTS_WAIT", "0")
    made, chance = made_for(site, format), random.Random(2)
    attempts = 0
    while True:
        left = chance.randrange(4, 16)
        Shelf.allowed = chance.randrange(2, 5)

        def progress(_progress: Progress, most: int = left) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        try:
            run(
                made,
                tmp_path / "map",
                resume=attempts > 0,
                progress=progress,
                target=target_in(folder),
            )
        except (Killed, WriteError):
            assert not ShelfStorage(str(folder)).exists("deep/map")
            attempts += 1
        else:
            break
        assert attempts < 60
    assert attempts > 2
    verify(made, stored(folder, tmp_path / f"a{made.extension}"), deep=True)


def stopped(site: Site, tmp_path: Path, folder: Path | None) -> None:
    """Begin an export to an object, or to a file, and stop it when parts were written."""
    left = 12

    def should_stop() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    target = None if folder is None else target_in(folder)
    made = made_for(site, "pmtiles")
    assert not run(made, tmp_path / "map", should_stop=should_stop, target=target).is_complete


def test_an_upload_does_not_go_on_as_a_file(site: Site, tmp_path: Path, folder: Path) -> None:
    stopped(site, tmp_path, folder)
    made = made_for(site, "pmtiles")
    with pytest.raises(DestinationError, match="object store"):
        run(made, tmp_path / "map", resume=True)
    discard(tmp_path / "map", target_in(folder))
    run(made, tmp_path / "map", resume=True)
    verify(made, tmp_path / "map", deep=True)


def test_a_file_goes_on_as_an_upload(site: Site, tmp_path: Path, folder: Path) -> None:
    stopped(site, tmp_path, None)
    made = made_for(site, "pmtiles")
    assert run(made, tmp_path / "map", resume=True, target=target_in(folder)).is_complete
    verify(made, stored(folder, tmp_path / f"a{made.extension}"), deep=True)


@pytest.mark.parametrize("moment", ["complete_parts", "unlink"])
def test_ended_around_the_completion(
    site: Site, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    made = made_for(site, "pmtiles")

    def end(*arguments: Any) -> None:
        if moment == "complete_parts":
            complete(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        complete = Shelf.complete_parts
        if moment == "complete_parts":
            patch.setattr(Shelf, "complete_parts", end)
        else:
            patch.setattr(running._Run, "_result", end)
        with pytest.raises(Killed):
            run(made, tmp_path / "map", target=target_in(folder))
    uploaded = len(Shelf.uploaded)
    assert run(made, tmp_path / "map", resume=True, target=target_in(folder)).is_complete
    assert len(Shelf.uploaded) == uploaded
    verify(made, stored(folder, tmp_path / "a.pmtiles"), deep=True)
    assert {one.name for one in tmp_path.iterdir()} == {"bucket", "a.pmtiles"}


def test_storage_without_parts(
    site: Site, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, target = made_for(site, "pmtiles"), target_in(folder, Whole)
    run(made, tmp_path / "map", target=target)
    found = stored(folder, tmp_path / "a.pmtiles")
    run(made, tmp_path / "b.pmtiles")
    assert content(found) == content(tmp_path / "b.pmtiles")
    ShelfStorage(str(folder)).delete("deep/map")
    monkeypatch.setattr(object_store, "LARGEST_WHOLE", 1_000_000)
    with pytest.raises(ExportTooLargeError, match="write it to a file"):
        run(made, tmp_path / "map", target=target)
    assert not list(tmp_path.glob("map*"))


def test_what_is_left_is_removed(site: Site, tmp_path: Path, folder: Path) -> None:
    made, target = made_for(site, "pmtiles"), target_in(folder)
    stops = iter([False] * 20 + [True])
    assert not run(
        made, tmp_path / "map", should_stop=lambda: next(stops), target=target
    ).is_complete
    other = target.beside("other")
    with pytest.raises(DestinationError, match="belongs to an export to shelf://"):
        run(made, tmp_path / "map", resume=True, target=other)
    assert list(folder.iterdir())
    discard(tmp_path / "map", target)
    assert not list(folder.iterdir())
    assert not list(tmp_path.glob("map*"))


def test_destinations(tmp_path: Path, site: Site) -> None:
    drivers: Any = {"shelf": Shelf, "reading": type("Reading", (Shelf,), {"writer": None})}
    assert str(ObjectTarget.parse("shelf://a/b/c.tif", drivers.__getitem__)) == "shelf://a/b/c.tif"
    for text, why in [
        ("none://a/b", "mastaba-storage-none"),
        ("reading://a/b", "only reads"),
        ("shelf://a", "not of the form"),
        ("shelf:///b", "not of the form"),
        ("shelf://a/b/", "not of the form"),
    ]:
        with pytest.raises(DestinationError, match=why):
            ObjectTarget.parse(text, drivers.__getitem__)
    with pytest.raises(DestinationError, match="mastaba pyramid copy"):
        run(planned(site, "IMAGES", "dir"), tmp_path / "map", target=target_in(tmp_path))


def test_a_lost_answer_to_the_completion(
    site: Site, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt finds no upload, but the object."""
    complete = Shelf.complete_parts
    calls: list[str] = []

    def lost(self: Shelf, key: str, upload: str, parts: Any) -> Any:
        calls.append(upload)
        if len(calls) > 1:
            raise self.error(ObjectNotFoundError, upload, "is unknown")
        complete(self, key, upload, parts)
        raise self.error(StorageUnavailableError, key, "is not answered")

    monkeypatch.setattr(Shelf, "complete_parts", lost)
    made = made_for(site, "pmtiles")
    assert run(made, tmp_path / "map", target=target_in(folder)).is_complete
    assert len(calls) == 2
    verify(made, stored(folder, tmp_path / "a.pmtiles"), deep=True)


def test_an_upload_that_the_store_has_removed(
    site: Site, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(site, tmp_path, folder)

    def unknown(self: Shelf, key: str, *_: object) -> Any:
        raise self.error(ObjectNotFoundError, key, "has no such upload")

    monkeypatch.setattr(Shelf, "write_part", unknown)
    with pytest.raises(DestinationError, match=r"remove map\.part and map\.journal") as caught:
        run(made_for(site, "pmtiles"), tmp_path / "map", resume=True, target=target_in(folder))
    assert not isinstance(caught.value, WriteError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StorageUnavailableError("no answer"), UploadError),
        (AccessDeniedError("no credentials"), DestinationError),
    ],
)
def test_a_store_that_cannot_be_opened(
    site: Site,
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[DestinationError],
) -> None:
    def closed(*_: object) -> Any:
        raise error

    monkeypatch.setattr(Shelf, "open", closed)
    target = target_in(folder)
    with pytest.raises(DestinationError, match=f"^{target} cannot be opened: no ") as caught:
        run(made_for(site, "pmtiles"), tmp_path / "map", target=target)
    assert type(caught.value) is kind
    assert not list(tmp_path.glob("map*"))
