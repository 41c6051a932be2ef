"""What a configuration means: defaults, order, and rules whose violation is not an error."""

from __future__ import annotations

import copy
import errno
import json
from pathlib import Path
from typing import Any

import pytest

import mastaba_render.plugin
from mastaba import LazyClass, hookimpl
from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.errors import ConfigurationError, PluginLoadError
from mastaba.model.bbox import BoundingBox
from mastaba.model.layer import Attribution, FeatureInfo, Logo, Metadata
from mastaba.model.settings import MapSettings, ServiceSettings, Settings
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Service
from mastaba_documents.faults import Faults
from mastaba_render.encoder import Encoder
from mastaba_server.log.destination import LoggerConfig
from mastaba_storage.environment import Environment

SERVER, SERVICES, LAYER = "server.json", "services.json", "layers/L.json"
PYRAMID, STYLE = "pyramids/P.json", "styles/ember.json"
HALF = 20037508.3427892


def faults_of(installation: Any) -> list[tuple[str, str]]:
    _, _, faults = installation.load()
    return [(fault.file, fault.path) for fault in faults]


# ---------------------------------------------------------------- server.json


def test_full_server_configuration_is_read(installation: Any) -> None:
    server, _, faults = installation.load()

    assert faults == ()
    assert (server.port, server.backlog, server.threads) == ("127.0.0.1:9000", 5, 2)
    assert server.worker_count == 3
    assert server.logger == LoggerConfig("standard_output", "info", "/tmp/x", 60)
    assert (server.cache_size, server.cache_validity) == (10, 120.0)
    assert server.styles == "styles"


def test_short_server_configuration_gets_the_defaults(installation: Any) -> None:
    for key in ("backlog", "threads", "workers", "logger", "cache"):
        installation.remove(SERVER, f"$.{key}")
    installation.remove(SERVER, "$.configurations.layers")
    server, catalogue, faults = installation.load()

    assert faults == ()
    assert (server.backlog, server.threads, server.workers) == (0, 1, None)
    assert server.worker_count >= 1
    assert server.logger == LoggerConfig("standard_error", "info", "/var/tmp/mastaba", 3600)
    assert (server.cache_size, server.cache_validity) == (1000, 300.0)
    assert dict(catalogue.layers) == {}


@pytest.mark.parametrize(
    "path",
    [
        "$.backlog",
        "$.threads",
        "$.workers",
        "$.logger",
        "$.logger.level",
        "$.cache",
        "$.cache.size",
    ],
)
def test_null_counts_as_absent(path: str, installation: Any) -> None:
    absent = copy.deepcopy(installation.documents[SERVER])
    installation.remove(SERVER, path)
    without, _, _ = installation.load()

    installation.documents[SERVER] = absent
    installation.set(SERVER, path, None)
    with_null, _, faults = installation.load()
    assert faults == ()
    assert with_null == without


def test_integral_floats_are_whole_numbers(installation: Any) -> None:
    for path in ("$.backlog", "$.threads", "$.workers", "$.logger.file_period", "$.cache.size"):
        installation.set(SERVER, path, 4.0)
    installation.set(PYRAMID, "$.raster_specifications.channels", 1.0)
    installation.set(PYRAMID, "$.levels[0].tiles_per_width", 2.0)
    installation.set(PYRAMID, "$.levels[0].tile_limits.max_row", 15.0)
    installation.set(PYRAMID, "$.levels[0].storage.path_depth", 2.0)
    server, catalogue, faults = installation.load()

    assert faults == ()
    numbers = (server.backlog, server.threads, server.workers, server.logger.file_period)
    assert numbers == (4, 4, 4, 4)
    assert {type(number) for number in numbers} == {int}
    assert catalogue.layers["L"].pyramid.levels["4"].tiles_per_width == 2


@pytest.mark.parametrize(
    ("cache", "size", "validity"),
    [
        ("big", 1000, 300.0),
        ({"size": 0}, 1000, 300.0),
        ({"size": "x", "validity": 7}, 1000, 420.0),
        ({"size": 7, "validity": -1}, 7, 300.0),
        ({"size": None, "validity": 1.5}, 1000, 300.0),
    ],
)
def test_invalid_cache_values_get_their_defaults(
    cache: Any, size: int, validity: float, installation: Any
) -> None:
    installation.set(SERVER, "$.cache", cache)
    server, catalogue, faults = installation.load()

    assert (server.cache_size, server.cache_validity) == (size, validity)
    assert [str(fault.severity) for fault in faults] == ["warning"]
    assert list(catalogue.layers) == ["L"]


# ---------------------------------------------------------------- all faults at once


