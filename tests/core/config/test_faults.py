"""Seeded errors: each is reported with file, JSON path, reason and remedy, never by a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

REMOVED = object()
SERVER, SERVICES, LAYER = "server.json", "services.json", "layers/L.json"
PYRAMID, STYLE = "pyramids/P.json", "styles/ember.json"
TMS, EQUIVALENCES = "tilematrixsets/PM.json", "equivalences.json"
SINCE = "0123456789ab"
LEVEL = "$.levels[0]"
GIF = "image/gif"
ENTRY = {"value": 1, "red": 0, "green": 0, "blue": 0, "alpha": 0}

# file, place, value put there, path that is reported, word of the reason
ERRORS: list[tuple[str, str, Any, str, str]] = [
    # server-config.md section 2
    (SERVER, "$", [], "$", "object"),
    (SERVER, "$", "text", "$", "object"),
    (SERVER, "$", 3, "$", "object"),
    (SERVER, "$.port", REMOVED, "$.port", "missing"),
    (SERVER, "$.port", None, "$.port", "missing"),
    (SERVER, "$.port", "", "$.port", "empty"),
    (SERVER, "$.port", 9000, "$.port", "string"),
    (SERVER, "$.backlog", -1, "$.backlog", "small"),
    (SERVER, "$.backlog", "5", "$.backlog", "integer"),
    (SERVER, "$.backlog", 1e30, "$.backlog", "too large"),
    (SERVER, "$.backlog", 2**40, "$.backlog", "large"),
    (SERVER, "$.threads", 0, "$.threads", "small"),
    (SERVER, "$.threads", -3, "$.threads", "small"),
    (SERVER, "$.threads", 1.5, "$.threads", "integer"),
    (SERVER, "$.threads", True, "$.threads", "integer"),
    (SERVER, "$.threads", 10**9, "$.threads", "large"),
    (SERVER, "$.workers", 0, "$.workers", "small"),
    (SERVER, "$.logger", "info", "$.logger", "object"),
    (SERVER, "$.logger", [], "$.logger", "object"),
    (SERVER, "$.logger.output", "syslog", "$.logger.output", "syslog"),
    (SERVER, "$.logger.output", 1, "$.logger.output", "1"),
    (SERVER, "$.logger.level", "warning", "$.logger.level", "warning"),
    (SERVER, "$.logger.level", "INFO", "$.logger.level", "INFO"),
    (SERVER, "$.logger.file_prefix", 5, "$.logger.file_prefix", "string"),
    (SERVER, "$.logger.file_prefix", "", "$.logger.file_prefix", "empty"),
    (SERVER, "$.logger.file_period", 0, "$.logger.file_period", "small"),
    (SERVER, "$.configurations", REMOVED, "$.configurations", "missing"),
    (SERVER, "$.configurations", "conf", "$.configurations", "object"),
    (SERVER, "$.configurations.services", REMOVED, "$.configurations.services", "missing"),
    (SERVER, "$.configurations.services", 1, "$.configurations.services", "string"),
    (SERVER, "$.configurations.layers", 1, "$.configurations.layers", "string"),
    (SERVER, "$.configurations.styles", "", "$.configurations.styles", "empty"),
    (SERVER, "$.configurations.styles", None, "$.configurations.styles", "missing"),
    (
        SERVER,
        "$.configurations.tile_matrix_sets",
        [],
        "$.configurations.tile_matrix_sets",
        "string",
    ),
    # services-config.md sections 1 to 4
    (SERVICES, "$", [], "$", "object"),
    (SERVICES, "$.enabled", "yes", "$.enabled", "true or false"),
    (SERVICES, "$.enabled", 1, "$.enabled", "true or false"),
    (SERVICES, "$.global", 1, "$.global", "object"),
    (SERVICES, "$.global.provider", 1, "$.global.provider", "string"),
    (SERVICES, "$.global.site", [], "$.global.site", "string"),
    (SERVICES, "$.global.fee", False, "$.global.fee", "string"),
    (SERVICES, "$.global.access_constraint", 1, "$.global.access_constraint", "string"),
    (SERVICES, "$.global.contact", "me", "$.global.contact", "object"),
    (SERVICES, "$.global.contact.name", 1, "$.global.contact.name", "string"),
    (SERVICES, "$.global.contact.email", [], "$.global.contact.email", "string"),
    (SERVICES, "$.global.default_style", 1, "$.global.default_style", "string"),
    (SERVICES, "$.global.inspire", "no", "$.global.inspire", "true or false"),
    (SERVICES, "$.global.cors", "a\nb", "$.global.cors", "not allowed"),
    (SERVICES, "$.global.cors", ["https://a.example", "a\nb"], "$.global.cors[1]", "not allowed"),
    (SERVICES, "$.global.cors", [1], "$.global.cors[0]", "must be"),
    (SERVICES, "$.global.map", [], "$.global.map", "object"),
    (SERVICES, "$.global.map.reprojection", 0, "$.global.map.reprojection", "true or false"),
    (SERVICES, "$.global.map.formats", "image/png", "$.global.map.formats", "list"),
    (SERVICES, "$.global.map.formats[0]", "image/bmp", "$.global.map.formats[0]", "image/bmp"),
    (SERVICES, "$.global.map.crs[0]", 2154, "$.global.map.crs[0]", "string"),
    (
        SERVICES,
        "$.global.map.limits.layers_count",
        0,
        "$.global.map.limits.layers_count",
        "small",
    ),
    (SERVICES, "$.global.map.limits.width", -1, "$.global.map.limits.width", "small"),
    (SERVICES, "$.global.map.limits.height", "1", "$.global.map.limits.height", "integer"),
    (SERVICES, "$.global.map.limits.tile_x", 0.5, "$.global.map.limits.tile_x", "integer"),
    (SERVICES, "$.global.tile.reprojection", "x", "$.global.tile.reprojection", "true or false"),
    (SERVICES, "$.sample", True, "$.sample", "object"),
    (SERVICES, "$.sample.enabled", "yes", "$.sample.enabled", "true or false"),
    (SERVICES, "$.sample.endpoint_uri", 1, "$.sample.endpoint_uri", "string"),
    (SERVICES, "$.sample.root_path", 1, "$.sample.root_path", "string"),
    (SERVICES, "$.sample.title", [], "$.sample.title", "string"),
    (SERVICES, "$.sample.abstract", 1, "$.sample.abstract", "string"),
    (SERVICES, "$.sample.keywords", "a,b", "$.sample.keywords", "list"),
    (SERVICES, "$.sample.keywords[0]", 1, "$.sample.keywords[0]", "string"),
    (SERVICES, "$.sample.metadata", "url", "$.sample.metadata", "object"),
    (SERVICES, "$.sample.metadata.url", REMOVED, "$.sample.metadata.url", "missing"),
    (SERVICES, "$.sample.depth", 0, "$.sample.depth", "small"),
    (SERVICES, "$.health", [], "$.health", "object"),
    (EQUIVALENCES, "$", [], "$", "object"),
    (EQUIVALENCES, "$", {"EPSG:2154": "IGNF:LAMB93"}, "$", "lists"),
    (EQUIVALENCES, "$", {"EPSG:2154": [1]}, "$", "lists"),
    # layer.md sections 2, 3, 4 and 8
    (LAYER, "$", [], "$", "object"),
    (LAYER, "$.title", REMOVED, "$.title", "missing"),
    (LAYER, "$.title", 1, "$.title", "string"),
    (LAYER, "$.abstract", None, "$.abstract", "missing"),
    (LAYER, "$.keywords", "a", "$.keywords", "list"),
    (LAYER, "$.keywords[0]", {}, "$.keywords[0]", "string"),
    (LAYER, "$.metadata", {}, "$.metadata", "list"),
    (LAYER, "$.metadata[0].type", REMOVED, "$.metadata[0].type", "missing"),
    (LAYER, "$.attribution.title", 5, "$.attribution.title", "string"),
    (LAYER, "$.attribution.url", REMOVED, "$.attribution.url", "missing"),
    (LAYER, "$.attribution.logo", "l.png", "$.attribution.logo", "object"),
    (LAYER, "$.attribution.logo.width", "10", "$.attribution.logo.width", "integer"),
    (LAYER, "$.attribution.logo.url", REMOVED, "$.attribution.logo.url", "missing"),
    (LAYER, "$.pyramids", REMOVED, "$.pyramids", "missing"),
    (LAYER, "$.pyramids", [], "$.pyramids", "at least 1"),
    (LAYER, "$.pyramids", {}, "$.pyramids", "list"),
    (LAYER, "$.pyramids[0].path", REMOVED, "$.pyramids[0].path", "missing"),
    (LAYER, "$.pyramids[0].path", "", "$.pyramids[0].path", "empty"),
    (LAYER, "$.pyramids[0].path", "s3://", "$.pyramids[0].path", "container"),
    (LAYER, "$.pyramids[0].bottom_level", 4, "$.pyramids[0].bottom_level", "string"),
    (LAYER, "$.pyramids[0].bottom_level", "5", "$.pyramids[0]", "5"),
    (LAYER, "$.pyramids[0].top_level", "x", "$.pyramids[0]", "x"),
    (LAYER, "$.pyramids[0].top_level", REMOVED, "$.pyramids[0].top_level", "missing"),
    (LAYER, "$.bbox.west", REMOVED, "$.bbox.west", "missing"),
    (LAYER, "$.bbox.west", "0", "$.bbox.west", "number"),
    (LAYER, "$.bbox.west", 50, "$.bbox", "west"),
    (LAYER, "$.bbox.south", 70, "$.bbox", "north"),
    (LAYER, "$.bbox.north", 100, "$.bbox", "EPSG:3857"),
    (LAYER, "$.bbox", [0, 0, 1, 1], "$.bbox", "object"),
    (LAYER, "$.styles", "normal", "$.styles", "list"),
    (LAYER, "$.resampling", "cubic", "$.resampling", "cubic"),
    (LAYER, "$.resampling", 2, "$.resampling", "2"),
    (LAYER, "$.extra_crs", "EPSG:2154", "$.extra_crs", "list"),
    (LAYER, "$.extra_tilematrixsets[0]", 1, "$.extra_tilematrixsets[0]", "string"),
    (LAYER, "$.get_feature_info", [], "$.get_feature_info", "object"),
    (LAYER, "$.get_feature_info.type", REMOVED, "$.get_feature_info.type", "missing"),
    (LAYER, "$.get_feature_info.type", "WMS", "$.get_feature_info.type", "WMS"),
    (
        LAYER,
        "$.get_feature_info",
        {"type": "EXTERNALWMS", "url": "u", "layers": "l"},
        "$.get_feature_info.query_layers",
        "missing",
    ),
    (LAYER, "$.wms", False, "$.wms", "object"),
    (LAYER, "$.wms.enabled", "no", "$.wms.enabled", "true or false"),
    (LAYER, "$.sample", {"enabled": 0}, "$.sample.enabled", "true or false"),
    (LAYER, "$.missing_tile", "302", "$.missing_tile", "302"),
    # pyramid.md section 2
    (PYRAMID, "$", "P", "$", "object"),
    (PYRAMID, "$.tile_matrix_set", REMOVED, "$.tile_matrix_set", "missing"),
    (PYRAMID, "$.format", "TIFF_WEBP_UINT8", "$.format", "TIFF_WEBP_UINT8"),
    (PYRAMID, "$.format", "tiff_png_uint8", "$.format", "tiff_png_uint8"),
    (PYRAMID, "$.raster_specifications", REMOVED, "$.raster_specifications", "missing"),
    (
        PYRAMID,
        "$.raster_specifications.channels",
        5,
        "$.raster_specifications.channels",
        "large",
    ),
    (PYRAMID, "$.format", "TIFF_JPG_UINT8", "$.raster_specifications.channels", "1 channels"),
    (PYRAMID, "$.raster_specifications.nodata", 255, "$.raster_specifications.nodata", "string"),
    (
        PYRAMID,
        "$.raster_specifications.nodata",
        "white",
        "$.raster_specifications.nodata",
        "numbers",
    ),
    (
        PYRAMID,
        "$.raster_specifications.nodata",
        "nan",
        "$.raster_specifications.nodata",
        "numbers",
    ),
    (
        PYRAMID,
        "$.raster_specifications.channels",
        3,
        "$.raster_specifications.nodata",
        "1 values for 3",
    ),
    (
        PYRAMID,
        "$.raster_specifications.photometric",
        REMOVED,
        "$.raster_specifications.photometric",
        "missing",
    ),
    (PYRAMID, "$.levels", REMOVED, "$.levels", "missing"),
    (PYRAMID, "$.levels", [], "$.levels", "at least 1"),
    (PYRAMID, f"{LEVEL}.id", REMOVED, f"{LEVEL}.id", "missing"),
    (PYRAMID, f"{LEVEL}.id", 4, f"{LEVEL}.id", "string"),
    (PYRAMID, f"{LEVEL}.id", "40", f"{LEVEL}.id", "40"),
    (PYRAMID, f"{LEVEL}.id", "3", "$.levels[2].id", "duplicate"),
    (PYRAMID, f"{LEVEL}.tiles_per_width", 0, f"{LEVEL}.tiles_per_width", "small"),
    (PYRAMID, f"{LEVEL}.tiles_per_height", 10**6, f"{LEVEL}.tiles_per_height", "large"),
    (PYRAMID, f"{LEVEL}.tile_limits", REMOVED, f"{LEVEL}.tile_limits", "missing"),
    (PYRAMID, f"{LEVEL}.tile_limits.min_row", REMOVED, f"{LEVEL}.tile_limits.min_row", "missing"),
    (PYRAMID, f"{LEVEL}.tile_limits.min_row", "1", f"{LEVEL}.tile_limits.min_row", "integer"),
    (
        PYRAMID,
        f"{LEVEL}.tile_limits",
        {"min_row": 5, "max_row": 4, "min_col": 0, "max_col": 0},
        f"{LEVEL}.tile_limits",
        "above",
    ),
    (PYRAMID, f"{LEVEL}.storage", REMOVED, f"{LEVEL}.storage", "missing"),
    (PYRAMID, f"{LEVEL}.storage", "FILE", f"{LEVEL}.storage", "object"),
    (PYRAMID, f"{LEVEL}.storage.type", "S3", f"{LEVEL}.storage.type", "mastaba-storage-s3"),
    (
        PYRAMID,
        f"{LEVEL}.storage.image_directory",
        REMOVED,
        f"{LEVEL}.storage.image_directory",
        "missing",
    ),
    (PYRAMID, f"{LEVEL}.storage.path_depth", REMOVED, f"{LEVEL}.storage.path_depth", "missing"),
    (PYRAMID, f"{LEVEL}.storage.path_depth", 9, f"{LEVEL}.storage.path_depth", "large"),
    (PYRAMID, f"{LEVEL}.storage.path_depth", -1, f"{LEVEL}.storage.path_depth", "small"),
    (PYRAMID, f"{LEVEL}.tables", {}, f"{LEVEL}.tables", "list"),
    (PYRAMID, "$.update", {"since": SINCE, "bbox": [3, 0, 1, 1]}, "$.update.bbox", "above"),
    (PYRAMID, "$.update", {"since": SINCE, "bbox": [0, 3, 1, 1]}, "$.update.bbox", "above"),
    (PYRAMID, "$.update", {"since": SINCE, "bbox": [0, 0, 1e308, 1]}, "$.update.bbox[2]", "large"),
    (PYRAMID, "$.update", {"since": SINCE, "bbox": [0, 0, 1]}, "$.update.bbox", "4"),
    (PYRAMID, "$.update", {"since": "x", "bbox": [0, 0, 1, 1]}, "$.update.since", "x"),
    (PYRAMID, f"{LEVEL}.tables", [{"name": "t"}], f"{LEVEL}.tables[0].geometry", "missing"),
    # tilematrixset.md section 2
    (TMS, "$", [], "$", "object"),
    (TMS, "$.crs", REMOVED, "$.crs", "missing"),
    (TMS, "$.crs", "EPSG:999999", "$.crs", "EPSG:999999"),
    (TMS, "$.crs", "mercator", "$.crs", "mercator"),
    (TMS, "$.crs", "EPSG:5720", "$.crs", "EPSG:5720"),
    (TMS, "$.keywords", "k", "$.keywords", "list"),
    (TMS, "$.tileMatrices", REMOVED, "$.tileMatrices", "missing"),
    (TMS, "$.tileMatrices", [], "$.tileMatrices", "at least 1"),
    (TMS, "$.tileMatrices[1].id", "0", "$.tileMatrices[1].id", "duplicate"),
    (TMS, "$.tileMatrices[1].cellSize", 0, "$.tileMatrices[1].cellSize", "small"),
    (TMS, "$.tileMatrices[1].cellSize", "1", "$.tileMatrices[1].cellSize", "number"),
    (TMS, "$.tileMatrices[1].tileWidth", 0, "$.tileMatrices[1].tileWidth", "small"),
    (TMS, "$.tileMatrices[1].tileHeight", 1e5, "$.tileMatrices[1].tileHeight", "large"),
    (TMS, "$.tileMatrices[1].matrixWidth", 0, "$.tileMatrices[1].matrixWidth", "small"),
    (TMS, "$.tileMatrices[1].matrixHeight", 1.5, "$.tileMatrices[1].matrixHeight", "integer"),
    (
        TMS,
        "$.tileMatrices[1].pointOfOrigin",
        [1],
        "$.tileMatrices[1].pointOfOrigin",
        "at least 2",
    ),
    (
        TMS,
        "$.tileMatrices[1].pointOfOrigin",
        [1, 2, 3],
        "$.tileMatrices[1].pointOfOrigin",
        "at most 2",
    ),
]

# The same for what is used, but not as it is written.
WARNINGS: list[tuple[str, str, Any, str, str]] = [
    (LAYER, "$.cache_control", "a\r\nb: c", "$.cache_control", "not allowed"),
    (SERVER, "$.api", True, "$.api", "unknown"),
    (SERVER, "$.logger.colour", 1, "$.logger.colour", "unknown"),
    (SERVER, "$.cache", "big", "$.cache", "default"),
    (SERVER, "$.cache", [], "$.cache", "default"),
    (SERVER, "$.cache.size", 0, "$.cache.size", "default"),
    (SERVER, "$.cache.size", "10", "$.cache.size", "default"),
    (SERVER, "$.cache.validity", -1, "$.cache.validity", "default"),
    (SERVER, "$.cache.validity", 0.5, "$.cache.validity", "default"),
    (SERVER, "$.configurations.fonts", "x", "$.configurations.fonts", "unknown"),
    (SERVICES, "$.common", {}, "$.common", "unknown"),
    (SERVICES, "$.global.contact.phone", "1", "$.global.contact.phone", "unknown"),
    (SERVICES, "$.global.enabled", True, "$.global.enabled", "unknown"),
    (SERVICES, "$.global.enabled", False, "$.global.enabled", "unknown"),
    (SERVICES, "$.sample.deep", 1, "$.sample.deep", "unknown"),
    (SERVICES, "$.tms", {"enabled": True}, "$.tms", "not installed"),
    (SERVICES, "$.wms", {"enabled": True, "root_path": "/sample"}, "$.wms.root_path", "sample"),
    (SERVICES, "$.global.map.formats[0]", GIF, "$.global.map.formats", "image/gif"),
    (SERVICES, "$.global.map.crs[0]", "EPSG:9", "$.global.map.crs[0]", "EPSG:9"),
    (SERVICES, "$.global.map.crs[0]", "EPSG:5720", "$.global.map.crs[0]", "EPSG:5720"),
    (SERVICES, "$.global.map.reprojection", False, "$.global.map.crs", "reprojection"),
    (EQUIVALENCES, "$", {"X:1": ["EPSG:2154"]}, "$", "X:1"),
    (EQUIVALENCES, "$", {"EPSG:2154": ["X:1"]}, "$", "X:1"),
    (LAYER, "$.attribution", "me", "$.attribution", "default"),
    (LAYER, "$.wms.authorized", True, "$.wms.authorized", "unknown"),
    (LAYER, "$.opacity", 1, "$.opacity", "unknown"),
    (LAYER, "$.extra_crs[0]", "EPSG:1", "$.extra_crs[0]", "unknown"),
    (LAYER, "$.extra_crs[0]", "IAU_2015:30100", "$.extra_crs[0]", "unknown"),
    (LAYER, "$.extra_crs[0]", "EPSG:32733", "$.extra_crs[0]", "area of use"),
    (PYRAMID, "$.levels[0].colour", 1, "$.levels[0].colour", "unknown"),
    (
        PYRAMID,
        "$.raster_specifications.nodata",
        "-99999",
        "$.raster_specifications.nodata",
        "8 bits",
    ),
    (TMS, "$.boundingBox", "x", "$.boundingBox", "unknown"),
    (STYLE, "$.sharpen", {}, "$.sharpen", "unknown"),
    (STYLE, "$.palette.colours[0].value", 0, "$.palette.colours[1].value", "duplicate"),
]

# Faults of a style; its layer goes on without it.
STYLE_ERRORS: list[tuple[str, Any, str, str]] = [
    ("$", [], "$", "object"),
    ("$.identifier", None, "$.identifier", "missing"),
    ("$.identifier", "", "$.identifier", "not allowed"),
    ("$.identifier", "a<b", "$.identifier", "not allowed"),
    ("$.identifier", 5, "$.identifier", "string"),
    ("$.title", None, "$.title", "missing"),
    ("$.abstract", 5, "$.abstract", "string"),
    ("$.keywords", [1], "$.keywords[0]", "string"),
    ("$.legend", [], "$.legend", "object"),
    ("$.legend.url", None, "$.legend.url", "missing"),
    ("$.legend.width", "10", "$.legend.width", "integer"),
    ("$.legend.min_scale_denominator", -1, "$.legend.min_scale_denominator", "small"),
    ("$.palette", [], "$.palette", "object"),
    ("$.palette.no_alpha", 1, "$.palette.no_alpha", "true or false"),
    ("$.palette.colours", {}, "$.palette.colours", "list"),
    ("$.palette.colours[0].red", None, "$.palette.colours[0].red", "missing"),
    ("$.palette.colours[0].green", 256, "$.palette.colours[0].green", "large"),
    ("$.palette.colours[0].blue", -1, "$.palette.colours[0].blue", "small"),
    ("$.palette.colours[0].alpha", -2, "$.palette.colours[0].alpha", "small"),
    ("$.palette.colours[0].value", "0", "$.palette.colours[0].value", "number"),
    ("$.terrainrgb", {}, "$.palette", "terrainrgb"),
    ("$.colorize", {}, "$.palette", "colorize"),
    ("$.terrainrgb", {"step": 0}, "$.terrainrgb.step", "small"),
    ("$.colorize", {"source": [1, 2]}, "$.colorize.source", "at least 3"),
    ("$.colorize", {"destination": [1, 2, 3, 4, 5]}, "$.colorize.destination", "at most 4"),
    ("$.pente", {"algo": "X"}, "$.pente.algo", "X"),
    ("$.pente", {"unit": "percent"}, "$.pente.unit", "percent"),
    ("$.estompage", {"zenith": "high"}, "$.estompage.zenith", "number"),
    ("$.exposition", [], "$.exposition", "object"),
]


def name_case(value: Any) -> str | None:
    return "removed" if value is REMOVED else None


@pytest.mark.parametrize(("file", "place", "value", "path", "word"), ERRORS, ids=name_case)
def test_error_is_reported_with_its_place_reason_and_remedy(
    file: str, place: str, value: Any, path: str, word: str, installation: Any, run_check: Any
) -> None:
    if value is REMOVED:
        installation.remove(file, place)
    else:
        installation.set(file, place, value)

    status, reported = run_check()

    found = [fault for fault in reported if (fault.file, fault.path) == (file, path)]
    assert [fault.severity for fault in found] == ["error"], reported
    assert word in found[0].reason
    assert found[0].remedy
    assert status == 1


@pytest.mark.parametrize(("file", "place", "value", "path", "word"), WARNINGS)
def test_warning_is_reported_and_the_layer_is_served(
    file: str,
    place: str,
    value: Any,
    path: str,
    word: str,
    installation: Any,
    run_check: Callable[[], tuple[int, Any]],
) -> None:
    installation.set(file, place, value)

    status, reported = run_check()

    found = [fault for fault in reported if (fault.file, fault.path) == (file, path)]
    assert [fault.severity for fault in found] == ["warning"], reported
    assert word in found[0].reason
    assert found[0].remedy
    if not any(fault.severity == "error" for fault in reported):
        assert status == 0
        _, catalogue, _ = installation.load()
        assert list(catalogue.layers) == ["L"]


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(("place", "value", "path", "word"), STYLE_ERRORS)
def test_invalid_style_is_reported_and_left_out_of_its_layer(
    place: str, value: Any, path: str, word: str, installation: Any, run_check: Any
) -> None:
    installation.set(STYLE, place, value)

    status, reported = run_check()

    found = [fault for fault in reported if (fault.file, fault.path) == (STYLE, path)]
    assert [fault.severity for fault in found] == ["error"], reported
    assert word in found[0].reason
    assert status == 1
    _, catalogue, _ = installation.load()
    assert [style.id for style in catalogue.layers["L"].styles] == ["normal"]


@pytest.mark.parametrize(
    ("file", "path", "value", "named", "key"),
    [
        ("layers/L.json", "$.pyramids[0].path", "gone.json", "gone.json", "pyramids[0].path"),
        ("layers/L.json", "$.pyramids[0].path", "ftp://x/y", "ftp://x/y", "pyramids[0].path"),
        ("layers/L.json", "$.styles[1]", "nope", "styles/nope", "styles[1]"),
        (
            "layers/L.json",
            "$.extra_tilematrixsets[0]",
            "NOPE",
            "tilematrixsets/NOPE",
            "extra_tilematrixsets[0]",
        ),
        ("pyramids/P.json", "$.tile_matrix_set", "NOPE", "tilematrixsets/NOPE", "tile_matrix_set"),
        ("pyramids/P.json", "$.tile_matrix_set", "../PM", "tilematrixsets", "tile_matrix_set"),
    ],
)
def test_a_named_file_that_cannot_be_used_is_reported_once_with_the_key_that_names_it(
    file: str, path: str, value: str, named: str, key: str, installation: Any, run_check: Any
) -> None:
    installation.set(file, path, value)
    status, reported = run_check()
    assert status == 1
    (fault,) = [fault for fault in reported if fault.severity == "error"]
    assert fault.file == named
    assert f"by {key} of {file}" in fault.reason
    if value in ("gone.json", "nope", "NOPE"):
        assert f"the working directory is {installation.directory}" in fault.reason
