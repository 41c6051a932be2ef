"""Datasets: single layers and named stacks of layers (elevation.md 0)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mastaba.api.catalogue import CRS84, WGS84, BoundingBox
from mastaba.api.dimensions import NO_VALUE
from mastaba.api.documents import Fault, Severity
from mastaba.api.web import printable
from mastaba.errors import (
    ConfigurationError,
    InvalidDimensionError,
    NoSuchValueError,
    UnknownNameError,
)
from mastaba_elevation.queries.levels import HeightLayer
from mastaba_elevation.queries.vertical import KEY, Vertical, vertical_of
from mastaba_ows.dimensions import requested_values
from mastaba_render.api.crs import CRSOffer

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site

logger = logging.getLogger(__name__)

_EVERYWHERE = (CRS84, "EPSG:4326", "EPSG:3857")
_RENAME = "choose another identifier"
_REMOVE = "remove it from the dataset, or correct the name"


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Layers of heights in order of preference, the finest first.

    Attributes:
        interpolation: default method of sampling.
        unit: label of the unit of heights.
        valid_range: lowest and highest value; others count as nodata.
        nodata_height: height for holes where a format knows no nodata.
        described: what is known of the vertical CRS of the first layer, for answers.
        crs: codes of the CRSs of requests, the native one of the first layer first.
        name: of a value in a request. It may lack values that ``id`` has, the defaults, which the
            request may give beside it; empty for other datasets.
    """

    id: str
    title: str
    description: str
    layers: tuple[HeightLayer, ...]
    verticals: tuple[Vertical, ...]
    described: Mapping[str, Any]
    crs: tuple[str, ...]
    interpolation: str = "bilinear"
    unit: str = "m"
    valid_range: tuple[float, float] = (-12000.0, 9000.0)
    nodata_height: float = 0.0
    keywords: tuple[str, ...] = ()
    attributions: tuple[tuple[str, str], ...] = field(default=())
    name: str = ""

    @property
    def vertical(self) -> Vertical:
        """What the heights of the first layer mean."""
        return self.verticals[0]

    @property
    def interval(self) -> tuple[str, str] | None:
        """First and last instant of the value of a time dimension that is shown, or None."""
        return next((item.layer.interval for item in self.layers if item.layer.interval), None)

    @property
    def date(self) -> str | None:
        """When the heights were measured; None if that is unknown, or differs between layers."""
        both = zip(self.layers, self.verticals, strict=True)
        dates = {
            one.layer.interval[0] if one.layer.interval else vertical.date for one, vertical in both
        }
        return dates.pop() if len(dates) == 1 else None

    @property
    def dimensions(self) -> dict[str, Any]:
        """Dimensions of the layers by name, `mastaba_ows.dimensions.Dimension`."""
        return {one.name: one for item in self.layers for one in item.layer.dimensions}

    @property
    def box(self) -> BoundingBox:
        """Box around all layers, WGS 84 degrees."""
        return reduce(BoundingBox.union, (item.layer.geographic_bbox for item in self.layers))

    @property
    def extent(self) -> BoundingBox:
        """Box around what has a height, WGS 84 degrees: `HeightLayer.extent` of all layers."""
        return reduce(BoundingBox.union, (item.extent for item in self.layers))


