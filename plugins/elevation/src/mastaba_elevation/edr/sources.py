"""Sources of heights as parameters: which survey a height comes from (time.md section 5.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mastaba_elevation.edr.names import SOURCE, SOURCE_DATE
from mastaba_ows.offers import sources_address, sources_at

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba_elevation.edr.answers import Found
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.queries.ground import Floats
    from mastaba_elevation.queries.sampling import Samples

Row = Mapping[str, Any]


def have_sources(site: Site, dataset: Dataset) -> bool:
    """Return whether the sources of a layer of a dataset are known."""
    return any(sources_address(site, layer.layer) for layer in dataset.layers)


def source_columns(
    site: Site, found: Found, x: Floats, y: Floats, samples: Samples
) -> dict[str, list[Any]]:
    """Return the requested columns of sources: rows of the table, and texts of dates.

    Raises:
        RequestError: the points are in too many tiles.
        SlabFormatError, StorageError, OverloadedError: the sources cannot be read.
    """
    if SOURCE not in found.names and SOURCE_DATE not in found.names:
        return {}
    rows: list[Row | None] = [None] * len(x)
    for number, layer in enumerate(found.dataset.layers):
        here = (samples.layers == number).nonzero()[0]
        if len(here):
            known = sources_at(site, layer.layer, x[here], y[here], found.crs) or ()
            for index, row in zip(here.tolist(), known, strict=False):
                rows[index] = row
    columns: dict[str, list[Any]] = {
        SOURCE: rows,
        SOURCE_DATE: [row and _date(row) for row in rows],
    }
    return {name: values for name, values in columns.items() if name in found.names}


def coded(name: str, values: Sequence[Any]) -> tuple[list[int | None], dict[str, Any]]:
    """Return a column of categories as numbers, as CoverageJSON has them, and what they mean.

    A source has the number of its table, unless another source of the answer has it already: layers
    have tables of their own.

    Args:
        name: ``source`` or ``source_date``.
        values: of the column.

    Returns:
        numbers, and members of the parameter: ``observedProperty`` and ``categoryEncoding``.
    """
    codes: dict[str, int] = {}
    categories: dict[str, dict[str, Any]] = {}
    numbers: list[int | None] = []
    if name == SOURCE_DATE:
        texts = sorted({value for value in values if value})
        codes = {text: number for number, text in enumerate(texts, 1)}
        categories = {text: {"id": text, "label": {"en": text}} for text in texts}
        numbers = [codes.get(value or "") for value in values]
    else:
        taken: dict[int, str] = {}
        for row in values:
            if row is None:
                numbers.append(None)
                continue
            key = repr(sorted(row.items()))
            if key not in codes:
                number = row["number"] if row["number"] not in taken else max(taken) + 1
                codes[key] = number
                taken[number] = key
                categories[str(number)] = _category(str(number), row)
            numbers.append(codes[key])
        codes = {str(number): number for number in taken}
    return numbers, {
        "observedProperty": {"categories": list(categories.values())},
        "categoryEncoding": codes,
    }


def cell_of(value: Any) -> Any:
    """Return a value of a column as a table shows it: a source by its identifier."""
    return value["id"] if isinstance(value, Mapping) else value


def _category(identifier: str, row: Row) -> dict[str, Any]:
    known = [_date(row), row.get("licence"), (row.get("attribution") or {}).get("title")]
    category: dict[str, Any] = {
        "id": identifier,
        "label": {"en": str(row.get("title") or row["id"])},
    }
    text = ", ".join(str(part) for part in known if part)
    if text:
        category["description"] = {"en": text}
    return category


def _date(row: Row) -> str | None:
    """Return the date of a source, or its range."""
    if row.get("date"):
        return str(row["date"])
    ends = [str(row.get(name) or "..") for name in ("start", "end")]
    return None if ends == ["..", ".."] else "/".join(ends)
