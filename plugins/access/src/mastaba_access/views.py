"""Views: what a class sees of a catalogue.

A service sees a catalogue in which what it may not show does not exist. Rules may differ by
service, so each service has a view of its own; most of them are equal, and then the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce, update_wrapper
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.access import LockedReader
from mastaba.api.catalogue import Catalogue, FeatureInfo, Layer
from mastaba.api.services import Service, Settings, Site
from mastaba_access.decisions import AccessClass
from mastaba_access.hiding import MOST_VERSIONS, version_within, without_statistics
from mastaba_access.levels import of_levels
from mastaba_access.rules.limits import (
    ALWAYS,
    EVERYTHING,
    NO_LIMIT,
    Limit,
    combined,
    media_type,
)
from mastaba_access.rules.ruleset import Effect, Rule
from mastaba_access.rules.what import PLAIN_ABILITIES, Layers
from mastaba_access.shown import (
    ASIDE,
    OF_HEIGHTS,
    STYLE,
    Shown,
    kinds_of,
    limit_of_all,
    shown_layers,
)
from mastaba_server.threads.recent import Recent

if TYPE_CHECKING:
    from mastaba.api.containers import TileReader

    Readers = Mapping[str, TileReader]

_MOST_PARTS: Final = 16_384
"""Layers that are kept for a catalogue. Signed addresses may have any number of boxes."""

_OF_VIEW: Final = ("hidden_from", "withheld", "feature_info")
"""Attributes of a layer that a view has changed before it is limited to some times."""

# Sizes of maps: the field of a limit, and of MapSettings.
_OF_MAPS: Final = (
    ("pixels", "max_pixels"),
    ("width", "max_width"),
    ("height", "max_height"),
    ("layers", "max_layers"),
)


OpenedLayer = tuple[Layer, "Readers"]
OpenedLayers = dict[Any, OpenedLayer | None]
"""Layers and readers of all views of a catalogue: equal ones are the same objects."""


class ViewMaker:
    """Makes the views of one class of one catalogue, for each service.

    Args:
        found: the class.
        layers: those of the catalogue of the site.
        site: with the public catalogue, or with that of a virtual service.
        virtual: name of the virtual service; empty for the main services.
        parts: of all views of this catalogue.
    """

    def __init__(
        self, found: AccessClass, layers: Layers, site: Site, virtual: str, parts: OpenedLayers
    ) -> None:
        self._class = found
        self._layers = layers
        self._catalogue = site.catalogue
        self._parts = parts
        self._made: dict[Any, Catalogue] = {}
        self._numbers: dict[Any, int] = {}
        self._known_without: dict[Any, tuple[frozenset[str], frozenset[tuple[str, str]]]] = {}
        self._limited_tables: dict[Any, tuple[Any, Any, Any] | None] = {}
        classes = {name: site.plugins.services[name] for name in site.catalogue.services}
        self._shown = {
            name: self._possible(
                shown_layers(found, layers, name, virtual, service.abilities), service
            )
            for name, service in classes.items()
            if any(word not in PLAIN_ABILITIES for word in service.abilities)
        }
        self._of_heights = {
            name for name, service in classes.items() if OF_HEIGHTS.intersection(service.abilities)
        }
        # The first service that shows a layer also says how those do that have no abilities.
        self._anywhere: dict[str, Shown] = {}
        for shown in self._shown.values():
            others = {name: shown[name] for name in shown.keys() - self._anywhere.keys()}
            self._anywhere = self._anywhere | others if self._anywhere else shown
        kinds = [one.what for one in found.rules if one.what.services or one.what.styles]
        for name, service in classes.items():
            if not service.is_viewed or service.abilities:
                continue
            if any(one.has_service(name, virtual) for one in kinds):
                own = self._as_any(service, virtual)
                if own is not None:
                    self._shown[name] = own

    def _as_any(self, kind: type[Service], virtual: str) -> dict[str, Shown] | None:
        """Return how a service without abilities shows layers; None if as any service does.

        Rules that name it, or styles, may take something from what any service shows.
        """
        hidden = locked = 0
        limits: list[tuple[int, Limit]] = []
        for rule, bits in self._applying(kind.name, virtual):
            # The others decide whether any service shows a layer.
            if rule.what.services is None:
                continue
            if rule.effect is Effect.HIDE:
                hidden |= bits
            elif rule.effect is Effect.LOCK:
                locked |= bits
            elif rule.limit != NO_LIMIT:
                limits.append((bits, rule.limit))
        styles = self._hidden_styles(kind, virtual)
        if not (hidden or locked or limits or styles):
            return None
        found = {}
        for name, how in self._anywhere.items():
            bit, layer = self._layers.bit(name), self._catalogue.layers[name]
            limit = combined([how.limit, *(one for bits, one in limits if bits & bit)])
            words = {f"style:{one}" for one, bits in styles.items() if bits & bit}
            own = replace(
                how,
                withheld=(how.withheld & {"info"}).union(words if STYLE in layer.own else ()),
                is_locked=how.is_locked or bool(locked & bit),
                limit=limit,
            )
            is_left = not (hidden & bit or limit.is_empty)
            if is_left and self._limited(layer, own) is not None:
                found[name] = own
        return found

    def _applying(
        self, service: str, virtual: str, style: str | None = None
    ) -> list[tuple[Rule, int]]:
        """Return the rules that decide or limit something in a service without abilities."""
        found: list[tuple[Rule, int]] = []

        def note(rule: Rule, bits: int) -> None:
            if bits:
                found.append((rule, bits))

        self._class.decide(self._layers, service, virtual, "", style, note=note)
        return found

    def _hidden_styles(self, kind: type[Service], virtual: str) -> dict[str, int]:
        """Return the styles that rules hide in a service with style sheets, with layers as bits."""
        found: dict[str, int] = {}
        if hasattr(kind, "stylesheets"):
            for style in {one for rule in self._class.rules for one in rule.what.styles or ()}:
                for rule, bits in self._applying(kind.name, virtual, style):
                    if rule.what.styles is not None:
                        found[style] = found.get(style, 0) | bits
        return found

    def shown(self, service: str) -> Mapping[str, Shown]:
        """Return how a service shows the layers that exist for it."""
        return self._shown.get(service, self._anywhere)

    def view(self, service: str) -> Catalogue:
        """Return what a service sees; equal views are the same object.

        Args:
            service: name; one without abilities, or an empty one, sees what any service shows.
        """
        base, own = self._catalogue, self.shown(service)
        kinds = kinds_of(own)
        settings, limits = self._settings(kinds), self._query_limits(kinds, service)
        # Layers that other services show exist too: pages link to them.
        shown = {**self._anywhere, **own}
        numbers = {
            id(how): self._numbers.setdefault(how.part, len(self._numbers))
            for how in kinds_of(shown)
        }
        key = (
            tuple(map(numbers.__getitem__, map(id, shown.values()))),
            settings,
            service if limits else "",
        )
        if key not in self._made:
            layers: dict[str, Layer] = {}
            readers: dict[str, Readers] = {}
            # Equal parts of different views are the same objects.
            whole = {id(how) for how in kinds_of(shown) if how.is_whole and not how.is_locked}
            is_plain = self._hides_nothing()
            for name, how in shown.items():
                if is_plain and id(how) in whole:
                    layers[name], readers[name] = base.layers[name], base.readers[name]
                else:
                    layers[name], readers[name] = self._part(name, how)
            services = dict(base.services)
            if limits:
                changed = {**services[service].own, "limits": limits}
                services[service] = replace(services[service], own=MappingProxyType(changed))
            is_base = layers.keys() == base.layers.keys() and all(
                layers[name] is base.layers[name] and readers[name] is base.readers[name]
                for name in layers
            )
            self._made[key] = (
                base
                if is_base and settings is base.settings and not limits
                else self._with_tables(
                    base.filtered(layers, readers, settings, services, self._variants(shown)), shown
                )
            )
        return self._made[key]

    def _with_tables(self, found: Catalogue, shown: Mapping[str, Shown]) -> Catalogue:
        """Return a view in which the variants outside the times of rules do not exist."""
        tables = dict(found.variants)
        for name, how in shown.items():
            known = self._within(name, how) if name in tables else None
            if known is not None:
                tables[name] = known[2]
        limited = {
            name: table for name, table in tables.items() if table is not found.variants[name]
        }
        if not limited:
            return found
        kept: Recent[tuple[Layer, Layer]] = Recent(MOST_VERSIONS)
        # Documents also ask for attributes of what finds versions.
        find_within: list[Callable[..., Layer]] = [
            update_wrapper(partial(version_within, limited, kept, find), find)
            for find in found.at_token
        ]
        return replace(found, variants=tables, at_token=find_within)

    def _within(self, name: str, how: Shown) -> tuple[Any, Any, Any] | None:
        """Return a layer with its readers and variants within the times of its limits.

        None if nothing is left of it.
        """
        key = name, how.limit.time
        if key not in self._limited_tables:
            # A table that cannot be limited is not shown.
            within = getattr(self._catalogue.variants[name], "within", None)
            self._limited_tables[key] = None if within is None else within(*how.limit.time)
        return self._limited_tables[key]

    def _variants(self, shown: Mapping[str, Shown]) -> Callable[[str, Layer], OpenedLayer | None]:
        """Return what shows the variants of layers as far as their layer."""

        def show(name: str, layer: Layer) -> OpenedLayer | None:
            how = shown[name]
            return self._made_part(layer, how, *self._without(name))

        return show

    # ------------------------------------------------------------ layers

    def _possible(self, shown: dict[str, Shown], service: type[Service]) -> dict[str, Shown]:
        """Return the layers of which something is left, as they can be shown."""
        found = {}
        of_tiles = {"tiles"}.intersection(service.abilities)
        data = set(service.abilities) - ASIDE
        # What takes nothing from a layer leaves it as all others.
        kinds = kinds_of(shown)
        whole = {id(how): bool(data - how.withheld) for how in kinds if how.is_whole}
        if len(whole) == len(kinds) and all(whole.values()):
            return shown
        for name, how in shown.items():
            is_left = whole.get(id(how))
            if is_left is None:
                layer = self._catalogue.layers[name]
                if how.hidden_styles and STYLE in layer.own:
                    words = {f"style:{one}" for one in how.hidden_styles}
                    how = replace(how, withheld=how.withheld | words)
                formats, stored = how.limit.formats, layer.pyramid.format.media_type
                if formats is not None and media_type(stored) not in formats:
                    how = replace(how, withheld=how.withheld | of_tiles)
                is_left = bool(data - how.withheld) and self._limited(layer, how) is not None
            if is_left:
                found[name] = how
        if not self._map_formats(kinds_of(found)):
            return {name: how for name, how in found.items() if how.limit.formats is None}
        return found

    def limit_of(self, service: str) -> Limit:
        """Return the limits of all layers of a service together, which hold for its maps."""
        return limit_of_all(kinds_of(self.shown(service)))

    def _map_formats(self, shown: Iterable[Shown]) -> tuple[str, ...]:
        formats = limit_of_all(shown).formats
        offered = self._catalogue.settings.map.formats
        return tuple(one for one in offered if formats is None or media_type(one) in formats)

    def _part(self, name: str, how: Shown) -> OpenedLayer:
        base = self._catalogue.layers[name]
        hidden, withheld = self._without(name)
        areas = tuple(sorted(self._class.areas[one].digest for one in how.limit.areas))
        key = name, hidden, withheld, areas, how.part
        part = self._parts.get(key)
        if part is None:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            part = self._parts[key] = self._made_part(base, how, hidden, withheld)
        assert part is not None, "it was possible before"
        return part

    def _hides_nothing(self) -> bool:
        """Return whether all services show all layers that exist, with all abilities."""
        most = len(self._anywhere)
        return all(
            len(shown) == most and not any(how.withheld for how in kinds_of(shown))
            for shown in self._shown.values()
        )

    def _without(self, name: str) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
        """Return the services that do not show a layer, and what the others do not offer."""
        hows = tuple(shown.get(name) for shown in self._shown.values())
        key = tuple(map(id, hows))
        known = self._known_without.get(key)
        if known is None:
            found = dict(zip(self._shown, hows, strict=True))
            hidden = frozenset(one for one, how in found.items() if how is None)
            withheld = frozenset(
                (one, word) for one, how in found.items() if how for word in how.withheld
            )
            known = self._known_without[key] = hidden, withheld
        return known

    def _made_part(
        self,
        base: Layer,
        how: Shown,
        hidden: frozenset[str],
        withheld: frozenset[tuple[str, str]],
    ) -> OpenedLayer | None:
        changes: dict[str, Any] = {}
        if not hidden <= base.hidden_from:
            changes["hidden_from"] = base.hidden_from | hidden
        if not withheld <= base.withheld:
            changes["withheld"] = base.withheld | withheld
        if base.feature_info is not None and "info" in how.withheld:
            changes["feature_info"] = None
        elif base.feature_info is not None and how.is_locked:
            # An external WMS would answer; the reader refuses.
            changes["feature_info"] = FeatureInfo()
        limited = self._limited(replace(base, **changes) if changes else base, how)
        if limited is not None and how.is_locked:
            layer, readers = limited
            locked = {key: LockedReader(one) for key, one in readers.items()}
            return without_statistics(layer), MappingProxyType(locked)
        return limited

    def _limited(self, layer: Layer, how: Shown) -> OpenedLayer | None:
        """Return a layer and its readers within limits, or None if nothing is left."""
        limit, readers = how.limit, self._catalogue.readers_of(layer)
        if limit.time != ALWAYS and layer.readers is None and layer.id in self._catalogue.variants:
            within = self._within(layer.id, how)
            if within is None:
                return None
            if within[2] is not self._catalogue.variants[layer.id]:
                same = {name: getattr(layer, name) for name in _OF_VIEW}
                layer, readers = replace(within[0], **same), within[1]
        if limit == NO_LIMIT and not how.hidden_styles:
            return layer, readers
        styles = tuple(one for one in layer.styles if one.identifier not in how.hidden_styles)
        if styles != layer.styles:
            if not styles:
                return None
            layer = replace(layer, styles=styles)
        found = of_levels(layer, readers, limit)
        if found is None:
            return None
        is_same = found[0] is layer
        layer, readers = found
        is_limited = (limit.resolution, limit.scale) != (EVERYTHING, EVERYTHING)
        has_others = layer.id in self._catalogue.variants or bool(self._catalogue.at_token)
        if is_same and is_limited and has_others:
            # A layer that stays the same shows its values and versions with all of their levels.
            layer = replace(layer)
        if not (limit.areas or limit.boxes):
            return layer, readers
        from mastaba_render.api.areas import Area, Cut, masked_readers, narrowed

        areas = [self._class.areas[one] for one in sorted(limit.areas)]
        areas += [Area.from_geojson(_box(box)) for box in sorted(limit.boxes)]
        area, cut = reduce(and_, areas), Cut(limit.cut or "mask")
        narrow = narrowed(without_statistics(layer), area, cut)
        return None if narrow is None else (narrow, masked_readers(narrow, readers, area, cut))

    # ------------------------------------------------------------ settings

    def _settings(self, shown: Sequence[Shown]) -> Settings:
        """Return the settings with the smallest limits of maps of any layer."""
        base = self._catalogue.settings
        limit = limit_of_all(shown)
        changes: dict[str, Any] = {}
        for ours, theirs in _OF_MAPS:
            value, most = getattr(limit, ours), getattr(base.map, theirs)
            if value is not None and value < most:
                changes[theirs] = value
        settings, formats = base, limit.formats
        if formats is not None:
            changes["formats"] = self._map_formats(shown)
            tiles = tuple(one for one in base.tile_formats if media_type(one) in formats)
            settings = replace(settings, tile_formats=tiles)
        return replace(settings, map=replace(base.map, **changes)) if changes else settings

    def _query_limits(self, shown: Iterable[Shown], service: str) -> dict[str, Any]:
        """Return the limits of queries of heights of a service if they are smaller than its own.

        Limits of the same names, such as those of downloads, are about something else.
        """
        if service not in self._of_heights:
            return {}
        settings = self._catalogue.services.get(service)
        limits = dict(settings.own.get("limits", {})) if settings is not None else {}
        sizes = limit_of_all(shown).sizes
        smaller: dict[str, Any] = {
            name: sizes[name]
            for name in ("points", "tiles")
            if name in sizes and sizes[name] < limits.get(name, 0)
        }
        return {**limits, **smaller} if smaller else {}


def _box(box: Sequence[float]) -> dict[str, Any]:
    west, south, east, north = box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}
