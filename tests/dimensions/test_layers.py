"""Variants of layers: found, opened, replaced, and shown in views."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from tests.dimensions.conftest import (
    YEARS,
    document_of,
    loaded,
    replaced,
    with_stack,
    with_template,
)
from tests.series import LEVELS, rewrite_layer, series_installation, write_value
from werkzeug.test import Client

from mastaba import hookimpl
from mastaba.catalogue import Catalogue
from mastaba.config.load import load_catalogue
from mastaba.config.pyramids import PyramidLoader
from mastaba.config.server import load_server
from mastaba.errors import (
    NoSuchValueError,
    OverloadedError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
)
from mastaba.model.digest import digest_of
from mastaba.model.layer import Layer
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.plugins.manager import Plugins
from mastaba.services.change import Action, Change, layer_changes
from mastaba.site.updates import SiteUpdates
from mastaba.tiles.published import Tiles
from mastaba.wsgi import create_application
from mastaba_doctor.slabs import look_at_slabs
from mastaba_documents.faults import Faults
from mastaba_server.web.request import Request
from mastaba_storage.base import ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan


def times(catalogue: Catalogue) -> list[str]:
    (values,) = catalogue.values_of(catalogue.layers["ORTHO"])
    return list(values.texts)


def colour(catalogue: Catalogue, text: str) -> bytes:
    """Return a stored tile of a value."""
    layer = catalogue.resolve("ORTHO", {"time": text}).layer
    tile = catalogue.readers_of(layer)["2"].expect(1, 2)
    assert tile is not None
    return tile.read()


def test_nothing_is_opened_before_it_is_asked_for(tmp_path: Path) -> None:
    catalogue = loaded(series_installation(tmp_path, [{"time": year} for year in YEARS]))
    assert catalogue.opened.values() == []
    layer = catalogue.resolve("ORTHO", {"time": "1950"}).layer
    assert catalogue.opened.values() == [layer]
    assert layer is catalogue.resolve("ORTHO;time=1950").layer
    assert (layer.id, layer.key, dict(layer.at)) == ("ORTHO", "ORTHO;time=1950", {"time": "1950"})
    assert layer.interval == ("1950-01-01T00:00:00Z", "1950-12-31T23:59:59Z")


@pytest.mark.thorough
def test_a_start_opens_no_variant_of_a_hundred_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_json = with_template(tmp_path)
    one = (tmp_path / "pyramids/ortho_1950.json").read_text()
    for number in range(50):
        (tmp_path / f"pyramids/ortho_{1960 + number}.json").write_text(one)
    (layers,) = tmp_path.rglob("layers")
    document = (layers / "ORTHO.json").read_text()
    names = []
    for number in range(100):
        (layers / f"L{number}.json").write_text(document)
        names.append(str(layers / f"L{number}.json"))
    (tmp_path / "layers.txt").write_text("\n".join(names))
    loads: list[object] = []
    load = PyramidLoader._load
    monkeypatch.setattr(
        PyramidLoader, "_load", lambda self, key, by: (loads.append(key), load(self, key, by))[1]
    )
    catalogue = loaded(server_json)
    assert len(catalogue.layers) == 100
    assert len(loads) == 1


def test_a_template_of_texts_takes_no_documents_of_a_pyramid(tmp_path: Path) -> None:
    """A text may be anything, also what the builder writes beside each pyramid."""
    rows = [{"scene": "north_2"}]
    server_json = series_installation(tmp_path, rows, dimensions=[{"name": "scene"}])
    folder = tmp_path / "pyramids"
    text = (folder / "value_0.json").read_text()
    others = (
        *("a.layer", "a.build", "a.history", "a.versions", "a.pins", "a.sources", "a_sources"),
        *("a_1", "a_2", "a_1.build", "a_2.changes", "a_2.sources", "a.stack"),
    )
    # `north_2` is no version of another pyramid.
    for name in ("a", "north", "north_2", *others):
        (folder / f"ortho_{name}.json").write_text(text)
    document = document_of(tmp_path)
    document["variants"] = {"template": str(folder / "ortho_{scene}.json")}
    document["pyramids"][0]["path"] = str(folder / "ortho_north_2.json")
    rewrite_layer(tmp_path, "ORTHO", document)
    catalogue = loaded(server_json)
    (values,) = catalogue.values_of(catalogue.layers["ORTHO"])
    assert list(values.texts) == ["a", "north", "north_2"]


def test_a_template_takes_a_pyramid_named_like_a_version(tmp_path: Path) -> None:
    server_json = with_template(tmp_path)
    folder = tmp_path / "pyramids"
    text = (folder / "ortho_1950.json").read_text()
    for name in ("ortho", "ortho_2"):
        (folder / f"{name}.json").write_text(text)
    (folder / "ortho.history.json").write_text('{"versions": {"1": {}, "2": {}}}')
    assert times(loaded(server_json)) == list(YEARS)


def test_a_template_takes_only_what_is_a_value(tmp_path: Path) -> None:
    server_json = with_template(tmp_path)
    text = (tmp_path / "pyramids/ortho_1950.json").read_text()
    for name in ("ortho_2023_2", "ortho_2023.layer", "ortho_", "ortho_x", "other_1951"):
        (tmp_path / f"pyramids/{name}.json").write_text(text)
    assert times(loaded(server_json)) == list(YEARS)


def test_the_default_may_be_named_in_another_way_than_by_the_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_json = with_template(tmp_path)
    monkeypatch.chdir(tmp_path)
    (path,) = tmp_path.rglob("layers/ORTHO.json")
    document = document_of(tmp_path)
    document["variants"]["template"] = os.path.relpath("pyramids/ortho_{time}.json", path.parent)
    for default, count in ((YEARS[-1], 0), (YEARS[0], 1)):
        document["pyramids"][0]["path"] = f"pyramids/ortho_{default}.json"
        rewrite_layer(tmp_path, "ORTHO", document)
        faults = Faults()
        assert loaded(server_json, faults).layers
        assert len([one for one in faults.all if "default value" in str(one)]) == count


def test_a_template_that_matches_nothing_is_an_error(tmp_path: Path) -> None:
    server_json = with_template(tmp_path)
    document = document_of(tmp_path)
    document["variants"]["template"] = str(tmp_path / "pyramids/none_{time}.json")
    rewrite_layer(tmp_path, "ORTHO", document)
    faults = Faults()
    assert not loaded(server_json, faults).layers
    assert "no file in" in str(faults.errors[0])


def test_a_stack_says_where_tiles_are_without_opening_them(tmp_path: Path) -> None:
    far = (LevelPlan("2", 1, 1, 2, 2), LevelPlan("3", 2, 3, 4, 5), LevelPlan("4", 4, 4, 8, 8))
    rows = []
    for year, levels in (("1950", far), ("2023", LEVELS)):
        path = write_value(tmp_path, f"ortho_{year}", (1, 2, 3), levels=levels)
        limits = {"2": [1, 1, 2, 2], "3": [2, 3, 3, 5], "4": [4, 4, 8, 8]}
        own = {one.id: limits[one.id] for one in levels}
        rows.append({"at": {"time": year}, "path": path.name, "levels": own})
    catalogue = loaded(with_stack(tmp_path, rows))
    layer = catalogue.layers["ORTHO"]
    assert list(layer.tile_limits) == ["2", "3", "4"]
    assert layer.tile_limits["3"].min_col == 3
    assert layer.levels_id == "PM_2_4"
    assert layer.native_bbox.xmin < loaded_box(catalogue)
    assert catalogue.opened.values() == []


def test_the_extent_of_a_stack_is_that_of_its_finest_levels(tmp_path: Path) -> None:
    """A coarser level counts only in a variant that has no finer one, or if it has more tiles."""
    world = (LevelPlan("0", 0, 0, 0, 0), *LEVELS)
    limits = {"0": [0, 0, 0, 0], "2": [1, 1, 2, 2], "3": [2, 3, 4, 5]}
    rows = []
    for year in ("1950", "2023"):
        path = write_value(tmp_path, f"ortho_{year}", (1, 2, 3), levels=world)
        rows.append({"at": {"time": year}, "path": path.name, "levels": limits})
    found = loaded(with_stack(tmp_path, rows)).layers["ORTHO"]
    assert list(found.tile_limits) == ["0", "2", "3"]
    level = found.pyramid.levels["3"]
    assert found.native_bbox == level.matrix.bbox_of(level.limits)
    path = write_value(tmp_path, "ortho_1900", (1, 2, 3), levels=world[:1])
    rows.append({"at": {"time": "1900"}, "path": path.name, "levels": {"0": [0, 0, 0, 0]}})
    found = loaded(with_stack(tmp_path, rows)).layers["ORTHO"]
    assert found.native_bbox.xmin < level.matrix.bbox_of(level.limits).xmin


def test_tiles_of_a_level_count_only_for_variants_without_a_finer_one(tmp_path: Path) -> None:
    """The tile above a finer level is larger than its data."""
    levels = {
        "1950": {"2": [1, 1, 1, 1], "3": [2, 2, 3, 3]},
        "1960": {"2": [1, 1, 3, 3]},
        "2023": {"2": [1, 1, 2, 2], "3": [2, 3, 4, 5]},
    }
    rows = []
    for year, limits in levels.items():
        path = write_value(tmp_path, f"ortho_{year}", (1, 2, 3))
        rows.append({"at": {"time": year}, "path": path.name, "levels": limits})
    found = loaded(with_stack(tmp_path, rows)).layers["ORTHO"]
    assert found.tile_limits == {"2": TileLimits(1, 1, 1, 3), "3": TileLimits(2, 3, 3, 5)}
    matrices = found.pyramid.tile_matrix_set.matrices
    boxes = [
        matrices["3"].bbox_of(TileLimits(2, 3, 3, 5)),
        matrices["2"].bbox_of(TileLimits(1, 1, 3, 3)),
    ]
    assert found.native_bbox == boxes[0].union(boxes[1])


class Shelf(Storage):
    """The files of this machine as objects; stacks are read only when three reads wait."""

    name = "shelf"
    container_field: ClassVar[str | None] = "shelf_name"
    stacks: ClassVar[list[str]] = []
    meeting: ClassVar[threading.Barrier | None] = None

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(container)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        if key.endswith(".stack.json"):
            self.stacks.append(key)
            assert self.meeting is not None
            self.meeting.wait(60)
        return FileStorage().read(f"/{key}", byte_range, version)

    def stat(self, key: str) -> ObjectStat:
        return FileStorage().stat(f"/{key}")


def test_stacks_in_an_object_storage_are_read_in_parallel_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shelf, "stacks", [])
    monkeypatch.setattr(Shelf, "meeting", threading.Barrier(3))
    path = write_value(tmp_path, "ortho_2023", (1, 2, 3))
    row = {"at": {"time": "2023"}, "path": str(path), "generation": "0123456789ab"}
    layers = {}
    for name in ("A", "B", "C"):
        stack = tmp_path / f"{name}.stack.json"
        stack.write_text(json.dumps({"variants": [row]}), "utf-8")
        variants = {"stack": f"shelf://all{stack}"}
        layers[name] = {
            **layer_document(path),
            "dimensions": [{"name": "time"}],
            "variants": variants,
        }
    # What is not a stack does not disturb the others.
    layers["D"] = {**layers["A"], "variants": {"stack": 1}}

    class Plugin:
        @hookimpl
        def register_storages(self) -> list[type[Storage]]:
            return [Shelf]

    server_json = write_installation(tmp_path, layers=layers, services=())
    plugins, faults = Plugins(extra={"shelf": Plugin()}), Faults()
    server = load_server(str(server_json), plugins, faults)
    catalogue = load_catalogue(server, plugins, Environment(), faults)

    assert sorted(catalogue.layers) == ["A", "B", "C"]
    assert sorted(name.rpartition("/")[2] for name in Shelf.stacks) == [
        "A.stack.json",
        "B.stack.json",
        "C.stack.json",
    ]


def loaded_box(catalogue: Catalogue) -> float:
    level = catalogue.layers["ORTHO"].pyramid.levels["3"]
    return level.matrix.bbox_of(level.limits).xmin


def test_without_the_distribution_a_descriptor_is_refused(tmp_path: Path) -> None:
    server_json = series_installation(tmp_path, [{"time": "1950"}])
    plugins, faults = Plugins(blocked=["dimensions"]), Faults()
    server = load_server(str(server_json), plugins, faults)
    assert not load_catalogue(server, plugins, Environment(), faults).layers
    (fault,) = faults.errors
    assert fault.remedy == "pip install mastaba-dimensions"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dimensions": [{"name": "time", "units": "years"}]}, "times have no unit"),
        ({"dimensions": [{"name": "width"}]}, "is the name of a request parameter"),
        ({"dimensions": [{"name": "Time"}]}, "not allowed here"),
        ({"dimensions": []}, "at least 1"),
        ({"dimensions": [{"name": "time"}, {"name": "time"}]}, "the same name"),
        ({"dimensions": [{"name": "elevation"}]}, "no value of elevation"),
        ({"variants": []}, "there are none"),
        ({"variants": {}}, "names no stack and no template"),
        ({"dimensions": [{"name": "time", "tolerance": "1 day"}]}, "cannot be '1 day'"),
    ],
)
def test_invalid_descriptors_are_refused(
    tmp_path: Path, changes: Mapping[str, Any], reason: str
) -> None:
    server_json = series_installation(tmp_path, [{"time": "1950"}])
    rewrite_layer(tmp_path, "ORTHO", {**document_of(tmp_path), **changes})
    faults = Faults()
    assert not loaded(server_json, faults).layers
    assert reason in "; ".join(map(str, faults.errors))


def test_a_default_that_is_not_served_is_reported(tmp_path: Path) -> None:
    faults = Faults()
    years = [{"time": year} for year in YEARS]
    loaded(series_installation(tmp_path, years, default=0), faults)
    assert [fault.reason for fault in faults.all] == [
        "is not the pyramid of the default value (time 2023)"
    ]


def test_a_variant_that_does_not_fit_is_unavailable_and_others_serve_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server_json = with_template(tmp_path)
    (tmp_path / "pyramids/ortho_1950.json").write_text("{}")
    write_value(tmp_path, "ortho_1975", (1,))  # another number of channels
    catalogue = loaded(server_json)
    for year in ("1950", "1950", "1975"):
        with pytest.raises(OverloadedError):
            catalogue.resolve("ORTHO", {"time": year})
    assert catalogue.resolve("ORTHO", {"time": "2023"}).layer.at == {"time": "2023"}
    assert caplog.text.count("cannot be opened") == 1


def test_further_names_and_qualified_names(tmp_path: Path) -> None:
    names = {"template": "ORTHO_{time}", "listed": True}
    years = [{"time": year} for year in YEARS]
    catalogue = loaded(series_installation(tmp_path, years, names=names))
    assert catalogue.resolve("ORTHO_1975").layer.key == "ORTHO;time=1975"
    assert [name for name, _ in catalogue.variants["ORTHO"].further_names()] == [
        f"ORTHO_{year}" for year in YEARS
    ]
    assert catalogue.resolve("ORTHO;time=1950/1980").layer.key == "ORTHO;time=1975"
    wrong = ("ORTHO_1900", "ORTHO;size=3", "ORTHO;time", "OTHER;time=1950", "ORTHO~abc", "ORTHO;")
    for name in wrong:
        with pytest.raises(UnknownNameError):
            catalogue.resolve(name)


def test_the_names_of_layers_win(tmp_path: Path) -> None:
    others = {"ORTHO;time=1950": document_without_values(tmp_path)}
    catalogue = loaded(series_installation(tmp_path, [{"time": "1950"}], others=others))
    assert catalogue.resolve("ORTHO;time=1950").layer.id == "ORTHO;time=1950"


def document_without_values(folder: Path) -> Mapping[str, Any]:
    return layer_document(write_value(folder, "other", (9, 9, 9)))


def test_the_deep_check_reads_slabs_of_each_value(tmp_path: Path) -> None:
    catalogue = loaded(with_template(tmp_path))
    found = look_at_slabs(catalogue, 1)
    assert (found.levels, found.slabs, found.faults) == (4, 4, [])
    (slab,) = (tmp_path / "pyramids/ortho_1950/DATA/3").rglob("*.tif")
    slab.write_bytes(b"damaged")
    (tmp_path / "pyramids/ortho_1975.json").write_text("{}")
    (fault,) = look_at_slabs(catalogue, 1).faults
    assert "layer ORTHO;time=1950, level 3" in f"{fault}"
    problems = dict(catalogue.variants["ORTHO"].opened())
    assert isinstance(problems["ORTHO;time=1975"], str)
    assert isinstance(problems["ORTHO;time=1950"], Layer)


# ---------------------------------------------------------------- changes


class Serving:
    """A process that serves an installation, and carries out changes."""

    def __init__(self, server_json: Path) -> None:
        plugins = Plugins()
        self.application = create_application(str(server_json))
        server = load_server(str(server_json), plugins, Faults())
        self.updates = SiteUpdates(self.application, server, plugins)

    @property
    def catalogue(self) -> Catalogue:
        return self.application.site.catalogue


def test_a_descriptor_replaced_before_it_is_opened_is_loaded_again(tmp_path: Path) -> None:
    serving = Serving(with_template(tmp_path))
    before = serving.catalogue
    replaced(tmp_path, "1950", (200, 10, 10))
    generation = json.loads((tmp_path / "pyramids/ortho_1950.json").read_text())
    layer = before.resolve("ORTHO", {"time": "1950"}).layer
    assert layer.pyramid.generation == digest_of(generation)
    assert serving.catalogue is not before
    assert serving.catalogue.resolve("ORTHO", {"time": "1950"}).layer is layer
    changes = layer_changes(before, serving.catalogue)
    assert [(one.layer, one.variant) for one in changes] == [("ORTHO", "ORTHO;time=1950")]


def test_a_descriptor_replaced_after_the_layer_was_loaded_again(tmp_path: Path) -> None:
    serving = Serving(with_template(tmp_path))
    before = serving.catalogue
    replaced(tmp_path, "1950", (200, 10, 10))
    before.resolve("ORTHO", {"time": "1950"})
    replaced(tmp_path, "1975", (10, 200, 10))
    generation = json.loads((tmp_path / "pyramids/ortho_1975.json").read_text())
    layer = before.resolve("ORTHO", {"time": "1975"}).layer
    assert layer.pyramid.generation == digest_of(generation)
    assert serving.catalogue.resolve("ORTHO", {"time": "1975"}).layer is layer


def test_a_variant_removed_before_it_is_opened_does_not_exist(tmp_path: Path) -> None:
    serving = Serving(with_template(tmp_path))
    (tmp_path / "pyramids/ortho_1950.json").unlink()
    with pytest.raises(NoSuchValueError):
        serving.catalogue.resolve("ORTHO", {"time": "1950"})
    assert times(serving.catalogue) == list(YEARS[1:])


def test_a_stack_that_lists_another_generation_is_not_read_by_each_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_value(tmp_path, "ortho_1950", (1, 2, 3))
    row = {"at": {"time": "1950"}, "path": path.name, "generation": "0123456789ab"}
    serving = Serving(with_stack(tmp_path, [row]))
    refreshed = []
    (table,) = serving.catalogue.variants.values()
    assert table.refresh is not None
    renew = table.refresh
    for _ in range(5):
        (table,) = serving.catalogue.variants.values()
        table.refresh = lambda name: refreshed.append(name) or renew(name)
        with pytest.raises(OverloadedError):
            serving.catalogue.resolve("ORTHO", {"time": "1950"})
    assert refreshed == ["ORTHO"]
    assert caplog.text.count("its pyramid is another one than the layer lists") == 1
    row["generation"] = digest_of(json.loads(path.read_text()))
    (tmp_path / "pyramids/ortho.stack.json").write_text(json.dumps({"variants": [row]}))
    serving.updates.submit(Change(Action.REFRESH_LAYER, "ORTHO"))
    assert serving.catalogue.resolve("ORTHO", {"time": "1950"}).layer.at == {"time": "1950"}


def test_a_value_outside_the_box_of_the_layer_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_value(tmp_path, "ortho_1950", (1, 2, 3), levels=[LevelPlan("2", 3, 3, 0, 0)])
    generation = digest_of(json.loads(path.read_text()))
    row = {"at": {"time": "1950"}, "path": path.name, "generation": generation}
    server_json = with_stack(tmp_path, [row])
    box = {"west": 10, "south": 10, "east": 80, "north": 60}
    rewrite_layer(tmp_path, "ORTHO", document_of(tmp_path) | {"bbox": box})
    serving = Serving(server_json)
    with pytest.raises(OverloadedError):
        serving.catalogue.resolve("ORTHO", {"time": "1950"})
    (line,) = [record.message for record in caplog.records if "cannot be opened" in record.message]
    assert "it contains no tile of level 2" in line
    assert "another one" not in line


def test_one_that_is_open_stays_as_it_is_until_it_is_refreshed(tmp_path: Path) -> None:
    serving = Serving(with_template(tmp_path))
    before = colour(serving.catalogue, "1950")
    replaced(tmp_path, "1950", (200, 10, 10))
    write_value(tmp_path, "ortho_1960", (7, 7, 7))
    assert colour(serving.catalogue, "1950") == before
    assert times(serving.catalogue) == list(YEARS)
    kept = serving.catalogue.resolve("ORTHO", {"time": "1975"}).layer
    serving.updates.submit(Change(Action.REFRESH_LAYER, "ORTHO"))
    assert times(serving.catalogue) == ["1950", "1960", "1975", "2023"]
    assert colour(serving.catalogue, "1950") != before
    assert serving.catalogue.resolve("ORTHO", {"time": "1975"}).layer is kept


def test_followers_have_the_variants_of_the_process_that_read_them(tmp_path: Path) -> None:
    server_json = with_template(tmp_path)
    first, second = Serving(server_json), Serving(server_json)
    write_value(tmp_path, "ortho_1960", (7, 7, 7))
    change = first.updates.carry_out(Change(Action.REFRESH_LAYER, "ORTHO"))
    write_value(tmp_path, "ortho_1961", (7, 7, 7))
    second.updates.follow(Change.from_json(json.loads(json.dumps(change.to_json()))))
    assert times(first.catalogue) == times(second.catalogue) == ["1950", "1960", "1975", "2023"]
    assert first.catalogue.layers["ORTHO"].generation == second.catalogue.layers["ORTHO"].generation


@pytest.mark.thorough
def test_readers_of_replaced_variants_never_get_a_mixture(tmp_path: Path) -> None:
    """Two processes are served from; every confirmed replacement is seen by both."""
    serving = Serving(with_template(tmp_path))
    failures: list[Exception] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                catalogue = serving.catalogue
                for year in YEARS:
                    layer = catalogue.resolve("ORTHO", {"time": year}).layer
                    tiles = [
                        reader.expect(one.min_row, one.min_col)
                        for reader in catalogue.readers_of(layer).values()
                        for one in [reader.level.limits]
                    ]
                    assert len({tile and tile.read() for tile in tiles}) == 1
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(60):
        replaced(tmp_path, YEARS[number % 3], (number, 255 - number, 9))
        serving.updates.submit(Change(Action.REFRESH_LAYER, "ORTHO"))
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]


# ---------------------------------------------------------------- views


def test_a_changed_layer_of_a_view_has_no_variants_unless_it_says_how(tmp_path: Path) -> None:
    catalogue = loaded(series_installation(tmp_path, [{"time": year} for year in YEARS]))
    layer, readers = catalogue.layers["ORTHO"], catalogue.readers
    arguments = {"ORTHO": replace(layer, title="cut")}, readers, catalogue.settings, {}
    view = catalogue.filtered(*arguments)
    assert view.layers["ORTHO"].dimensions == ()
    assert view.resolve("ORTHO", {"time": "1950"}).layer is view.layers["ORTHO"]
    with pytest.raises(UnknownNameError):
        view.resolve("ORTHO;time=1950")
    marked = {"2": catalogue.readers["ORTHO"]["2"]}
    shown = catalogue.filtered(*arguments, lambda _name, one: (replace(one, title="cut"), marked))
    variant = shown.resolve("ORTHO", {"time": "1950"}).layer
    assert variant.title == "cut"
    assert shown.readers_of(variant) is marked
    assert variant is shown.resolve("ORTHO;time=1950").layer
    none = catalogue.filtered(*arguments, lambda _name, _one: None)
    with pytest.raises(NoSuchValueError):
        none.resolve("ORTHO;time=1950")
    same = catalogue.filtered({"ORTHO": layer}, readers, catalogue.settings, {})
    assert same.resolve("ORTHO;time=1950").layer is catalogue.resolve("ORTHO;time=1950").layer


# ---------------------------------------------------------------- tiles


def test_tiles_of_values(tmp_path: Path) -> None:
    years = [{"time": year} for year in YEARS]
    dimensions = [{"name": "time", "nearest": True}]
    server_json = series_installation(tmp_path, years, dimensions=dimensions)
    site = create_application(str(server_json)).site
    tiles = Tiles(site, site.catalogue.layers.values())
    default, old = tiles.layer("ORTHO"), tiles.layer("ORTHO", {"time": "1950"})
    assert default is tiles.layer("ORTHO") is tiles.layer("ORTHO", {"time": "default"})
    assert old is tiles.layer("ORTHO;time=1950") is tiles.layer("ORTHO", {"time": "1950-07"})
    assert (default.layer.key, old.layer.key) == ("ORTHO", "ORTHO;time=1950")
    assert tiles.layer("ORTHO", {"time": "1940"}).layer is old.layer
    for name, values in (("ORTHO", {"time": "1940"}), ("OTHER", {})):
        with pytest.raises(UnknownNameError):
            tiles.layer(name, values, lasting=True)
    publisher = old.matrix(None, "2").stored("")
    assert publisher is not None
    response = publisher.find({}, 1, 2)
    assert response is not None
    assert response.body == colour(site.catalogue, "1950")


def test_tiles_of_other_variants_are_missing_not_outside(tmp_path: Path) -> None:
    rows = []
    far = (LevelPlan("2", 1, 1, 2, 2), LevelPlan("3", 2, 3, 4, 7), LevelPlan("4", 4, 4, 8, 8))
    for year, levels in (("1950", far), ("2023", LEVELS)):
        path = write_value(tmp_path, f"ortho_{year}", (1, 2, 3), levels=levels)
        limits = {"2": [1, 1, 2, 2], "3": [2, 3, 4, 5], "4": [4, 4, 8, 8]}
        own = {one.id: limits[one.id] for one in levels}
        rows.append({"at": {"time": year}, "path": path.name, "levels": own})
    rows[0]["levels"] = {**rows[0]["levels"], "3": [2, 3, 4, 7]}
    site = create_application(str(with_stack(tmp_path, rows))).site
    tiles = Tiles(site, site.catalogue.layers.values())
    newest = tiles.layer("ORTHO;time=2023")
    with pytest.raises(TileNotFoundError):
        newest.matrix(None, "4")
    request = Request("GET", "/", "", {})
    for col, error in ((7, TileNotFoundError), (9, TileOutOfRangeError)):
        with pytest.raises(error):
            newest.matrix(None, "3").publisher("").respond(request, 2, col)
    assert tiles.layer("ORTHO;time=1950").matrix(None, "4").limits.min_row == 4


def test_metrics_count_variants_by_number_alone(tmp_path: Path) -> None:
    serving = Serving(series_installation(tmp_path, services=("metrics",)))
    for year in ("1950", "1975", "1950"):
        serving.catalogue.resolve("ORTHO", {"time": year})
    text = Client(serving.application).get("/metrics").text
    for line in ("variants_known 3.0", "variants_open 2.0", "variant_opens_total 2.0"):
        assert f"\nmastaba_{line}\n" in text
    assert "1950" not in text
