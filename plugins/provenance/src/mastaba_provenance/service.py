"""The service ``provenance`` (time.md section 5.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

import numpy as np

from mastaba.api.catalogue import WGS84
from mastaba.api.documents import Fault, Severity
from mastaba.api.services import Service
from mastaba.api.web import printable, problem
from mastaba.errors import (
    MastabaError,
    ObjectNotFoundError,
    StorageError,
    UnknownNameError,
    UnknownPathError,
    public_message,
)
from mastaba_ows.errors import MethodNotAllowedError, status_of
from mastaba_ows.links import link
from mastaba_ows.offers import zooms
from mastaba_provenance import asked
from mastaba_provenance.dates import span_of_row
from mastaba_provenance.forms import attribution, feature, line_of, shown, table, written
from mastaba_provenance.numbers import Found, counts_in, numbers_at
from mastaba_provenance.tables import KEY, SourceTable, SourceTables, box_of, numbers_of
from mastaba_render.api.crs import CRSOffer
from mastaba_server.web.large import large_response
from mastaba_server.web.pieces import in_pieces, json_pieces

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, BoundingBox, Layer
    from mastaba.api.services import ServiceSettings, Site
    from mastaba.api.web import Request, Response
    from mastaba_provenance.numbers import Floats
    from mastaba_provenance.tables import Row

_JSON: Final = "application/json"
_GEOJSON: Final = "application/geo+json"
_CSV: Final = "text/csv; charset=utf-8"
_POINTS: Final = 50
"""Points that cost 1 of the rates of a client."""
_PER_POINT: Final = 16
"""Bytes of a point in a body, at least."""
_VIEW: Final = 10
"""Cost of a view."""
_SHARE: Final = 6
"""Digits of shares."""


class _Layer:
    """What is known of the sources of a layer or variant.

    Attributes:
        table: its sources.
        numbers: pyramid of numbers, as far as the layer is shown; None if nothing is.
        part: box of the layer, if its client sees an area only.
    """

    def __init__(self, layer: Layer, table: SourceTable, site: Site) -> None:
        self.layer, self.table = layer, table
        self.numbers = numbers_of(site.catalogue, layer, table)
        self.part: BoundingBox | None = None
        readers: Sequence[Any] = ()
        if self.numbers is not None:
            readers = list(site.catalogue.readers_of(self.numbers).values())
        if any(reader.is_masked for reader in readers):
            self.part = layer.geographic_bbox
        if site.main is not None and readers:
            # If data are withheld, the reader refuses; the table tells as much as the pixels.
            limits = readers[-1].level.limits
            readers[-1].locate(limits.min_row, limits.min_col)

    def rows(
        self, boxes: Sequence[BoundingBox] | None, span: tuple[str, str] | None = None
    ) -> Iterator[Row]:
        """Yield the rows that meet boxes and a time; nothing of what is not shown."""
        if self.numbers is None:
            return
        rows = self.table.rows.values() if boxes is None else self.table.near(boxes)
        for row in rows:
            known = box_of(row)
            if self.part is not None:
                known = tuple(cut for one in known if (cut := one.intersection(self.part)))
                if not known:
                    continue
            if boxes is not None and not any(
                one.intersection(box) is not None for one in known for box in boxes
            ):
                continue
            if span is not None:
                own = span_of_row(row)
                if own is None or own[0] > span[1] or own[1] < span[0]:
                    continue
            yield row


class ProvenanceService(Service):
    """Says where pixels come from."""

    name = "provenance"
    title = "Sources of pixels"
    rank: ClassVar[int] = 60
    is_raster_only = True
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    parameters: ClassVar[frozenset[str]] = frozenset(
        ("lon", "lat", "bbox", "zoom", "width", "height", "datetime", "f", "limit")
    )
    operations: ClassVar[tuple[str, ...]] = ("document", "at", "view", "sources")
    layer_schema: ClassVar[Mapping[str, Any]] = {
        KEY: {
            "description": "Table of the sources of pixels, NAME.sources.json (default: the one "
            "that the descriptor of the pyramid names); false: none. Other values of dimensions "
            "and versions have their own. As a section, whether the service provenance publishes "
            "the layer.",
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"const": False},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"enabled": {"type": "boolean"}},
                },
            ],
        },
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        # Views show the same tables.
        main = dict.get(site.main.services, self.name) if site.main is not None else None
        self.tables: SourceTables = (
            main.tables if isinstance(main, ProvenanceService) else SourceTables()
        )
        self._layers = {layer.id: layer for layer in self.published_layers()}
        self._offer = CRSOffer(site.catalogue.settings)
        self._forms: Mapping[str, Callable[[Request, Layer, _Layer], Response]] = {
            "at": self._at,
            "view": self._view,
            "sources": self._sources,
            "sources.geojson": self._sources,
            "sources.csv": self._sources,
            "attribution.json": self._attribution,
        }

    def findings(self) -> Iterator[Fault]:
        """Return which tables cannot be used, for ``mastaba check``."""
        for layer in self._layers.values():
            try:
                self.tables.checked(layer, self.site.catalogue)
            except (MastabaError, ValueError) as error:
                reason = f"the table of sources cannot be used: {error}"
                remedy = "write it again with mastaba pyramid provenance, or set the key to false"
                is_absent = isinstance(error, ObjectNotFoundError)
                if isinstance(error, StorageError) and not is_absent:
                    remedy = "make sure that its storage can be read"
                yield Fault(Severity.ERROR, f"layer {layer.id}", f"$.{KEY}", reason, remedy)

    def cost(self, request: Request) -> int:
        if request.method == "POST":
            sent = request.content_length or 0
            return 1 + min(sent // _PER_POINT, 5000) // _POINTS
        return _VIEW if request.path.endswith("/view") else 1

    def respond(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            UnknownPathError, UnknownNameError: there is no such resource or layer.
            MethodNotAllowedError: POST is for points only.
            InvalidParameterError: a parameter or the body is malformed, or beyond a limit.
            TooManyTilesError: points are in too many tiles.
            SlabFormatError, StorageError: sources cannot be read.
        """
        first, *rest = request.path.removeprefix("/").split("/")
        is_post = request.method == "POST"
        if not first and not rest and not is_post:
            request.name_operation("document")
            return self._index(request)
        name = rest[0] if len(rest) == 1 else ""
        layer = self._layer(first, request) if first else None
        if is_post and name != "at":
            raise MethodNotAllowedError("only points can be sent")
        if layer is None or (rest and name not in self._forms):
            raise UnknownPathError
        is_document = name in ("", "attribution.json")
        request.name_operation("document" if is_document else name.partition(".")[0])
        known = self._known(layer)
        if known is None:
            raise UnknownNameError(f"the layer {layer.id} knows no sources", "layer")
        response = self._forms[name](request, layer, known) if rest else self._start(request, layer)
        if layer.cache_control and not is_post:
            response.headers.append(("Cache-Control", layer.cache_control))
        return response

    def error_response(self, error: Exception, request: Request) -> Response:
        return problem(status_of(error), public_message(error))

    def sources_at(
        self, layer: Layer, x: Floats, y: Floats, crs: CRS
    ) -> Sequence[Mapping[str, Any] | None] | None:
        """Return the sources of points; see `mastaba_ows.offers.OffersSources`.

        Raises:
            TooManyTilesError: no tile has been read.
            SlabFormatError, StorageError: sources cannot be read.
        """
        known = self._known(layer)
        if known is None:
            return None
        numbers = self._found(known, x, y, crs).numbers.tolist()
        rows = {
            number: shown(known.table.rows[number], known.part)
            for number in set(numbers)
            if number in known.table.rows
        }
        return [rows.get(number) for number in numbers]

    def source_at(self, layer: Layer, x: float, y: float, crs: CRS) -> Mapping[str, Any] | None:
        """Return the source of a pixel; see `mastaba_ows.offers.OffersSources`."""
        found = self.sources_at(layer, np.array([x], float), np.array([y], float), crs)
        return found[0] if found else None

    def credits(self, layer: Layer, box: BoundingBox) -> str:
        """Return who is to be named for an area; see `mastaba_ows.offers.OffersSources`."""
        known = self._known(layer)
        return "" if known is None else line_of(_by_share(known, self._shares(known, (box,))[0]))

    def sources_in(self, layer: Layer, box: BoundingBox) -> Sequence[Mapping[str, Any]]:
        """Return the rows of an area; see `mastaba_ows.offers.OffersSources`."""
        known = self._known(layer)
        if known is None or known.numbers is None:
            return ()
        shares = _shares_of_boxes(known, (box,))
        return [
            {**shown(row, known.part), "share": round(shares[row["number"]], _SHARE)}
            for row in _by_share(known, shares)
        ]

    def sources_path(self, layer: Layer) -> str:
        """Return the path of the sources; see `mastaba_ows.offers.OffersSources`."""
        return f"/{quote(layer.key, '')}" if self._is_known(layer) else ""

    def _layer(self, name: str, request: Request) -> Layer:
        """Return the layer that a name means, or a variant or version of it."""
        layer = self._layers.get(name)
        if layer is None or layer.dimensions:
            layer = self.site.catalogue.resolve(name, request.query).layer
        if layer.id not in self._layers:
            raise UnknownNameError(f"there is no layer {printable(name)}", "layer")
        return layer

    def _known(self, layer: Layer) -> _Layer | None:
        found = self.tables.table_of(layer, self.site.catalogue)
        return None if found is None else _Layer(layer, found, self.site)

    def _found(self, known: _Layer, x: Floats, y: Floats, crs: CRS) -> Found:
        if known.numbers is None:
            return Found(np.zeros(len(x), np.int64), np.zeros(len(x), np.bool_), [""] * len(x))
        return numbers_at(self.site, known.numbers, x, y, crs)

    def _index(self, request: Request) -> Response:
        endpoint = self.settings.endpoint_uri
        entries = [
            {"layer": layer.id, "title": layer.title, "href": f"{endpoint}/{quote(layer.id, '')}"}
            for layer in self._layers.values()
            if self._is_known(layer)
        ]
        return _answer({"title": self.settings.title, "layers": entries}, request)

    def _is_known(self, layer: Layer) -> bool:
        return self.tables.table_of(layer, self.site.catalogue) is not None

    def _start(self, request: Request, layer: Layer) -> Response:
        """Return the addresses of what is known of a layer."""
        href = f"{self.settings.endpoint_uri}/{quote(layer.key, '')}"
        point = f"{href}/at?lon={{lon}}&lat={{lat}}"
        links = [
            link(href, "self", _JSON, layer.title),
            link(f"{href}/sources", "sources", _JSON, "Sources"),
            link(f"{href}/sources.geojson", "sources", _GEOJSON, "Sources"),
            link(f"{href}/sources.csv", "sources", "text/csv", "Sources"),
            link(f"{href}/view", "view", _JSON, "Sources of a view"),
            link(f"{href}/attribution.json", "attribution", _JSON, "Groups of sources"),
            link(point, "item", _JSON, "Source of a pixel", templated=True),
        ]
        return _answer({**_head(layer), "title": layer.title, "links": links}, request)

    def _at(self, request: Request, layer: Layer, known: _Layer) -> Response:
        if request.method == "POST":
            x, y, crs = asked.points(request, self._offer.of(layer).offered)
        else:
            x, y = asked.point(request)
            crs = WGS84
        found = self._found(known, x, y, crs)
        rows = known.table.rows
        numbers = found.numbers.tolist()
        points = [
            {
                "number": number if number in rows else None,
                "mixed": is_mixed,
                "level": level or None,
            }
            for number, is_mixed, level in zip(
                numbers, found.is_mixed.tolist(), found.levels, strict=True
            )
        ]
        sources = [shown(rows[one], known.part) for one in sorted(set(numbers)) if one in rows]
        document = {**_head(layer), "points": points, "sources": sources}
        return _answer(document, request)

    def _view(self, request: Request, layer: Layer, known: _Layer) -> Response:
        boxes = asked.bbox(request)
        asked.check_size(request)
        if boxes is None:
            boxes = (layer.geographic_bbox,)
        shares, is_exact = self._shares(known, boxes)
        rows = _by_share(known, shares)
        document = {
            **_head(layer),
            "bbox": [boxes[0].xmin, boxes[0].ymin, boxes[-1].xmax, boxes[-1].ymax],
            "exact": is_exact,
            "text": line_of(rows),
            "sources": [
                {**shown(row, known.part), "share": round(shares[row["number"]], _SHARE)}
                for row in rows[: asked.MOST_ROWS]
            ],
        }
        return _answer(document, request)

    def _shares(
        self, known: _Layer, boxes: Sequence[BoundingBox]
    ) -> tuple[Mapping[int, float], bool]:
        """Return the share of each source of a view, and whether pixels were counted."""
        if known.numbers is None:
            return {}, True
        counts: dict[int, float] = {}
        for box in boxes:
            found = counts_in(self.site, known.numbers, box)
            if found is None:
                return _shares_of_boxes(known, boxes), False
            for number, count in found.items():
                counts[number] = counts.get(number, 0) + count
        total = sum(counts.values())
        return {number: count / total for number, count in counts.items() if total}, True

    def _sources(self, request: Request, layer: Layer, known: _Layer) -> Response:
        boxes, span = asked.bbox(request), asked.instants(request)
        most = asked.limit(request)
        rows, matched = [], 0
        for row in known.rows(boxes, span):
            matched += 1
            if matched <= most:
                rows.append(row)
        if request.path.endswith(".csv"):
            return large_response(request, table(rows, known.part), _CSV)
        counts = {"numberMatched": matched, "numberReturned": len(rows)}
        if request.path.endswith(".geojson"):
            href = f"{self.settings.endpoint_uri}/{quote(layer.key, '')}/sources"
            features = (feature(row, layer.key, href, known.part) for row in rows)
            head = {"type": "FeatureCollection", **counts}
            return large_response(request, json_pieces(head, "features", features), _GEOJSON)
        sources = (shown(row, known.part) for row in rows)
        pieces = json_pieces({**_head(layer), **counts}, "sources", sources)
        return large_response(request, pieces, _JSON)

    def _attribution(self, request: Request, layer: Layer, known: _Layer) -> Response:
        rows = list(known.rows(None))
        return _answer(attribution(rows, layer, zooms(layer), known.part), request)


