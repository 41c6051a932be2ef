"""Requests for coverages as Zarr arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba.errors import UnknownPathError
from mastaba_ogcapi.coverages.choice import chosen_coverage
from mastaba_ogcapi.coverages.zarr import METADATA
from mastaba_ogcapi.dimensions import add_date

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_ogcapi.dataset import Dataset


class GetZarr:
    """Answers requests for the Zarr groups of coverages.

    Args:
        dataset: gives the collections.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def respond(self, request: Request, identifier: str, path: list[str]) -> Response:
        """Return a document, or a chunk as it is stored.

        Args:
            identifier: of the collection.
            path: segments below the group; none for the metadata of all.

        Raises:
            UnknownPathError: there is no such group, array or key.
            RequestError, SlabFormatError, StorageError: as `ZarrGroup.chunk`.
        """
        collection, found = chosen_coverage(self._dataset, identifier, request)
        group = collection.zarr
        if group is None:
            raise UnknownPathError("the tiles of this collection cannot be chunks of Zarr arrays")
        if not path or path[-1].startswith("."):
            return group.document("/".join(path) or METADATA).respond(request)
        response = group.chunk(request, path)
        if not collection.whole:
            add_date(response, found)
        return response