def test_errors_in_all_files_are_reported_at_once(installation: Any, run_check: Any) -> None:
    installation.set(SERVER, "$.threads", 0)
    installation.set(SERVER, "$.logger.level", "loud")
    status, reported = run_check()
    assert status == 1
    assert [fault.path for fault in reported] == ["$.logger.level", "$.threads"]

    installation.set(SERVER, "$.threads", 1)
    installation.set(SERVER, "$.logger.level", "info")
    installation.set(SERVICES, "$.global.fee", 1)
    installation.set(SERVICES, "$.sample.keywords", 1)
    installation.set(LAYER, "$.title", 1)
    installation.set(LAYER, "$.resampling", "x")
    status, reported = run_check()
    assert status == 1
    assert {(fault.file, fault.path) for fault in reported} >= {
        (SERVICES, "$.global.fee"),
        (SERVICES, "$.sample.keywords"),
        (LAYER, "$.title"),
        (LAYER, "$.resampling"),
    }


def test_all_errors_of_one_pyramid_are_reported_once_however_many_layers_use_it(
    installation: Any, run_check: Any
) -> None:
    installation.documents["layers/M.json"] = copy.deepcopy(installation.documents[LAYER])
    installation.documents["layers.txt"] = "layers/L.json\nlayers/M.json\n"
    for level in range(3):
        installation.set(PYRAMID, f"$.levels[{level}].storage.path_depth", 99)
    _, reported = run_check()

    paths = [fault.path for fault in reported if fault.file == PYRAMID]
    assert paths == [f"$.levels[{level}].storage.path_depth" for level in range(3)]
    assert len(reported) == 3


def test_healthy_configuration_passes_the_check(run_check: Any) -> None:
    assert run_check() == (0, [])


def test_invalid_layer_is_left_out_and_the_others_are_served(installation: Any) -> None:
    installation.documents["layers/M.json"] = {**installation.documents[LAYER], "title": 1}
    installation.documents["layers.txt"] = "layers/M.json\nlayers/nowhere.json\nlayers/L.json\n"
    _, catalogue, faults = installation.load()

    assert list(catalogue.layers) == ["L"]
    assert {fault.file for fault in faults} == {"layers/M.json", "layers/nowhere.json"}


@pytest.mark.parametrize("file", ["services.json", "layers.txt", "equivalences.json"])
def test_what_concerns_all_services_stops_the_load(file: str, installation: Any) -> None:
    del installation.documents[file]
    _, catalogue, faults = installation.load()

    assert catalogue is None
    assert [fault.file for fault in faults if fault.severity == "error"] == [file]


def test_configuration_error_contains_every_problem(installation: Any) -> None:
    faults = Faults()
    faults.warning("a", "$", "harmless")
    faults.error("b", "$.c", "bad", "mend it")
    faults.error("d", "$", "worse")

    error = ConfigurationError(faults.errors)
    assert [fault.file for fault in error.faults] == ["b", "d"]
    assert "b: $.c: bad (mend it)" in str(error)


# ---------------------------------------------------------------- services.json


def test_empty_services_file_gives_the_defaults(installation: Any) -> None:
    installation.documents[SERVICES] = {}
    catalogue = installation.catalogue()

    assert catalogue.settings.enabled is True
    assert catalogue.settings.map == MapSettings(crs=("CRS:84",))
    assert catalogue.settings == Settings(map=MapSettings(crs=("CRS:84",)))
    assert set(catalogue.services) == {"root"}


def test_full_services_file_is_read(installation: Any) -> None:
    catalogue = installation.catalogue()
    settings = catalogue.settings

    assert (settings.provider, settings.fee) == ("P", "none")
    assert (settings.contact.name, settings.contact.city, settings.contact.email) == ("N", "C", "")
    assert settings.tile_reprojection is True
    assert settings.map.formats == ("image/png", "image/jpeg")
    assert settings.map.max_layers == 2
    assert (settings.map.max_width, settings.map.max_height) == (3, 4)
    assert (settings.map.max_tiles_x, settings.map.max_tiles_y) == (5, 6)
    assert settings.equivalences.equal("EPSG:2154", "ignf:lamb93")
    sample = catalogue.services["sample"]
    assert sample.endpoint_uri == "http://maps.example/sample"
    assert (sample.root_path, sample.title, sample.abstract) == ("/sample", "T", "A")
    assert sample.keywords == ("k",)
    assert sample.metadata == Metadata("text/xml", "http://m.example", "ISO")
    assert dict(sample.own) == {"depth": 3}


