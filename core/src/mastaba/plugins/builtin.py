"""Features of the core, registered through the same hooks that plugins use."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [
        LazyClass("mastaba.services.root:RootService", name="root", default_root_path="/"),
        LazyClass(
            "mastaba.services.health:HealthService",
            name="health",
            default_root_path="/healthcheck",
        ),
    ]


@hookimpl
def register_storages() -> Iterable[LazyClass]:
    return [LazyClass("mastaba.storage.file:FileStorage", name="file")]


@hookimpl
def register_encoders() -> Iterable[LazyClass]:
    encoders = [
        _encoder("png:PngEncoder", "image/png", "png"),
        _encoder("jpeg:JpegEncoder", "image/jpeg", "jpg"),
        _encoder("tiff:TiffEncoder", "image/tiff", "tif"),
        _encoder("geotiff:GeotiffEncoder", "image/geotiff", "tif"),
        _encoder("bil:BilEncoder", "image/x-bil;bits=32", "bil"),
        _encoder("asc:AscEncoder", "text/asc", "asc"),
    ]
    # Pillow may have been built without WebP.
    if find_spec("PIL._webp") is not None:
        encoders.append(_encoder("webp:WebpEncoder", "image/webp", "webp"))
    return encoders


def _encoder(place: str, media_type: str, extension: str) -> LazyClass:
    name = place.partition(":")[0]
    reference = f"mastaba.render.encoding.{place}"
    return LazyClass(reference, media_type=media_type, name=name, extension=extension)
