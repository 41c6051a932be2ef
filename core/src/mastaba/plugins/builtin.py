"""Features of the core, registered through the same hooks that plugins use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from mastaba.render.encoding.base import Encoder
    from mastaba.services.base import Service
    from mastaba.storage.base import Storage


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba.services.health import HealthService
    from mastaba.services.root import RootService

    return [RootService, HealthService]


@hookimpl
def register_storages() -> Iterable[type[Storage]]:
    from mastaba.storage.file import FileStorage

    return [FileStorage]


@hookimpl
def register_encoders() -> Iterable[type[Encoder]]:
    from mastaba.render.encoding import webp
    from mastaba.render.encoding.asc import AscEncoder
    from mastaba.render.encoding.bil import BilEncoder
    from mastaba.render.encoding.geotiff import GeotiffEncoder
    from mastaba.render.encoding.jpeg import JpegEncoder
    from mastaba.render.encoding.png import PngEncoder
    from mastaba.render.encoding.tiff import TiffEncoder

    encoders: list[type[Encoder]] = [
        PngEncoder,
        JpegEncoder,
        TiffEncoder,
        GeotiffEncoder,
        BilEncoder,
        AscEncoder,
    ]
    if webp.is_available():
        encoders.append(webp.WebpEncoder)
    return encoders