@pytest.mark.parametrize("uri", ["http://[", "http://a\n", "http://a\r\nX: y", "http://a/\0"])
def test_address_that_cannot_be_written_is_refused(uri: str, installation: Any) -> None:
    installation.documents[SERVICES] = {"sample": {"enabled": True, "endpoint_uri": uri}}
    _, catalogue, faults = installation.load()
    assert catalogue is None
    assert [(fault.file, fault.path) for fault in faults] == [(SERVICES, "$.sample.endpoint_uri")]


@pytest.mark.parametrize("value", ["max-age=1\n", "a\r\nb"])
def test_line_break_does_not_come_into_a_header(value: str, installation: Any) -> None:
    installation.documents[LAYER]["cache_control"] = value
    assert (LAYER, "$.cache_control") in faults_of(installation)


def test_enabled_service_gets_the_defaults(installation: Any) -> None:
    installation.documents[SERVICES] = {"sample": {"enabled": True}, "health": {"enabled": True}}
    services = installation.catalogue().services

    sample = services["sample"]
    assert sample.endpoint_uri == "http://localhost/sample"
    assert (sample.root_path, sample.title) == ("/sample", "Sample service")
    assert sample.metadata is None
    assert services["health"].root_path == "/healthcheck"


@pytest.mark.parametrize("section", [None, {}, {"enabled": False}, {"title": "x"}])
def test_service_is_disabled_by_default(section: Any, installation: Any) -> None:
    installation.set(SERVICES, "$.sample", section)
    assert "sample" not in installation.catalogue().services


@pytest.mark.parametrize(
    ("listed", "offered"),
    [
        ([], ("CRS:84",)),
        (["EPSG:3857"], ("EPSG:3857", "CRS:84")),
        (["crs:84", "epsg:3857"], ("CRS:84", "EPSG:3857")),
        (["EPSG:2154"], ("EPSG:2154", "IGNF:LAMB93", "CRS:84")),
        (["EPSG:2154", "IGNF:LAMB93", "EPSG:2154"], ("EPSG:2154", "IGNF:LAMB93", "CRS:84")),
    ],
)
def test_global_crs_bring_their_equivalents_and_crs_84(
    listed: list[str], offered: tuple[str, ...], installation: Any
) -> None:
    installation.set(SERVICES, "$.global.map.crs", listed)
    assert installation.catalogue().settings.map.crs == offered


def test_without_reprojection_no_global_crs_is_offered(installation: Any) -> None:
    installation.set(SERVICES, "$.global.map", {"reprojection": False})
    assert installation.catalogue().settings.map.crs == ()


def test_format_of_a_plugin_is_allowed(installation: Any) -> None:
    class Avif(Encoder):
        name, media_type, extension = "avif", "image/avif", "avif"

        def accepts(self, dtype: Any, channels: int) -> bool:
            return True

        def encode(self, raster: Any, options: Any) -> bytes:
            return b""

    class Plugin:
        @hookimpl
        def register_encoders(self) -> list[type[Encoder]]:
            return [Avif]

    installation.set(SERVICES, "$.global.map.formats", ["image/avif"])
    assert (SERVICES, "$.global.map.formats[0]") in faults_of(installation)

    installation.remove(SERVICES, "$.sample")
    installation.plugins = Plugins(
        autoload=False, extra={"render": mastaba_render.plugin, "avif": Plugin()}
    )
    assert installation.catalogue().settings.map.formats == ("image/avif",)


# ---------------------------------------------------------------- layer list and identity


def test_layer_list_skips_blanks_comments_and_carriage_returns(installation: Any) -> None:
    installation.documents["layers.txt"] = "\r\n# x\r\n\t layers/L.json\t\r\n\r\n  # y"
    assert list(installation.catalogue().layers) == ["L"]


@pytest.mark.parametrize("name", ["a\u2028b", "a\x0bb", "a\x85b", "été"])
def test_only_line_feeds_end_a_line_of_the_list(name: str, installation: Any) -> None:
    installation.documents[f"layers{name}/L.json"] = installation.documents[LAYER]
    installation.documents["layers.txt"] = f"layers{name}/L.json"
    assert list(installation.catalogue().layers) == ["L"]


def test_layer_that_is_listed_twice_counts_once(installation: Any) -> None:
    installation.documents["more/L.json"] = {**installation.documents[LAYER], "title": "Other"}
    installation.documents["layers.txt"] = "layers/L.json\nmore/L.json\nlayers/L.json"
    _, catalogue, faults = installation.load()

    assert catalogue.layers["L"].title == "Layer"
    assert [(fault.path, str(fault.severity)) for fault in faults] == [
        ("line 2", "error"),
        ("line 3", "error"),
    ]
    assert "layers/L.json" in faults[0].reason


