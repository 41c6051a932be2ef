"""Everything that one configuration publishes: an immutable snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote

from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import TileReader
from mastaba.errors import InvalidDimensionError, NoSuchValueError, UnknownNameError
from mastaba.model.digest import digest_of
from mastaba.model.layer import Layer
from mastaba.model.settings import MapLimits, ServiceSettings, Settings, VirtualSettings
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileMatrixSet
from mastaba.storage_pool import StoragePool
from mastaba.variants import NO_VALUE, NOTHING, Resolved, VariantTable
from mastaba_server.errors import MovedError
from mastaba_server.threads.recent import Recent
from mastaba_server.web.text import printable

_VIEWED = 64


class LoadedLayer(NamedTuple):
    """A layer, the reader of each of its levels by tile matrix identifier, and its variants."""

    layer: Layer
    readers: Mapping[str, TileReader]
    variants: VariantTable | None = None


ShowVariant = Callable[[str, Layer], "tuple[Layer, Mapping[str, TileReader]] | None"]
"""Returns a variant of the layer with a name, and its readers, as a view shows them; or None."""


@dataclass(frozen=True)
class Catalogue:
    """What is published, complete and validated; never changed once built.

    Attributes:
        settings: of all services.
        services: settings of each enabled service by name.
        layers: by identifier, in byte order of identifiers.
        readers: for each layer, the reader of each level by tile matrix identifier.
        tile_matrix_sets: those loaded so far, by identifier.
        styles: those loaded so far, by file id.
        storages: open containers.
        indices: cache of slab indices.
        decoded_tiles_size: bytes of decoded tiles that all processes may cache together for maps.
        missing_layers: configured, but left out because of an error.
        outdated_layers: published in their previous version, because the new one has an error.
        map_limits: limits for all maps of a process together.
        virtual: virtual services by name.
        mark: part of the addresses of services that is no part of what is published.
        virtual_from: makes another virtual service from its section (`ServicesConfig`).
        reports: what was found in each container, lines by path; for operators.
        variants: of the layers that have dimensions, by identifier.
        opened: those that this process keeps open.
        at_token: of a service that knows versions: returns the layer that the part of a name behind
            ``~`` means, from layer, values in the name, token, and values asked beside it.
        shown: for a view: the catalogue that it shows, and how it shows variants.
    """

    settings: Settings
    services: Mapping[str, ServiceSettings]
    layers: Mapping[str, Layer]
    readers: Mapping[str, Mapping[str, TileReader]]
    tile_matrix_sets: Mapping[str, TileMatrixSet]
    styles: Mapping[str, Style]
    storages: StoragePool
    indices: IndexCache
    decoded_tiles_size: int = 64 * 1024**2
    missing_layers: frozenset[str] = frozenset()
    outdated_layers: frozenset[str] = frozenset()
    map_limits: MapLimits = field(default_factory=MapLimits)
    virtual: Mapping[str, VirtualSettings] = field(default_factory=dict)
    mark: str = ""
    virtual_from: Callable[..., VirtualSettings] = VirtualSettings
    reports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variants: Mapping[str, VariantTable] = field(default_factory=dict)
    opened: Recent[Layer] = field(default_factory=lambda: Recent(512))
    at_token: list[Callable[..., Layer]] = field(default_factory=list)
    shown: tuple[Catalogue, ShowVariant] | None = field(default=None, repr=False)

    @cached_property
    def generation(self) -> str:
        """12 hexadecimal digits that change with everything that is published.

        Equal on all nodes that read equal files.
        """
        services = {
            name: replace(
                one,
                own=_shown(one.own),
                endpoint_uri=one.endpoint_uri.removesuffix(self.mark),
            )
            for name, one in self.services.items()
        }
        layers = {name: layer.generation for name, layer in self.layers.items()}
        return digest_of(self.settings, services, layers)

    def readers_of(self, layer: Layer) -> Mapping[str, TileReader]:
        """Return the readers of the levels of a layer or variant of this catalogue."""
        return self.readers[layer.id] if layer.readers is None else layer.readers

    def loaded(self, name: str) -> LoadedLayer:
        """Return a layer with its readers and variants."""
        return LoadedLayer(self.layers[name], self.readers[name], self.variants.get(name))

    def values_of(self, layer: Layer, limit: int = 500) -> Sequence[Any]:
        """Return the values of the dimensions of a layer; see `VariantTable.values`."""
        table = self.variants.get(layer.id)
        return () if table is None else table.values(limit)

    def resolve(self, name: str, values: Mapping[str, str] = NOTHING, most: int = 1) -> Resolved:
        """Return the layers that a name and values in a request mean (time.md section 1.4).

        Args:
            name: identifier, qualified name ``ID;dimension=value~token``, or a further name of a
                variant.
            values: texts by names of dimensions; others are ignored. What the name has a value of
                must mean the same here.
            most: number of layers. A list of more values is an error; of a range, the newest count.

        Raises:
            UnknownNameError: there is no such layer.
            MovedError: the name has an instant for a token, and means another name.
            MissingDimensionError, InvalidDimensionError, NoSuchValueError: the values are refused.
            OverloadedError: a variant cannot be opened at the moment.
        """
        layer, own, token = self.layers.get(name), NOTHING, ""
        asked = values
        if layer is None:
            layer, own, token = self._named(name)
            self._require_same(layer, own, asked)
            values = {**values, **own}
        if token:
            whole = self if self.shown is None else self.shown[0]
            of_whole = whole.layers[layer.id]
            try:
                versions = [find(of_whole, own, token, asked) for find in self.at_token]
            except MovedError as error:
                # Other layers of the request may have the same token.
                after = name.removesuffix(error.before) + error.after
                raise MovedError(name, after) from None
            found_version = self.as_shown(versions[0]) if versions else None
            if found_version is None:
                raise UnknownNameError(f"there is no layer {printable(name)}", "layer")
            return Resolved((found_version,))
        table = self.variants.get(layer.id)
        if table is None:
            return Resolved((layer,))
        found = table.resolve(values, most)
        layers = tuple(filter(None, map(self.as_shown, found.layers)))
        if not layers:
            raise NoSuchValueError("the layer has no such value", layer.dimensions[0].name)
        return found._replace(layers=layers)

    def previous(self, layer: Layer) -> Iterator[Layer]:
        """Yield the older variants whose tiles answer for those that a layer or variant lacks."""
        table = self.variants.get(layer.id)
        return filter(None, map(self.as_shown, () if table is None else table.previous(layer)))

    def _named(self, name: str) -> tuple[Layer, Mapping[str, str], str]:
        """Return the layer, the values and the token in a name that is no identifier."""
        rest, mark, token = name.partition("~")
        if mark and not token:
            raise UnknownNameError(f"there is no layer {printable(name)}", "layer")
        identifier, *items = rest.split(";", 8)
        layer = self.layers.get(identifier)
        pairs = [item.partition("=") for item in items]
        values = {key if sign else "": unquote(value) for key, sign, value in pairs}
        if layer is not None and values.keys() <= {one.name for one in layer.dimensions}:
            return layer, values, token
        for key, table in self.variants.items():
            found = table.named(rest)
            if found is not None:
                return self.layers[key], found, token
        raise UnknownNameError(f"there is no layer {printable(name)}", "layer")

    def _require_same(self, layer: Layer, own: Mapping[str, str], asked: Mapping[str, str]) -> None:
        """Check that values in the name of a layer do not contradict those beside it."""
        table = self.variants.get(layer.id)
        others = {name: asked[name] for name in own.keys() & asked.keys()}
        others = {name: text for name, text in others.items() if text.lower() not in NO_VALUE}
        if table is None or all(own[name] == text for name, text in others.items()):
            return
        both = (table.resolve(values, 1).layer.key for values in (own, {**own, **others}))
        if len(set(both)) > 1:
            raise InvalidDimensionError("the name of the layer has another value", min(others))

    def as_shown(self, layer: Layer) -> Layer | None:
        """Return a layer or variant of the site as a view shows it; None if nothing is shown."""
        name = layer.id
        if layer.readers is None:
            return self.layers[name]
        if self.shown is None:
            return layer
        whole, show = self.shown
        found = whole.as_shown(layer)
        is_same = self.layers[name] is whole.layers[name]
        if found is None or (is_same and self.readers[name] is whole.readers[name]):
            return found
        if show is _unchanged:
            return None
        known = self._viewed.get(layer.key)
        if known is None or known[0] is not found:
            part = show(name, found)
            own = None if part is None else replace(part[0], readers=part[1])
            known = self._viewed.add(layer.key, (found, own))
        return known[1]

    @cached_property
    def _viewed(self) -> Recent[tuple[Layer, Layer | None]]:
        return Recent(_VIEWED)

    def filtered(
        self,
        layers: Mapping[str, Layer],
        readers: Mapping[str, Mapping[str, TileReader]],
        settings: Settings,
        services: Mapping[str, ServiceSettings],
        show: ShowVariant | None = None,
    ) -> Catalogue:
        """Return a view: a catalogue in which only some of this one exists.

        Args:
            layers: those that exist in it, perhaps changed, in any order.
            readers: of each of them, by tile matrix identifier.
            settings: of all its services.
            services: those that exist in it, by name.
            show: how it shows the variants of changed layers. Without it, they do not exist. A view
                that shows fewer values must change the layer.
        """
        loaded = {}
        for name, layer in layers.items():
            table = self.variants.get(name)
            is_same = layer is self.layers[name] and readers[name] is self.readers[name]
            if table is not None and show is None and not is_same:
                table, layer = None, replace(layer, dimensions=())
            loaded[name] = LoadedLayer(layer, readers[name], table)
        shown = in_order(loaded)
        sets = {
            one.id
            for layer in layers.values()
            for one in (layer.pyramid.tile_matrix_set, *layer.extra_tile_matrix_sets)
        }
        styles = {style.id for layer in layers.values() for style in layer.styles}
        return replace(
            self,
            settings=settings,
            services=MappingProxyType(dict(services)),
            tile_matrix_sets={
                key: one for key, one in self.tile_matrix_sets.items() if key in sets
            },
            styles={key: one for key, one in self.styles.items() if key in styles},
            missing_layers=frozenset(),
            outdated_layers=frozenset(),
            virtual={},
            shown=(self, show or _unchanged),
            **shown,
        )


def _shown(own: Mapping[str, Any]) -> dict[str, Any]:
    # A generation is public, and nodes may have different secrets.
    return {key: value for key, value in own.items() if key != "secret"}


def _unchanged(_name: str, layer: Layer) -> tuple[Layer, Mapping[str, TileReader]]:
    assert layer.readers is not None, "only variants are shown"
    return layer, layer.readers


def in_order(loaded: Mapping[str, LoadedLayer]) -> dict[str, Any]:
    """Return the attributes ``layers``, ``readers`` and ``variants`` of a catalogue."""
    ordered = sorted(loaded.items(), key=lambda item: item[0].encode())
    return {
        "layers": MappingProxyType({key: one.layer for key, one in ordered}),
        "readers": MappingProxyType({key: one.readers for key, one in ordered}),
        "variants": {key: one.variants for key, one in ordered if one.variants is not None},
    }
