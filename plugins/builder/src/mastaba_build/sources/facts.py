"""What is known of a source for its row of the table of sources (time.md section 5.3)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mastaba_build.config.dates import dates

if TYPE_CHECKING:
    from mastaba_build.config.configuration import SourceOptions

_DATE = frozenset({"date", "start", "end"})


def _facts_in_file(dataset: Any) -> dict[str, Any]:
    """Return what the tags of a file say: when it was taken."""
    tags = {**dataset.tags(), **dataset.tags(ns="IMAGERY")}
    texts = [value for key, value in sorted(tags.items()) if key.startswith("ACQUISITION")]
    for text in filter(None, (*texts, tags.get("TIFFTAG_DATETIME"))):
        found = dates(text.replace(" ", "T", 1) if re.match(r"\d{4}-", text) else text)
        if found:
            return dict(found)
    return {}


def facts_of_item(item: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return what a STAC item says.

    Args:
        address: of the item; empty if it is unknown.
    """
    properties = item.get("properties") or {}
    start, end = properties.get("start_datetime"), properties.get("end_datetime")
    date = f"{start}/{end}" if start and end else str(properties.get("datetime") or "")
    facts: dict[str, Any] = dict(dates(date))
    for key, name in (("title", "title"), ("gsd", "gsd"), ("license", "licence")):
        if isinstance(properties.get(key), str | int | float):
            facts[name] = properties[key]
    providers = [one for one in properties.get("providers") or () if one.get("name")]
    if providers:
        facts["attribution"] = {"title": ", ".join(str(one["name"]) for one in providers)}
        if providers[0].get("url"):
            facts["attribution"]["url"] = str(providers[0]["url"])
    if "://" in address:
        facts["stac"] = address
    if isinstance(item.get("geometry"), dict):
        facts["footprint"] = item["geometry"]
    return facts


def facts_of(
    path: str, options: SourceOptions, dataset: Any, of_item: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what is known of a source: from the options, its name, its STAC item, its tags.

    Args:
        dataset: of rasterio; None for a pyramid.
        of_item: see `facts_of_item`.
    """
    in_options: dict[str, Any] = dict(dates(options.date)) if options.date else {}
    for key in ("accuracy", "licence", "group"):
        if getattr(options, key) is not None:
            in_options[key] = getattr(options, key)
    if options.attribution is not None:
        title, url = options.attribution
        in_options["attribution"] = {"title": title, **({"url": url} if url else {})}
    in_name: dict[str, Any] = {}
    if options.date_from is not None:
        match = re.search(options.date_from.removeprefix("name:"), os.path.basename(path))
        in_name = dict(dates(match[1] or "")) if match else {}
    facts: dict[str, Any] = {}
    in_file = _facts_in_file(dataset) if dataset is not None else {}
    for found in (in_file, of_item, in_name, in_options):
        overlay(facts, found)
    return facts


def overlay(facts: dict[str, Any], others: Mapping[str, Any]) -> None:
    """Replace facts by others, in place; a date replaces all dates."""
    if _DATE & others.keys():
        for key in _DATE:
            facts.pop(key, None)
    facts.update(others)
