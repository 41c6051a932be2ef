"""The configuration that a process serves, and changes to it while it is served."""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
from dataclasses import replace

from mastaba.catalogue import Catalogue, in_order
from mastaba.config.documents import DocumentReader
from mastaba.config.layers import LayerLoader
from mastaba.config.server import ServerConfig
from mastaba.config.source import Source
from mastaba.errors import ChangeRefusedError, MastabaError
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Site
from mastaba.services.change import Action, Change
from mastaba.site.application import Application
from mastaba.site.logs import log_faults
from mastaba.variants import VariantTable
from mastaba_documents.faults import Faults, UnusableError
from mastaba_server.processes.control import WorkerLink
from mastaba_server.processes.scoreboard import Obstacle
from mastaba_server.processes.turns import Turn

logger = logging.getLogger("mastaba")


class SiteUpdates:
    """Changes to what an application serves.

    In a single process, `submit` applies them. In a worker that is connected to its supervisor,
    it sends them there; the supervisor calls `carry_out`, then each worker calls `follow`. All
    three raise `ChangeRefusedError` if they change nothing.

    Attributes:
        source: gets the documents that changes have read.
    """

    def __init__(
        self,
        application: Application,
        server: ServerConfig,
        plugins: Plugins,
        source: Source | None = None,
    ) -> None:
        self._application = application
        self._server = server
        self._plugins = plugins
        self.source = source or Source()
        self._lock = threading.Lock()
        self._link: WorkerLink | None = None
        self._turn = Turn() if plugins.dimensions and hasattr(os, "memfd_create") else None
        self._reported: dict[str, str] = {}
        application.site.submit = self.submit
        self._adopt()

    def connect(self, link: WorkerLink) -> None:
        """Send changes to the supervisor from now on, and follow those that it makes."""
        self._link = link
        link.follow(lambda change: self.follow(Change.from_json(change)))
        with self._lock:
            self._adopt()

    def _watch(self, turn: Turn) -> None:
        """Load layers again whose lists of variants have changed."""
        while True:
            time.sleep(1)
            if turn.take():
                self.look()

    def look(self) -> None:
        """Load layers again whose lists of variants have changed, and report those with errors."""
        for name, table in self._application.site.catalogue.variants.items():
            try:
                if table.is_watched and table.is_outdated():
                    self._refresh(name)
                reason = self._reported.get(name, "") if table.is_faulty else ""
            except Exception as error:  # noqa: BLE001 - the next look may succeed
                reason = str(error)
                if reason != self._reported.get(name):
                    logger.error("the variants of the layer %s cannot be read: %s", name, reason)
            self._reported[name] = reason
        site = self._application.site
        is_faulty = any(table.is_faulty for table in site.catalogue.variants.values())
        site.scoreboard.report(Obstacle.VARIANTS, is_faulty)

    def _adopt(self) -> None:
        site, turn = self._application.site, self._turn
        # What was reported before a reload must be cleared, even if nothing is watched any more.
        is_needed = Obstacle.VARIANTS in site.scoreboard.obstacles
        for table in site.catalogue.variants.values():
            table.refresh = self._refresh
            is_needed |= table.is_watched
        if is_needed and turn and self._link:
            self._turn = None
            threading.Thread(target=self._watch, args=(turn,), name="watch", daemon=True).start()

    def _refresh(self, layer: str) -> VariantTable | None:
        """Read the variants of a layer again in all processes, and return them."""
        self.submit(Change(Action.REFRESH_LAYER, layer))
        return self._application.site.catalogue.variants.get(layer)

    def submit(self, change: Change) -> None:
        """Apply a change in all processes; return when all of them have it."""
        if change.action is Action.RELOAD:
            if self._link is None:
                raise ChangeRefusedError("unavailable", "only a supervised server can reload")
            self._link.reload()
        elif self._link is None:
            self.carry_out(change)
        else:
            self._link.submit(change.to_json())

    def carry_out(self, change: Change) -> Change:
        """Apply a change in this process, before all others, and save it if required.

        Returns:
            what the others must `follow`.
        """
        with self._lock:
            _check(change, self._application.site.catalogue)
            self._make(change, keep=True)
            if change.action is not Action.REFRESH_LAYER:
                return change
            table = self._application.site.catalogue.variants.get(change.layer)
            return replace(change, document=None if table is None else table.listing)

    def follow(self, change: Change) -> None:
        """Apply a change that another process has carried out."""
        with self._lock:
            self._make(change, keep=False)

    def _make(self, change: Change, *, keep: bool) -> None:
        site, faults = self._application.site, Faults()
        if change.action is Action.FORGET_INDICES:
            site.catalogue.indices.clear()
            return
        try:
            changed = site.changed(self._catalogue(change, site, faults))
            if keep and change.action is not Action.REFRESH_LAYER:
                for name, settings in site.catalogue.services.items():
                    site.plugins.services[name].keep(settings, change)
            self._application.swap(changed)
            self._adopt()
            site.close_services_later()
        except UnusableError:
            reasons = (f"{fault.file}: {fault.path}: {fault.reason}" for fault in faults.errors)
            raise ChangeRefusedError("faulty", "; ".join(reasons)) from None
        except MastabaError as error:
            raise ChangeRefusedError("failed", str(error)) from error
        if keep:
            logger.info("changed: %s %s", change.action, change.layer or change.virtual)
            log_faults(faults.all)

    def _catalogue(self, change: Change, site: Site, faults: Faults) -> Catalogue:
        """Return the catalogue with a change (admin.md section 3).

        Everything else is shared with the previous one: open storages, the index cache, the tile
        matrix sets and styles loaded so far, all other layers. Pyramids are reloaded with the
        layer that names them, so replacing a layer applies a changed descriptor. Loading of
        styles and tile matrix sets that failed before is tried again.
        """
        old, changed = site.catalogue, {change.layer}
        if change.action in (Action.ENABLE_SERVICES, Action.DISABLE_SERVICES):
            enabled = change.action is Action.ENABLE_SERVICES
            return replace(old, settings=replace(old.settings, enabled=enabled))
        if change.virtual:
            if "v" in old.layers:
                raise ChangeRefusedError("faulty", "the layer v uses their addresses")
            virtual = {key: one for key, one in old.virtual.items() if key != change.virtual}
            if change.action is not Action.DELETE_VIRTUAL:
                name = change.virtual
                reader = DocumentReader(old.storages, self._plugins, faults, Source())
                virtual[name] = old.virtual_from(name, change.document, reader, f"virtual {name}")
            return replace(old, virtual=virtual)
        layers = {key: old.loaded(key) for key in old.layers}
        layers.pop(change.layer, None)
        sets, styles = old.tile_matrix_sets, old.styles
        if change.action is not Action.DELETE_LAYER:
            source = Source()
            reader = DocumentReader(old.storages, self._plugins, faults, source)
            loader = LayerLoader(self._server, self._plugins, old, old.indices, reader, old)
            # Loading may modify the document; other processes get it as sent.
            document, listing, name = change.document, None, change.layer
            file = f"layer {name[:60]}"
            if change.action is Action.REFRESH_LAYER:
                known, listing = old.variants[name], document
                document, file = known.descriptor, known.file
            layers[name] = loader.load(name, copy.deepcopy(document), file, listing)
            sets, styles = loader.tile_matrix_sets.loaded, loader.styles.loaded
            self.source.add(source)
        return replace(
            old,
            tile_matrix_sets=sets,
            styles=styles,
            missing_layers=old.missing_layers - changed,
            outdated_layers=old.outdated_layers - changed,
            **in_order(layers),
        )


def _check(change: Change, catalogue: Catalogue) -> None:
    kind, name = ("virtual service", change.virtual) if change.virtual else ("layer", change.layer)
    exists = name in (catalogue.virtual if change.virtual else catalogue.layers)
    if change.action.startswith("create") and exists:
        raise ChangeRefusedError("exists", f"the {kind} {name!r} exists already")
    if change.action.startswith(("replace", "delete", "refresh")) and not exists:
        raise ChangeRefusedError("unknown", f"there is no {kind} {name!r}")
    if change.action is Action.REFRESH_LAYER and name not in catalogue.variants:
        raise ChangeRefusedError("faulty", f"the layer {name!r} has no dimensions")
