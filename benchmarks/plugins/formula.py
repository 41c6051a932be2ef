"""Storages by formula, for a server that is started from this repository."""

import mastaba
from benchmarks.formula import FormulaHeights, FormulaStorage
from mastaba.api.storages import Storage


@mastaba.hookimpl
def register_storages() -> list[type[Storage]]:
    return [FormulaStorage, FormulaHeights]
