"""The histories that the site or a view of it shows, and what clients see of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mastaba.api.access import LockedReader
from mastaba.api.dimensions import NO_VALUE
from mastaba.api.web import printable
from mastaba.errors import UnknownNameError
from mastaba_history.layers import Report, layer_histories, shown_box
from mastaba_history.memento import FOR_A_DAY, version_headers
from mastaba_history.tokens import drawing_digest, version_of
from mastaba_history.values import ValueHistories

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer
    from mastaba.api.containers import TileReader
    from mastaba.api.services import ServiceSettings, Site
    from mastaba_history.layers import LayerHistory
    from mastaba_history.records import Publication

NAME: Final = "history"
"""Name of the service."""


class ShownHistories:
    """The histories of the published layers of a site, or of a view.

    Args:
        layers: that the service publishes.
        site: the site or the view.
        settings: of the service.
        main: that of the whole site, for a view.

    Attributes:
        layers: by identifier.
        histories: by identifier of the layer.
        values: histories of the values of layers.
    """

    def __init__(
        self,
        layers: Iterable[Layer],
        site: Site,
        settings: ServiceSettings,
        main: ShownHistories | None,
    ) -> None:
        self.layers = {layer.id: layer for layer in layers}
        self._site = site
        self._settings = settings
        self.histories: Mapping[str, LayerHistory]
        if main is None:
            self.values = ValueHistories(site.catalogue)
            self.histories = layer_histories(site.catalogue.layers, site.catalogue.storages)
        else:
            self.values, self.histories = main.values, self._of_view(main)

    def _of_view(self, main: ShownHistories) -> Mapping[str, LayerHistory]:
        """Return the histories of the site, but for layers whose default is another value."""
        whole = main._site.catalogue.layers
        others = {
            name: layer
            for name, layer in self.layers.items()
            if layer.pyramid.parts != whole[name].pyramid.parts
        }
        if not others:
            return main.histories
        same = {name: one for name, one in main.histories.items() if name not in others}
        return same | layer_histories(others, self._site.catalogue.storages)

    def check(self, report: Report) -> None:
        """Read the histories of layers and values again, and report those that cannot be used."""
        catalogue = self._site.catalogue
        layer_histories(catalogue.layers, catalogue.storages, report)
        self.values.check(report)

    def with_history(self) -> list[Layer]:
        """Return the layers that have a history."""
        return [layer for layer in self.layers.values() if layer.id in self.histories]

    def named(self, name: str) -> Layer:
        """Return a layer, or one of its values.

        Raises:
            UnknownNameError, InvalidDimensionError: it is unknown.
        """
        layer = self.layers.get(name)
        if layer is None and "~" not in name:
            layer = self._site.catalogue.resolve(name).layer
        if layer is None or layer.id not in self.layers:
            raise UnknownNameError(f"there is no layer {printable(name)}", "layer")
        return layer

    def find(self, layer: Layer) -> LayerHistory | None:
        """Return the history of a layer or value, or None."""
        return self.histories.get(layer.id) if layer.key == layer.id else self.values.of(layer)

    def history(self, layer: Layer) -> LayerHistory:
        """Return the history of a layer or value. Raises `UnknownNameError` without one."""
        history = self.find(layer)
        if history is None:
            raise UnknownNameError(f"the layer {layer.key} has no history", "layer")
        return history

    def open_version(
        self, layer: Layer, own: Mapping[str, str], token: str, asked: Mapping[str, str]
    ) -> Layer:
        """Return the version of a layer that a token in its name means.

        Args:
            own: values of dimensions in the name.
            asked: values beside it in the request, which mean the same.

        Raises:
            MissingDimensionError, InvalidDimensionError: there are no such values.
            UnknownNameError: there is none, or the layer has no history here.
            GoneError, MovedError: as `mastaba_history.tokens.version_of`.
            StorageError: it cannot be read.
        """
        history = self.histories.get(layer.id) if layer.id in self.layers else None
        shown = layer
        names = {one.name for one in layer.dimensions}
        others = {
            name: text
            for name, text in asked.items()
            if name in names and text.lower() not in NO_VALUE
        }
        catalogue = self._site.catalogue
        if (own or others) and layer.id in self.layers:
            shown = catalogue.resolve(layer.id, {**others, **own}).layer
            history = self.values.of(shown)
        if history is None:
            raise UnknownNameError(f"the layer {layer.id} has no versions", "layer")
        version = version_of(shown, history, token)
        key = version.key, version.generation, shown.generation
        opened = catalogue.opened
        return opened.get(key) or opened.add(key, version.open(shown, layer.open_variant))

    def address_name(self, layer: Layer) -> str:
        """Return the name of a layer in addresses; see `mastaba_ows.versions.address_name`."""
        history = self.histories.get(layer.id)
        is_wanted = layer.own.get(
            "versioned_addresses", self._settings.own.get("versioned_addresses", False)
        )
        # Layers with values have one token for each; a view may show other pixels.
        is_usual = layer is self.layers.get(layer.id) and not layer.dimensions
        if history is None or not (is_wanted and is_usual):
            return layer.key
        return f"{layer.id}~{history.token}-{drawing_digest(layer)}"

    def document_headers(self, layer: Layer, catalogue: Catalogue) -> list[tuple[str, str]]:
        """Return further headers of a document of a version; see `mastaba_ows.versions`.

        Args:
            catalogue: that shows the layer, perhaps a view.
        """
        name, _, token = layer.key.partition("~")
        token = token.partition("-")[0]
        shown = self.named(name)
        history = self.find(shown)
        service = catalogue.services.get(NAME)
        if history is None or service is None or NAME in layer.hidden_from:
            return [FOR_A_DAY]
        first = next((one for one in history.published if one.token == token), None)
        return version_headers(service.endpoint_uri, shown, first)

    def readers(self, layer: Layer) -> list[TileReader]:
        """Return the readers of the levels of a layer."""
        return list(self._site.catalogue.readers_of(layer).values())

    def is_masked(self, layer: Layer) -> bool:
        """Return whether the client sees an area of a layer."""
        return any(one.is_masked for one in self.readers(layer))

    def is_whole(self, layer: Layer) -> bool:
        """Return whether the client sees all levels of a layer or value, and their data."""
        if self._site.main is None:
            return True
        if any(one.is_masked or isinstance(one, LockedReader) for one in self.readers(layer)):
            return False
        catalogue = self._site.main.catalogue
        whole = catalogue.layers.get(layer.key) or catalogue.resolve(layer.key).layer
        return layer.pyramid.levels.keys() == whole.pyramid.levels.keys()

    def told(self, layer: Layer, one: Publication) -> Publication:
        """Return a publication, without a message about what is outside of the area of a client."""
        is_outside = bool(one.bbox) and shown_box(layer, one.bbox) is None
        return replace(one, message="") if is_outside and self.is_masked(layer) else one