def test_layers_are_in_byte_order_whatever_the_list_says(installation: Any) -> None:
    names = ["b", "B", "a10", "a9", "é", "z", "Z"]
    for name in names:
        installation.documents[f"layers/{name}.json"] = installation.documents[LAYER]
    installation.documents["layers.txt"] = "\n".join(f"layers/{name}.json" for name in names)

    assert list(installation.catalogue().layers) == sorted(names, key=str.encode)


@pytest.mark.parametrize(
    ("file", "identifier"),
    [("X.json", "X"), ("a/X.yaml", "X"), ("X", "X"), ("a/X.Y.json", "X.Y"), ("a/X.JSON", "X")],
)
def test_identifier_of_a_layer_is_its_base_name(
    file: str, identifier: str, installation: Any
) -> None:
    installation.documents[file] = json.dumps(installation.documents[LAYER]).encode()
    installation.documents["layers.txt"] = file
    assert list(installation.catalogue().layers) == [identifier]


@pytest.mark.parametrize("name", ["a<b", "a>b", 'a"b', "a\x01b", "a\u200bb"])
def test_identifier_with_forbidden_characters_is_refused(name: str, installation: Any) -> None:
    installation.documents[f"layers/{name}.json"] = installation.documents[LAYER]
    installation.documents["layers.txt"] = f"layers/{name}.json"
    _, catalogue, faults = installation.load()

    assert dict(catalogue.layers) == {}
    assert [str(fault.severity) for fault in faults] == ["error"]


def test_identifier_with_a_comma_is_a_warning(installation: Any) -> None:
    installation.documents["layers/a,b.json"] = installation.documents[LAYER]
    installation.documents["layers.txt"] = "layers/a,b.json"
    _, catalogue, faults = installation.load()

    assert list(catalogue.layers) == ["a,b"]
    assert [str(fault.severity) for fault in faults] == ["warning"]


# ---------------------------------------------------------------- layers


def test_full_layer_is_read(installation: Any) -> None:
    layer = installation.catalogue().layers["L"]

    assert (layer.title, layer.abstract, layer.keywords) == ("Layer", "", ("a",))
    assert layer.metadata == (Metadata("text/xml", "http://m.example", "ISO"),)
    logo = Logo("image/png", "http://l.example", 10, 20)
    assert layer.attribution == Attribution("Who", "http://w.example", logo)
    assert layer.resampling == "linear"
    assert layer.extra_crs == ("EPSG:2154",)
    assert [tms.id for tms in layer.extra_tile_matrix_sets] == ["OTHER"]
    assert layer.feature_info == FeatureInfo()
    assert layer.geographic_bbox == BoundingBox(0.5, 40.5, 40.5, 60.5)
    assert [style.identifier for style in layer.styles] == ["normal", "ember"]
    assert layer.levels_id == "PM_2_4"


def test_short_layer_gets_the_defaults(installation: Any) -> None:
    document = installation.documents[LAYER]
    installation.documents[LAYER] = {
        key: document[key] for key in ("title", "abstract", "pyramids")
    }
    layer = installation.catalogue().layers["L"]

    assert layer.resampling == "lanczos_2"
    assert [style.id for style in layer.styles] == ["normal"]
    assert (layer.extra_crs, layer.extra_tile_matrix_sets) == ((), ())
    assert (layer.keywords, layer.metadata, layer.attribution) == ((), (), None)
    assert (layer.feature_info, layer.hidden_from) == (None, frozenset())
    box = layer.native_bbox
    corners = (box.xmin, box.ymin, box.xmax, box.ymax)
    assert corners == pytest.approx((-HALF, -HALF, HALF, HALF))
    assert layer.geographic_bbox.xmin == -180.0
    assert layer.geographic_bbox.ymax == pytest.approx(85.0511, abs=1e-3)


@pytest.mark.parametrize(
    ("written", "kernel"),
    [(name, name) for name in ("nn", "linear", "bicubic", "lanczos_2", "lanczos_3", "lanczos_4")]
    + [("lanczos", "lanczos_2")],
)
def test_every_resampling_is_taken(written: str, kernel: str, installation: Any) -> None:
    installation.set(LAYER, "$.resampling", written)
    assert installation.catalogue().layers["L"].resampling == kernel


def test_box_of_a_layer_narrows_the_tiles_of_every_level(installation: Any) -> None:
    levels = installation.catalogue().layers["L"].pyramid.levels

    assert levels["2"].limits == TileLimits(1, 1, 2, 2)
    assert levels["3"].limits == TileLimits(2, 3, 4, 4)
    assert levels["4"].limits == TileLimits(4, 6, 8, 9)


