"""The image formats of this distribution, registered like those of any plugin."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from mastaba import LazyClass, hookimpl


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
    reference = f"mastaba_render.encoding.{place}"
    return LazyClass(reference, media_type=media_type, name=name, extension=extension)
