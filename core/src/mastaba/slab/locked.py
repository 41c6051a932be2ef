"""Levels whose data are withheld."""

from __future__ import annotations

from typing import Any, NoReturn

from mastaba.errors import AccessError
from mastaba.slab.reader import LevelReader


class LockedReader(LevelReader):
    """A level of a layer that is described, but whose data need another credential.

    Reads raise `AccessError` with the status 401; the application turns it into 403 for clients
    that have shown a credential.

    Args:
        reader: of the level.
    """

    __slots__ = ()

    def __init__(self, reader: LevelReader) -> None:
        for name in LevelReader.__slots__:
            setattr(self, name, getattr(reader, name))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise AccessError("the data of this layer are not public")

    locate = locate_all = expect = known = index = refresh = _refuse
