"""Map preview pages for Mastaba: the published layers through each of its services.

The pages need no internet connection: a Python package provides the map library, and all other
files are in this package.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from mastaba.services.base import Service


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba_viewer.service import Viewer

    return [Viewer]