def test_box_never_adds_tiles_to_those_of_the_pyramid(installation: Any) -> None:
    installation.set(
        PYRAMID,
        "$.levels[0].tile_limits",
        {"min_row": 5, "max_row": 5, "min_col": 8, "max_col": 8},
    )
    levels = installation.catalogue().layers["L"].pyramid.levels
    assert levels["4"].limits == TileLimits(5, 5, 8, 8)


def test_box_with_an_edge_on_a_tile_boundary_adds_no_tile(installation: Any) -> None:
    box = {"west": 0, "south": 0, "east": 90, "north": 66.51326044311186}
    installation.set(LAYER, "$.bbox", box)
    levels = installation.catalogue().layers["L"].pyramid.levels
    assert levels["2"].limits == TileLimits(1, 1, 2, 2)


@pytest.mark.parametrize(
    ("switches", "hidden"),
    [
        ({"wms": {"enabled": False}}, {"wms"}),
        ({"wms": {"enabled": True}, "tms": {"enabled": False}}, {"tms"}),
        ({"sample": {"enabled": False}, "ogcapi": {"enabled": False}}, {"sample", "ogcapi"}),
        ({"wms": {}}, set()),
    ],
)
def test_switches_hide_a_layer_from_services(
    switches: Any, hidden: set[str], installation: Any
) -> None:
    installation.documents[LAYER].update(switches)
    assert installation.catalogue().layers["L"].hidden_from == hidden


@pytest.mark.parametrize(
    ("parameters", "parsed"), [("", {}), ("a=1&b=x%20y", {"a": "1", "b": "x y"}), ("a", {})]
)
def test_feature_info_of_another_wms_is_read(
    parameters: str, parsed: dict[str, str], installation: Any
) -> None:
    info = {
        "type": "EXTERNALWMS",
        "url": "http://o.example",
        "layers": "l",
        "query_layers": "q",
        "extra_query_params": parameters,
    }
    installation.set(LAYER, "$.get_feature_info", info)
    feature_info = installation.catalogue().layers["L"].feature_info
    assert feature_info == FeatureInfo("http://o.example", "l", "q", parsed)


def test_layer_without_usable_style_takes_the_default_style(installation: Any) -> None:
    installation.set(LAYER, "$.styles", ["nope"])
    _, catalogue, _ = installation.load()
    assert [style.id for style in catalogue.layers["L"].styles] == ["normal"]

    installation.set(SERVICES, "$.global.default_style", "ember")
    _, catalogue, _ = installation.load()
    assert [style.id for style in catalogue.layers["L"].styles] == ["ember"]


def test_layer_without_any_style_is_refused(installation: Any) -> None:
    installation.set(LAYER, "$.styles", [])
    installation.set(SERVICES, "$.global.default_style", "nope")
    _, catalogue, faults = installation.load()

    assert dict(catalogue.layers) == {}
    (fault,) = faults
    assert fault.file == "styles/nope"
    assert f"named by global.default_style of services.json, for {LAYER}" in fault.reason


@pytest.mark.parametrize(
    ("logger", "output", "level", "access"),
    [
        ({}, "standard_error", "info", "text"),
        ({"level": "error"}, "standard_error", "error", "off"),
        ({"level": "warn", "access": "json"}, "standard_error", "warn", "json"),
        ({"access": "off"}, "standard_error", "info", "off"),
        # As ROK4 has them.
        ({"file_prefix": "/x", "level": "info"}, "rolling_file", "info", "text"),
        ({"file_period": 60}, "rolling_file", "info", "text"),
        ({"output": "static_file", "file_prefix": "/x"}, "static_file", "info", "text"),
    ],
)
def test_logger(
    logger: dict[str, Any], output: str, level: str, access: str, installation: Any
) -> None:
    installation.documents["server.json"]["logger"] = logger
    server, _, _ = installation.load()
    found = server.logger
    assert (found.output, found.level, found.access) == (output, level, access)


@pytest.mark.parametrize(
    ("style", "channels", "usable"),
    [
        ({"palette": {"colours": []}}, 3, True),
        ({"terrainrgb": {}}, 1, True),
        ({"terrainrgb": {}}, 3, False),
        ({"colorize": {}}, 3, True),
        ({"colorize": {}}, 4, False),
        ({"colorize": {"source": [1, 2, 3, 4]}}, 4, True),
        ({"pente": {}}, 1, True),
        ({"pente": {}}, 3, False),
        ({"estompage": {}}, 2, False),
    ],
)
def test_style_that_needs_other_channels_is_left_out(
    style: Any, channels: int, usable: bool, installation: Any
) -> None:
    installation.documents[STYLE] = {"identifier": "x", "title": "X", **style}
    installation.set(PYRAMID, "$.raster_specifications.channels", channels)
    installation.set(PYRAMID, "$.raster_specifications.nodata", "0,0,0,0")
    _, catalogue, faults = installation.load()

    styles = [style.id for style in catalogue.layers["L"].styles]
    assert styles == (["normal", "ember"] if usable else ["normal"])
    assert [fault.path for fault in faults] == ([] if usable else ["$.styles[1]"])