class Datasets(Mapping[str, Dataset]):
    """The datasets of a service by identifier: named stacks first, then single layers.

    Args:
        layers: those that the service publishes.
        own: settings of the service.
        section: name of the service in services.json.
        are_optional: whether the stacks are settings of another service, which reports their
            errors. Layers that this service does not publish are left out of them, as are those
            that a view or a virtual service does not show.

    Raises:
        ConfigurationError: a named stack cannot be used; contains all reasons.
    """

    def __init__(
        self,
        site: Site,
        layers: Sequence[Layer],
        own: Mapping[str, Any],
        section: str = "elevation",
        *,
        are_optional: bool = False,
    ) -> None:
        self._site = site
        self._offer = CRSOffer(site.catalogue.settings)
        self._range = _range(own.get("valid_range", (-12000.0, 9000.0)))
        self._faults: list[Fault] = []
        self._single: dict[str, tuple[HeightLayer, Vertical]] = {}
        self._refused: dict[str, str] = {}
        for layer in layers:
            self._add_layer(layer)
        found: dict[str, Dataset] = {}
        known = len(self._faults)
        for number, entry in enumerate(own.get("datasets", ())):
            stack = self._stack(entry, f"$.{section}.datasets[{number}]", found)
            if stack is not None:
                found[stack.id] = stack
        if are_optional:
            del self._faults[known:]
        if self._faults:
            raise ConfigurationError(self._faults)
        for identifier, (height, _) in self._single.items():
            if identifier not in found:
                found[identifier] = self._dataset(identifier, {"layers": [identifier]})
                logger.debug("%s is a dataset of heights", height.id)
        self._found = found

    def __getitem__(self, identifier: str) -> Dataset:
        return self._found[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def named(self, identifier: str, parameter: str = "dataset") -> Dataset:
        """Return a dataset.

        Raises:
            UnknownNameError: there is none of this name.
        """
        found = self._found.get(identifier)
        if found is None:
            raise UnknownNameError(f"there is no dataset {printable(identifier)}", parameter)
        return found

    def qualified(self, identifier: str, parameter: str = "dataset") -> Dataset:
        """Return a dataset, or one value or version of a single layer.

        Raises:
            UnknownNameError: there is none of this name.
            InvalidDimensionError: a value in the name is malformed.
            OverloadedError: a value cannot be opened at the moment.
        """
        name = identifier.partition("~")[0].partition(";")[0]
        if identifier in self._found or (
            name in self._site.catalogue.layers and name not in self._single
        ):
            # Its values must not tell that a layer exists which is not published here.
            return self.named(identifier, parameter)
        try:
            layer = self._site.catalogue.resolve(identifier).layer
        except (NoSuchValueError, UnknownNameError):
            return self.named(identifier, parameter)
        found = self._found.get(layer.id)
        if found is None or layer.id not in self._single:
            return self.named(identifier, parameter)
        shown = (HeightLayer(layer, self._site),)
        return replace(found, id=layer.key, layers=shown, name=identifier)

    def at(self, dataset: Dataset, values: Mapping[str, str], most: int = 1) -> list[Dataset]:
        """Return a dataset at the values of dimensions, newest first.

        Layers without these dimensions are the same at all values. Of several layers with them,
        the first decides which values there are; others are left out where they have none.

        Raises:
            MissingDimensionError, InvalidDimensionError, NoSuchValueError: the values are refused.
            OverloadedError: a value cannot be opened at the moment.
        """
        several = [item for item in dataset.layers if item.layer.dimensions]
        if not several:
            return [dataset]
        catalogue = self._site.catalogue
        found = []
        name = dataset.name if values and dataset.name else several[0].layer.key
        for layer in catalogue.resolve(name, values, most).layers:
            members = []
            for item, vertical in zip(dataset.layers, dataset.verticals, strict=True):
                shown = layer if item is several[0] else item.layer
                if item.layer.dimensions and item is not several[0]:
                    try:
                        shown = catalogue.resolve(item.layer.key, {**values, **layer.at}).layer
                    except NoSuchValueError:
                        continue
                height = item if shown is item.layer else HeightLayer(shown, self._site)
                members.append((height, vertical))
            layers, verticals = zip(*members, strict=True)
            shown_id = layer.key if dataset.name else dataset.id
            found.append(replace(dataset, id=shown_id, layers=layers, verticals=verticals))
        return found

    def default(self, dataset: Dataset) -> Dataset:
        """Return a dataset at the default of its dimensions, for protocols without values.

        The layers themselves are the default, unless its rule is ``now`` or ``none``.

        Raises:
            MissingDimensionError: the rule is ``none``.
            OverloadedError: the value cannot be opened at the moment.
        """
        return self.at(dataset, {})[0] if dataset.dimensions else dataset

    def addressed(self, identifier: str, values: Mapping[str, str]) -> Dataset:
        """Return the dataset at the values in its name, and in the parameters of a request.

        Its identifier contains the values, unless they are the default of the layers. A name may
        have values, ``ID;time=1950``, if it is that of a single layer; those of stacks have them
        in the same form.

        Args:
            values: parameters of the request; others than dimensions are ignored.

        Raises:
            UnknownNameError: there is no such dataset.
            MissingDimensionError, InvalidDimensionError, NoSuchValueError: the values are refused.
            OverloadedError: a value cannot be opened at the moment.
        """
        name, *items = identifier.split(";", 8) if identifier not in self._found else [identifier]
        whole, own = self._found.get(name), {}
        if items and whole is not None and name not in self._single:
            pairs = [item.partition("=") for item in items]
            own = {key: unquote(value) for key, _, value in pairs}
            if not own.keys() <= whole.dimensions.keys():
                return self.named(identifier)
        else:
            whole = self.qualified(identifier)
        assert whole is not None
        dimensions = whole.dimensions
        if not dimensions or "~" in whole.id:
            return whole
        asked = requested_values(values, dimensions.values())
        found = self.at(whole, {**asked, **own})[0]
        others = {name for name in own.keys() & asked.keys() if asked[name].lower() not in NO_VALUE}
        if others and _keys(found) != _keys(self.at(whole, {**own, **asked})[0]):
            raise InvalidDimensionError("the name of the dataset has another value", min(others))
        if found.layers == whole.layers:
            return whole
        layers = [item.layer for item in found.layers]
        at = next((one.key.removeprefix(one.id) for one in layers if one.key != one.id), "")
        return replace(found, id=whole.id.partition(";")[0] + at)

    def only(self) -> Dataset | None:
        """Return the dataset if there is exactly one."""
        return next(iter(self._found.values())) if len(self._found) == 1 else None

    def _add_layer(self, layer: Layer) -> None:
        raster = layer.pyramid.raster
        if raster is None or layer.pyramid.format.sample != "float32" or raster.channels != 1:
            self._refused[layer.id] = (
                f"its format is {layer.pyramid.format.name}; heights are FLOAT32 with one channel"
            )
            return
        try:
            vertical = vertical_of(layer)
        except ValueError as error:
            remedy = "correct the code of the vertical CRS"
            self._fault(f"layer {layer.id}", f"$.{KEY}.crs", str(error), remedy)
            return
        self._single[layer.id] = HeightLayer(layer, self._site), vertical

    def _stack(
        self, entry: Mapping[str, Any], path: str, known: Mapping[str, Dataset]
    ) -> Dataset | None:
        identifier, names = entry["id"], entry["layers"]
        if identifier in known:
            reason = f"duplicate dataset {identifier!r}"
            self._fault("services.json", f"{path}.id", reason, _RENAME)
        if identifier in self._site.catalogue.layers and identifier not in names:
            reason = f"{identifier!r} is a layer that is not in the dataset"
            self._fault("services.json", f"{path}.id", reason, _RENAME)
        for number, name in enumerate(names):
            at = f"{path}.layers[{number}]"
            if name in self._refused:
                reason = f"the layer {name!r} cannot be used: {self._refused[name]}"
                self._fault("services.json", at, reason, _REMOVE)
            elif name not in self._single and not self._is_elsewhere(name):
                reason = f"the service publishes no layer {name!r}"
                self._fault("services.json", at, reason, _REMOVE)
        usable = [name for name in names if name in self._single]
        # A layer with an error is reported already, and must not stop the others.
        return self._dataset(identifier, {**entry, "layers": usable}) if usable else None

    def _is_elsewhere(self, name: str) -> bool:
        """Return whether a layer has an error, or is one that a view does not show."""
        main = (self._site.main or self._site).catalogue
        is_hidden = self._site.main is not None and name in main.layers
        return is_hidden or name in main.missing_layers

    def _fault(self, file: str, path: str, reason: str, remedy: str) -> None:
        self._faults.append(Fault(Severity.ERROR, file, path, reason, remedy))

    def _dataset(self, identifier: str, entry: Mapping[str, Any]) -> Dataset:
        members = [self._single[name] for name in entry["layers"]]
        layers = [height.layer for height, _ in members]
        codes = [code for layer in layers for code in self._offer.of(layer).own]
        codes += [*_EVERYWHERE, *self._offer.shared]
        sources = {
            (layer.attribution.title, layer.attribution.url): None
            for layer in layers
            if layer.attribution is not None
        }
        return Dataset(
            id=identifier,
            title=entry.get("title") or layers[0].title,
            description=layers[0].abstract,
            layers=tuple(height for height, _ in members),
            verticals=tuple(vertical for _, vertical in members),
            described=members[0][1].document(),
            crs=tuple(dict.fromkeys(codes)),
            interpolation=entry.get("interpolation", "bilinear"),
            unit=entry.get("unit", members[0][1].unit),
            valid_range=_range(entry["valid_range"]) if "valid_range" in entry else self._range,
            nodata_height=float(entry.get("nodata_height", 0.0)),
            keywords=tuple(dict.fromkeys(word for layer in layers for word in layer.keywords)),
            attributions=tuple(sources),
        )


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = values
    return float(low), float(high)


def middle(dataset: Dataset) -> tuple[float, float]:
    """Return longitude and latitude of the middle of the first layer's finest level."""
    layer = dataset.layers[0]
    finest = layer.layer.pyramid.finest
    # Coarser levels may cover more, but with holes.
    box = layer.crs.transform_bbox(finest.matrix.bbox_of(finest.limits), WGS84)
    return (box.xmin + box.xmax) / 2.0, (box.ymin + box.ymax) / 2.0


def _keys(dataset: Dataset) -> list[str]:
    return [item.layer.key for item in dataset.layers]
