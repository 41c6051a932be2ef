"""What a request for a coverage means by a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba.errors import NoSuchValueError, UnknownPathError
from mastaba_ogcapi.dimensions import shown
from mastaba_ogcapi.errors import OutsideCoverageError

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_ogcapi.dataset import Collection, Dataset
    from mastaba_ogcapi.shown import Shown


def chosen_coverage(
    dataset: Dataset, identifier: str, request: Request
) -> tuple[Collection, Shown]:
    """Return a collection with a coverage, and what it shows: of several values, the newest.

    Raises:
        UnknownPathError: there is no such collection, or it is not offered for download.
        OutsideCoverageError: it has no such value.
        MissingParameterError, InvalidParameterError, OverloadedError: as `shown`.
    """
    found = dataset.collection(identifier)
    if not found.has_coverage:
        raise UnknownPathError("this collection is not offered for download")
    try:
        chosen = shown(dataset, found, request)
    except NoSuchValueError as error:
        raise OutsideCoverageError(str(error)) from error
    return (dataset.of_layer(chosen.layers[0]) if found.layer.dimensions else found), chosen