def test_palette_is_sorted_and_a_repeated_value_keeps_its_first_colour(installation: Any) -> None:
    installation.set(
        STYLE,
        "$.palette.colours",
        [
            {"value": 9, "red": 1, "green": 0, "blue": 0, "alpha": 0},
            {"value": -5.5, "red": 2, "green": 0, "blue": 0, "alpha": -1},
            {"value": 9.0, "red": 3, "green": 0, "blue": 0, "alpha": 0},
        ],
    )
    _, catalogue, _ = installation.load()
    entries = catalogue.styles["ember"].palette.entries
    assert [(entry.value, entry.red, entry.alpha) for entry in entries] == [
        (-5.5, 2, -1),
        (9.0, 1, 0),
    ]


@pytest.mark.parametrize("pair", [("pente", "estompage"), ("exposition", "terrainrgb")])
def test_two_processings_exclude_each_other(pair: tuple[str, str], installation: Any) -> None:
    installation.documents[STYLE] = {"identifier": "x", "title": "X", pair[0]: {}, pair[1]: {}}
    _, catalogue, faults = installation.load()

    assert "ember" not in catalogue.styles
    assert (STYLE, "$") in [(fault.file, fault.path) for fault in faults]


# ---------------------------------------------------------------- pyramids


def test_levels_are_sorted_by_cell_size(installation: Any) -> None:
    pyramid = installation.catalogue().layers["L"].pyramid
    assert list(pyramid.levels) == ["2", "3", "4"]
    assert (pyramid.coarsest.matrix.id, pyramid.finest.matrix.id) == ("2", "4")


def test_only_the_levels_between_bottom_and_top_are_published(installation: Any) -> None:
    installation.set(LAYER, "$.pyramids[0].bottom_level", "3")
    assert list(installation.catalogue().layers["L"].pyramid.levels) == ["2", "3"]


def second_pyramid(installation: Any, **changes: Any) -> None:
    """Publish level 4 from a second pyramid, which is the first one with changes."""
    document = {**copy.deepcopy(installation.documents[PYRAMID]), **changes}
    installation.documents["pyramids/Q.json"] = document
    installation.documents[LAYER]["pyramids"] = [
        {"path": "pyramids/P.json", "bottom_level": "3", "top_level": "2"},
        {"path": "pyramids/Q.json", "bottom_level": "4", "top_level": "4"},
    ]


def test_levels_of_several_pyramids_make_one_layer(installation: Any) -> None:
    second_pyramid(installation)
    catalogue = installation.catalogue()
    assert list(catalogue.layers["L"].pyramid.levels) == ["2", "3", "4"]
    assert set(catalogue.readers["L"]) == {"2", "3", "4"}


def test_gap_between_pyramids_is_allowed(installation: Any) -> None:
    second_pyramid(installation)
    installation.set(LAYER, "$.pyramids[0].bottom_level", "2")
    assert list(installation.catalogue().layers["L"].pyramid.levels) == ["2", "4"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tile_matrix_set": "OTHER"}, "tile matrix set"),
        ({"format": "TIFF_ZIP_UINT8"}, "format"),
        (
            {"raster_specifications": {"channels": 1, "nodata": "0", "photometric": "rgb"}},
            "photometric",
        ),
        (
            {"raster_specifications": {"channels": 2, "nodata": "0,0", "photometric": "gray"}},
            "channel",
        ),
    ],
)
def test_pyramids_that_do_not_fit_are_refused(changes: Any, word: str, installation: Any) -> None:
    second_pyramid(installation, **changes)
    _, catalogue, faults = installation.load()

    assert dict(catalogue.layers) == {}
    (fault,) = faults
    assert (fault.file, fault.path) == (LAYER, "$.pyramids[1]")
    assert word in fault.reason


def test_photometric_of_other_letter_case_fits(installation: Any) -> None:
    second_pyramid(
        installation,
        raster_specifications={"channels": 1, "nodata": "0", "photometric": "GRAY"},
    )
    assert list(installation.catalogue().layers) == ["L"]


def test_level_of_two_pyramids_is_refused(installation: Any) -> None:
    second_pyramid(installation)
    installation.set(LAYER, "$.pyramids[1].top_level", "3")
    assert (LAYER, "$.pyramids[1]") in faults_of(installation)


