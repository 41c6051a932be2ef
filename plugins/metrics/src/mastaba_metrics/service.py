"""The service that Prometheus scrapes: the counters of all worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import ClassVar

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

import mastaba
from mastaba.api.services import Service, Site, WorkerStatus
from mastaba.api.web import Request, Response, message, status_of
from mastaba.errors import AccessError, UnknownPathError, public_message
from mastaba_metrics.table import (
    BOUNDS,
    BUCKETS,
    BYTES,
    SECONDS,
    STATUSES,
    STREAMS,
    TRUNCATED,
    Table,
    table_of,
)


class MetricsService(Service):
    """Reports the metrics, also while the other services are turned off."""

    name = "metrics"
    title = "Metrics"
    always_on: ClassVar[bool] = True
    abilities: ClassVar[tuple[str, ...]] = ("status",)
    is_viewed: ClassVar[bool] = False
    wants_measurements: ClassVar[bool] = True

    def respond(self, request: Request) -> Response:
        """Return all metrics, as text or in the OpenMetrics format.

        Raises:
            UnknownPathError: the path is not the root path.
            AccessError: the client may not see the state of the server.
        """
        if request.path:
            raise UnknownPathError
        if not self.shows_status(request):
            raise AccessError("metrics need a credential that may see them")
        encode, media_type = choose_encoder(request.header("Accept") or "")
        return Response(200, [("Content-Type", media_type)], encode(_Collector(self.site)))

    def error_response(self, error: Exception, request: Request) -> Response:
        return message(status_of(error), public_message(error) + "\n", "text/plain")


class _Collector:
    """All metrics of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._table = table_of(site)

    def collect(self) -> Iterator[Metric]:
        self._table.sample()
        yield from _requests(self._table)
        yield from _caches(self._table)
        yield from _storages(self._table)
        yield from _variants(self._site, self._table)
        yield from self._server()
        yield from _gauges(self._site)

    def _server(self) -> Iterator[Metric]:
        site, catalogue = self._site, self._site.catalogue
        rows = site.scoreboard.rows()
        running = sum(row.status is WorkerStatus.RUNNING for row in rows)
        workers = len(self._table.live_slots())
        yield InfoMetricFamily("mastaba", "Version.", {"version": mastaba.__version__})
        yield CounterMetricFamily(
            "mastaba_reloads",
            "Reloads since the start, including those that failed before the last success.",
            site.reload_count,
        )
        for name, description, value in (
            ("workers", "Live worker processes.", workers),
            ("threads", "Threads of all live workers.", workers * site.scoreboard.threads),
            # The request for this page is one of those in progress.
            ("threads_busy", "Requests in progress, without this one.", max(0, running - 1)),
            ("changes", "Administrative changes to the current configuration.", site.revision),
            (
                "configuration_loaded_timestamp_seconds",
                "When the current configuration was loaded.",
                site.started,
            ),
            ("layers", "Published layers.", len(catalogue.layers)),
            (
                "layers_missing",
                "Configured layers that are left out because of an error.",
                len(catalogue.missing_layers),
            ),
            (
                "layers_outdated",
                "Layers that are published as they were, because of an error.",
                len(catalogue.outdated_layers),
            ),
            (
                "services_enabled",
                "Whether the services are turned on.",
                int(catalogue.settings.enabled),
            ),
        ):
            yield GaugeMetricFamily(f"mastaba_{name}", description, value)


def _gauges(site: Site) -> Iterator[Metric]:
    for service, item in site.services.items():
        for name, values in item.gauges().items():
            family = GaugeMetricFamily(
                f"mastaba_{service}_{name}", f"Gauge of the service {service}.", labels=("kind",)
            )
            for kind, value in values.items():
                family.add_metric([kind], value)
            yield family


def _requests(table: Table) -> Iterator[Metric]:
    labels = ("service", "operation")
    requests = CounterMetricFamily(
        "mastaba_requests", "Requests answered.", labels=(*labels, "status")
    )
    durations = HistogramMetricFamily(
        "mastaba_request_duration_seconds", "Time to process a request.", labels=labels
    )
    sizes = CounterMetricFamily(
        "mastaba_response_bytes", "Bytes in response bodies.", labels=labels
    )
    streams = CounterMetricFamily(
        "mastaba_streams", "Long response bodies that have ended.", labels=labels
    )
    truncated = CounterMetricFamily(
        "mastaba_truncated", "Long response bodies not sent to their end.", labels=labels
    )
    bounds = [*map(repr, BOUNDS), "+Inf"]
    for *pair, sums, seconds in table.pairs():
        for status, count in zip(STATUSES, sums[:BUCKETS], strict=True):
            if count:
                requests.add_metric([*pair, status], count)
        counts = accumulate(sums[BUCKETS:SECONDS])
        durations.add_metric(pair, list(zip(bounds, counts, strict=True)), seconds)
        sizes.add_metric(pair, sums[BYTES])
        if sums[STREAMS]:
            streams.add_metric(pair, sums[STREAMS])
            truncated.add_metric(pair, sums[TRUNCATED])
    yield from (requests, durations, sizes, streams, truncated)


def _caches(table: Table) -> Iterator[Metric]:
    for name, description in (("index", "slab index"), ("decoded", "decoded tile")):
        family = CounterMetricFamily(
            f"mastaba_{name}_cache_requests",
            f"Lookups in the {description} caches.",
            labels=("result",),
        )
        for result, cell in (("hit", "hits"), ("miss", "misses")):
            family.add_metric([result], table.process_sum(f"{name}_{cell}"))
        yield family
    yield GaugeMetricFamily(
        "mastaba_decoded_cache_bytes",
        "Bytes in the decoded tile caches of live workers.",
        table.process_sum("decoded_bytes", table.live_slots()),
    )


def _storages(table: Table) -> Iterator[Metric]:
    for kind, description in (
        ("reads", "Reads from a storage, including failed ones."),
        ("errors", "Failed reads from a storage; an absent object is not a failure."),
    ):
        family = CounterMetricFamily(f"mastaba_storage_{kind}", description, labels=("storage",))
        for driver in table.drivers:
            family.add_metric([driver], table.process_sum(f"{kind}_{driver}"))
        yield family


def _variants(site: Site, table: Table) -> Iterator[Metric]:
    known = sum(len(one.listing) for one in site.catalogue.variants.values())
    live = table.live_slots()
    yield GaugeMetricFamily("mastaba_variants_known", "Variants of all layers.", known)
    yield GaugeMetricFamily(
        "mastaba_variants_open",
        "Variants that live workers keep open.",
        table.process_sum("variants_open", live),
    )
    yield CounterMetricFamily(
        "mastaba_variant_opens", "Variants opened.", table.process_sum("variant_opens")
    )
