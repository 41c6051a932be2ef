"""Map preview pages for Mastaba: the published layers as each of its services gives them.

The pages work without a network: the map library comes with a Python package, the rest are
files of this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba.hookspecs import hookimpl

if TYPE_CHECKING:
    from mastaba.service import Service


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba_viewer.service import Viewer

    return [Viewer]