def _shares_of_boxes(known: _Layer, boxes: Sequence[BoundingBox]) -> Mapping[int, float]:
    """Return the share of each source of a view, by the boxes of the sources."""
    weights = {row["number"]: _weight(row, boxes) for row in known.rows(boxes)}
    total = sum(weights.values())
    return {number: weight / total for number, weight in weights.items() if weight > 0}


def _by_share(known: _Layer, shares: Mapping[int, float]) -> list[Row]:
    """Return the rows of sources, the largest share first."""
    ordered = sorted(shares, key=lambda number: (-shares[number], number))
    return [known.table.rows[number] for number in ordered if number in known.table.rows]


def _weight(row: Row, boxes: Sequence[BoundingBox]) -> float:
    """Return about how many pixels a source gave to boxes, if they are spread evenly in its box."""
    own = box_of(row)
    area = sum((one.xmax - one.xmin) * (one.ymax - one.ymin) for one in own)
    cuts = [cut for one in own for box in boxes if (cut := one.intersection(box)) is not None]
    inside = sum((one.xmax - one.xmin) * (one.ymax - one.ymin) for one in cuts)
    pixels = row.get("pixels", 1)
    return float(pixels * (inside / area if area else 1.0))


def _head(layer: Layer) -> dict[str, Any]:
    return {"layer": layer.id, "generation": layer.pyramid.generation}


def _answer(document: Any, request: Request) -> Response:
    return large_response(request, in_pieces(written(document).encode()), _JSON)
