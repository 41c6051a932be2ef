"""Every public name is documented where ``help()`` shows it."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from scripts.public_api import names
from scripts.public_api.gaps import gaps


@pytest.mark.parametrize("module", names.CORE)
def test_every_public_name_is_documented(module: str) -> None:
    assert gaps(module) == []


@pytest.mark.parametrize("module", [*names.LIBS, *names.KIT, *names.WRITER])
def test_every_name_of_libraries_kit_and_writer_is_documented(module: str) -> None:
    pytest.importorskip(module.partition(".")[0])
    assert gaps(module) == []


_SOURCE = '''
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

__all__ = ["Base", "Colour", "Derived", "Values", "constant", "documented", "function"]

constant = 1
documented = 2
"""Documented."""


def function():
    pass


class Base:
    """A class.

    Args:
        given: described as an argument.

    Attributes:
        described: described.
    """

    def __init__(self, given):
        self.given = given
        self.described = self.bare = given
        self.pair, self._private = given

    def method(self):
        """Do something."""

    @property
    def value(self):
        pass

    @cached_property
    def cached(self):
        pass


class Derived(Base):
    """Overrides a documented method."""

    def method(self):
        pass

    @classmethod
    def create(cls):
        pass


@dataclass
class Values:
    number: int


class Colour(Enum):
    """A colour.

    Attributes:
        RED: described.
    """

    RED = 1
    BLUE = 2
'''


def test_what_is_missing_is_found(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("undocumented")
    (folder / "mastaba_undocumented.py").write_text(_SOURCE)
    monkeypatch.syspath_prepend(folder)
    found = [text.removeprefix("mastaba_undocumented.") for text in gaps("mastaba_undocumented")]
    assert isinstance(sys.modules.pop("mastaba_undocumented"), ModuleType)
    assert sorted(text.partition(":")[0] for text in found) == [
        "Base.bare",
        "Base.cached",
        "Base.pair",
        "Base.value",
        "Colour.BLUE",
        "Derived.bare",
        "Derived.cached",
        "Derived.create",
        "Derived.pair",
        "Derived.value",
        "Values",
        "Values.number",
        "constant",
        "function",
        "mastaba_undocumented",
    ]
