"""The service that Prometheus scrapes: the counters of all worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, chain
from typing import ClassVar

import mastaba
from mastaba.errors import RequestError, UnknownPathError, public_message
from mastaba.services.base import Service
from mastaba.web.request import Request
from mastaba.web.response import Response, message
from mastaba_metrics.exposition import MEDIA_TYPE, Sample, metric
from mastaba_metrics.table import BOUNDS, BUCKETS, BYTES, SECONDS, STATUSES, Table, table_of


class MetricsService(Service):
    """Reports the metrics, also while the other services are turned off."""

    name = "metrics"
    title = "Metrics"
    always_on: ClassVar[bool] = True
    wants_measurements: ClassVar[bool] = True

    def respond(self, request: Request) -> Response:
        """Return all metrics.

        Raises:
            UnknownPathError: the path is not the root path.
        """
        if request.path:
            raise UnknownPathError("there is nothing at this path")
        return Response(200, [("Content-Type", MEDIA_TYPE)], self._text().encode())

    def error_response(self, error: Exception, request: Request) -> Response:
        status = 404 if isinstance(error, RequestError) else 500
        return message(status, public_message(error) + "\n", "text/plain")

    def _text(self) -> str:
        plugins = self.site.plugins
        table = table_of(self.site.scoreboard, sorted(plugins.services), sorted(plugins.storages))
        if table.sampled is not None:
            table.sampled()
        parts = (_requests(table), _caches(table), _storages(table), self._server(table))
        return "".join(chain.from_iterable(parts))

    def _server(self, table: Table) -> Iterator[str]:
        site, catalogue = self.site, self.site.catalogue
        yield metric(
            "mastaba_info", "gauge", "Version.", [("", {"version": mastaba.__version__}, 1)]
        )
        yield metric(
            "mastaba_workers", "gauge", "Live worker processes.", [("", {}, len(table.live_slots))]
        )
        yield metric(
            "mastaba_reloads_total",
            "counter",
            "Reloads since the start, including those that failed before the last success.",
            [("", {}, site.generation - 1)],
        )
        yield metric(
            "mastaba_changes",
            "gauge",
            "Administrative changes to the current configuration.",
            [("", {}, site.revision)],
        )
        yield metric(
            "mastaba_configuration_loaded_timestamp_seconds",
            "gauge",
            "When the current configuration was loaded.",
            [("", {}, site.started)],
        )
        yield metric(
            "mastaba_layers", "gauge", "Published layers.", [("", {}, len(catalogue.layers))]
        )
        yield metric(
            "mastaba_services_enabled",
            "gauge",
            "Whether the services are turned on.",
            [("", {}, int(catalogue.settings.enabled))],
        )


def _requests(table: Table) -> Iterator[str]:
    pairs = [
        ({"service": service, "operation": operation}, sums, seconds)
        for service, operation, sums, seconds in table.pairs()
    ]
    yield metric(
        "mastaba_requests_total",
        "counter",
        "Requests answered.",
        [
            ("", {**labels, "status": status}, count)
            for labels, sums, _ in pairs
            for status, count in zip(STATUSES, sums[:BUCKETS], strict=True)
            if count
        ],
    )
    samples: list[Sample] = []
    for labels, sums, seconds in pairs:
        bounds = [*map(repr, BOUNDS), "+Inf"]
        counts = list(accumulate(sums[BUCKETS:SECONDS]))
        samples += [
            ("_bucket", {**labels, "le": bound}, count)
            for bound, count in zip(bounds, counts, strict=True)
        ]
        samples += [("_sum", labels, seconds), ("_count", labels, counts[-1])]
    yield metric(
        "mastaba_request_duration_seconds", "histogram", "Time to process a request.", samples
    )
    yield metric(
        "mastaba_response_bytes_total",
        "counter",
        "Bytes in response bodies.",
        [("", labels, sums[BYTES]) for labels, sums, _ in pairs],
    )


def _caches(table: Table) -> Iterator[str]:
    for name, description in (
        ("index", "slab index"),
        ("decoded", "decoded tile"),
    ):
        yield metric(
            f"mastaba_{name}_cache_requests_total",
            "counter",
            f"Lookups in the {description} caches.",
            [
                ("", {"result": result}, table.process_sum(f"{name}_{cell}"))
                for result, cell in (("hit", "hits"), ("miss", "misses"))
            ],
        )
    yield metric(
        "mastaba_decoded_cache_bytes",
        "gauge",
        "Bytes in the decoded tile caches of live workers.",
        [("", {}, table.process_sum("decoded_bytes", table.live_slots))],
    )


def _storages(table: Table) -> Iterator[str]:
    for kind, description in (
        ("reads", "Reads from a storage, including failed ones."),
        ("errors", "Failed reads from a storage; an absent object is not a failure."),
    ):
        yield metric(
            f"mastaba_storage_{kind}_total",
            "counter",
            description,
            [
                ("", {"storage": driver}, table.process_sum(f"{kind}_{driver}"))
                for driver in table.drivers
            ],
        )
