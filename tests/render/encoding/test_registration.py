"""The encoders that the core provides."""

from __future__ import annotations

import mimetypes

import mastaba_render.plugin
from mastaba.plugins.manager import Plugins


def test_core_provides_the_formats_of_maps() -> None:
    encoders = Plugins(autoload=False, extra={"render": mastaba_render.plugin}).encoders
    assert set(encoders) >= {
        "image/png",
        "image/jpeg",
        "image/tiff",
        "image/geotiff",
        "image/x-bil;bits=32",
        "text/asc",
    }
    assert all(encoder.media_type == name for name, encoder in encoders.items())


def test_only_pictures_are_flattened() -> None:
    encoders = Plugins(autoload=False, extra={"render": mastaba_render.plugin}).encoders.values()
    pictures = {encoder.name for encoder in encoders if encoder.is_picture}
    assert pictures - {"webp"} == {"png", "jpeg"}
    assert {encoder.name for encoder in encoders if encoder.holds_alpha} <= {"png", "webp"}


def test_extensions_are_those_of_the_media_types() -> None:
    for encoder in Plugins(
        autoload=False, extra={"render": mastaba_render.plugin}
    ).encoders.values():
        guessed, _ = mimetypes.guess_type(f"file.{encoder.extension}")
        if encoder.media_type in ("image/png", "image/jpeg", "image/tiff"):
            assert guessed == encoder.media_type