def test_bottom_level_above_the_top_level_is_refused(installation: Any) -> None:
    installation.set(
        LAYER, "$.pyramids[0]", {"path": "pyramids/P.json", "bottom_level": "2", "top_level": "4"}
    )
    assert (LAYER, "$.pyramids[0]") in faults_of(installation)


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((0, 15, 0, 15), (0, 15, 0, 15)),
        ((-1, 16, -5, 99), (0, 15, 0, 15)),
        ((3, -1, 2, -1), (3, 15, 2, 15)),
        ((16, 15, 0, 15), (0, 15, 0, 15)),
        ((7, 7, 8, 8), (7, 7, 8, 8)),
    ],
)
def test_limits_beyond_the_matrix_count_as_its_edge(
    limits: tuple[int, ...], wanted: tuple[int, ...], installation: Any
) -> None:
    keys = ("min_row", "max_row", "min_col", "max_col")
    installation.set(PYRAMID, "$.levels[0].tile_limits", dict(zip(keys, limits, strict=True)))
    installation.remove(LAYER, "$.bbox")
    installation.remove(LAYER, "$.extra_crs")
    level = installation.catalogue().layers["L"].pyramid.levels["4"]
    assert level.limits == TileLimits(*wanted)


@pytest.mark.parametrize(
    ("format", "channels", "text", "values"),
    [
        ("TIFF_PNG_UINT8", 3, "255,254,253", (255, 254, 253)),
        ("TIFF_PNG_UINT8", 3, " 1 , 2,3,4,5", (1, 2, 3)),
        ("TIFF_PNG_UINT8", 3, ",0,", (255, 0, 255)),
        ("TIFF_PNG_UINT8", 1, "", (255,)),
        ("TIFF_RAW_FLOAT32", 1, "-99999", (-99999,)),
        ("TIFF_RAW_FLOAT32", 1, "-99999.5", (-99999.5,)),
        # Rounded as pixels are.
        ("TIFF_RAW_FLOAT32", 1, "-9999.1", (-9999.099609375,)),
        ("TIFF_RAW_FLOAT32", 1, "-1.79e308", (-3.4028234663852886e38,)),
    ],
)
def test_nodata_is_read_as_numbers(
    format: str, channels: int, text: str, values: tuple[float, ...], installation: Any
) -> None:
    installation.set(PYRAMID, "$.format", format)
    installation.set(
        PYRAMID,
        "$.raster_specifications",
        {"channels": channels, "nodata": text, "photometric": "gray"},
    )
    installation.set(LAYER, "$.styles", ["normal"])
    assert installation.catalogue().layers["L"].pyramid.raster.nodata == values


@pytest.mark.parametrize(
    ("text", "values"), [("-99999,0,300", (0, 0, 255)), ("1.6,0,0", (2, 0, 0))]
)
def test_nodata_that_8_bits_cannot_hold_is_brought_near(
    text: str, values: tuple[float, ...], installation: Any
) -> None:
    installation.set(PYRAMID, "$.raster_specifications.channels", 3)
    installation.set(PYRAMID, "$.raster_specifications.nodata", text)
    installation.set(LAYER, "$.styles", ["normal"])
    _, catalogue, faults = installation.load()

    assert [fault.path for fault in faults] == ["$.raster_specifications.nodata"]
    assert catalogue.layers["L"].pyramid.raster.nodata == values


@pytest.mark.parametrize(
    ("written", "directory"),
    [
        ("P/DATA/4", "pyramids/P/DATA/4"),
        ("P/DATA/4/", "pyramids/P/DATA/4"),
        ("./P/DATA/4", "pyramids/P/DATA/4"),
        ("../P", "pyramids/../P"),
        (".hidden", "pyramids/.hidden"),
        ("/srv/P/DATA/4", "/srv/P/DATA/4"),
        ("/", "/"),
    ],
)
def test_image_directory_starts_at_the_descriptor_unless_absolute(
    written: str, directory: str, installation: Any
) -> None:
    installation.set(PYRAMID, "$.levels[0].storage.image_directory", written)
    reader = installation.catalogue().readers["L"]["4"]
    assert reader.key_of(("", 1, 2)) == f"{directory}/00/00/12.tif"


@pytest.mark.parametrize("path", ["file://pyramids/P.json", "./pyramids/P.json"])
def test_descriptor_path_may_name_its_storage(path: str, installation: Any) -> None:
    installation.set(LAYER, "$.pyramids[0].path", path)
    assert list(installation.catalogue().layers) == ["L"]


def test_absolute_descriptor_path_is_taken(installation: Any, tmp_path: Path) -> None:
    installation.set(LAYER, "$.pyramids[0].path", f"file://{tmp_path}/pyramids/P.json")
    installation.documents["layers.txt"] = f"file://{tmp_path}/layers/L.json"
    assert list(installation.catalogue().layers) == ["L"]


@pytest.mark.parametrize("rest", [None, {"channels": 9}, "nothing"])
def test_vector_pyramid_needs_no_raster_specifications(rest: Any, installation: Any) -> None:
    tables = [
        {
            "name": "t",
            "geometry": "POINT",
            "attributes": [{"name": "a", "type": "x", "count": 2, "min": 0, "max": 1.5}],
        }
    ]
    installation.set(PYRAMID, "$.format", "TIFF_PBF_MVT")
    installation.set(PYRAMID, "$.raster_specifications", rest)
    installation.set(PYRAMID, "$.levels[0].tables", tables)
    installation.set(PYRAMID, "$.levels[1].tables", [])
    for service in ("wms", "wmts"):
        installation.set("services.json", f"$.{service}", {"enabled": True})
    layer = installation.catalogue().layers["L"]

    assert layer.is_vector
    assert layer.styles == ()
    assert layer.hidden_from >= {"wms", "wmts"}
    assert layer.feature_info is None
    (table,) = layer.pyramid.levels["4"].tables
    assert (table.name, table.attributes[0].maximum) == ("t", 1.5)


def test_masks_are_ignored(installation: Any) -> None:
    installation.set(PYRAMID, "$.mask_format", "TIFF_ZIP_UINT8")
    installation.set(PYRAMID, "$.levels[0].storage.mask_directory", "P/MASK/4")
    assert list(installation.catalogue().layers) == ["L"]


def test_style_of_a_directory_of_the_same_name_is_found(installation: Any, tmp_path: Path) -> None:
    (tmp_path / "styles/ember").mkdir(parents=True)
    (tmp_path / "tilematrixsets/PM").mkdir(parents=True)
    assert len(installation.catalogue().layers["L"].styles) == 2


def test_style_without_suffix_is_found_first(installation: Any) -> None:
    installation.documents["styles/ember"] = b'{"identifier": "plain", "title": "x"}'
    layer = installation.catalogue().layers["L"]
    assert [style.identifier for style in layer.styles] == ["normal", "plain"]


# ---------------------------------------------------------------- memory and real data


def test_documents_are_not_held_open(installation: Any) -> None:
    catalogue = installation.catalogue()
    storage = catalogue.readers["L"]["4"].storage
    assert len(getattr(storage, "_storage", storage)._files) == 0


@pytest.mark.shared_data
def test_real_installation_loads_without_errors(
    shared_data: Path, sample_plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared_data / "alps")
    faults = Faults()
    server = load_server("conf/server.json", sample_plugins, faults)
    catalogue = load_catalogue(server, sample_plugins, Environment({}), faults)

    assert faults.errors == ()
    listed = Path("conf/layers.txt").read_text().split()
    assert sorted(catalogue.layers) == sorted(Path(path).stem for path in listed)


def test_kept_layers_that_cannot_be_read_are_reported(
    installation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_cls: type[Service], _settings: ServiceSettings) -> dict[str, str]:
        raise PermissionError(errno.EACCES, "Permission denied", "kept")

    sample = installation.plugins.services["sample"]
    monkeypatch.setattr(sample, "kept_layers", classmethod(unreadable))
    _, catalogue, (fault,) = installation.load()
    assert catalogue is not None
    assert str(fault).startswith(
        "warning: kept: $: what it keeps cannot be read: Permission denied"
    )


class _Elsewhere:
    """A plugin with a service whose import fails."""

    @hookimpl
    def register_services(self) -> list[LazyClass]:
        return [LazyClass("not_installed:Elsewhere", name="elsewhere")]


def test_service_without_a_section_is_not_imported(installation: Any) -> None:
    installation.plugins = Plugins(
        autoload=False, extra={"render": mastaba_render.plugin, "elsewhere": _Elsewhere()}
    )
    del installation.documents["services.json"]["sample"]
    _, catalogue, faults = installation.load()
    assert (list(catalogue.layers), faults) == (["L"], ())
    installation.set("services.json", "$.elsewhere", {"enabled": False})
    with pytest.raises(PluginLoadError, match="cannot import not_installed:Elsewhere"):
        installation.load()


def test_layers_may_have_keys_of_services_without_a_section(
    installation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = {"depths": {"type": "integer", "description": "How deep."}}
    monkeypatch.setattr(installation.plugins.services["wms"], "layer_schema", schemas)
    installation.set(LAYER, "$.depths", 3)
    assert installation.load()[2] == ()
    installation.set(LAYER, "$.depths", "3")
    (fault,) = installation.load()[2]
    assert fault.path == "$.depths"
    assert "wms" not in installation.documents["services.json"]
