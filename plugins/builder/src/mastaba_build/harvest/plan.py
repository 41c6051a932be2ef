"""The plan of a harvest: its levels, and the requests that it needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from dataclasses import replace as changed
from typing import Any, TypeAlias

import numpy as np

from mastaba.api.catalogue import BoundingBox, TileLimits, TileMatrix, TileMatrixSet
from mastaba_build.config.configuration import AUTO, Configuration, SourceOptions
from mastaba_build.errors import BuildError, PlanError
from mastaba_build.harvest.address import Address, address_of
from mastaba_build.harvest.client import Client
from mastaba_build.harvest.documents import box_in, is_same_crs, normal
from mastaba_build.harvest.grids import Grid, MapGrid, TileGrid, axes_of, pictures_of
from mastaba_build.harvest.pictures import PictureReader
from mastaba_build.harvest.wms import MapService, map_service
from mastaba_build.harvest.wmts import TileService, set_of, tile_service
from mastaba_build.plan.levels import Level
from mastaba_build.plan.pixel_types import format_named, type_of
from mastaba_build.plan.plan import Plan, SlabKey, Terms, encoder_of, slab_options
from mastaba_build.plan.sizes import MOST_SLABS, check_largest_slab, slabs_of
from mastaba_build.plan.software import RASTER, installed
from mastaba_build.samples import PixelType
from mastaba_build.sources.identity import Origin
from mastaba_build.sources.native_set import NATIVE
from mastaba_build.sources.sets import box_factor, load_set, made_set

Service: TypeAlias = MapService | TileService
_WITHOUT_MEANING = ("like", "style", "workers", "registration")
_WITHOUT_MEANING_IN_SOURCE = (
    *("order", "tolerance", "nodata_ranges", "touching_edges", "asset", "level", "bands"),
    *("scale", "use_overviews", "crs"),
)
_KEPT = (
    "--update keeps slabs that were harvested before, because a service does not say what has "
    "changed; --replace harvests all of them again"
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HarvestPlan(Plan):
    """A build whose pixels come from a service.

    Attributes:
        reader: of its pictures.
        grids: pictures of each level; None for levels that are made from finer ones.
        keeps_blank: whether tiles of one colour equal to nodata are stored.
    """

    service: Service
    reader: PictureReader
    grids: tuple[Grid | None, ...]
    keeps_blank: bool

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [_KEPT]
        found = [
            level.matrix.id
            for level, grid in zip(self.levels, self.grids, strict=True)
            if isinstance(grid, TileGrid) and not grid.is_equal
        ]
        if found:
            notes.append(
                f"the tiles of the service at the levels {', '.join(found)} are others than those "
                "of the pyramid, so they are decoded and rebuilt; --tms native uses its own ones"
            )
        return tuple(notes)

    @property
    def terms(self) -> Terms:
        total = sum(map(self.requests, range(len(self.levels))))
        return Terms(total, self.configuration.concurrency, self.configuration.pause)

    def requests(self, level: int) -> int:
        grid = self.grids[level]
        if grid is None:
            return 0
        return pictures_of(grid, ((slab.column, slab.row) for slab in self.slabs(level)))

    def described(self, slab: SlabKey) -> list[Any]:
        grid = self.grids[slab.level]
        parts: list[Any] = [asdict(origin) for origin in self.origins]
        if grid is not None:
            parts += [grid.columns(slab.column), grid.rows(slab.row)]
        return parts

    def slabs(self, level: int) -> Iterator[SlabKey]:
        if not self.levels[level].from_sources:
            yield from Plan.slabs(self, level)
            return
        rows, columns = slabs_of(self.levels[level].limits, self.configuration.slab)
        yield from (SlabKey(level, column, row) for column in columns for row in rows)


def make_harvest_plan(configuration: Configuration) -> HarvestPlan:
    """Return the plan of a configuration whose source is a service; only capabilities are read.

    Raises:
        PlanError: the service, the tile matrix set or an option does not fit.
    """
    address = _checked(configuration)
    options = configuration.sources[0]
    client = Client(address, configuration.pause)
    try:
        configuration, tile_matrix_set, document, service = _opened(configuration, address, client)
    except PlanError:
        raise
    except BuildError as error:
        raise PlanError(str(error)) from None
    finally:
        client.close()
    pixel_type = pixel_type_of(configuration, service)
    service = _with_colours(service, pixel_type)
    levels, grids = levels_of(configuration, tile_matrix_set, service)
    check_largest_slab(configuration, pixel_type, levels)
    encoder = encoder_of(configuration)
    software = installed((*RASTER, encoder))
    origin = Origin(_title(service), _identity(service, configuration, options))
    described = {
        "version": 1,
        "harvest": asdict(origin),
        "name": configuration.name,
        "options": slab_options(configuration),
        "tile_matrix_set": document,
        "pixel_type": asdict(pixel_type),
        "levels": [(one.matrix.id, asdict(one.limits), one.factor) for one in levels],
        "encoder": (encoder, software[encoder]),
        "software": software,
    }
    return HarvestPlan(
        changed(configuration, workers=1),
        tile_matrix_set.crs,
        document,
        pixel_type,
        pixel_type,
        None,
        encoder,
        levels,
        (),
        (),
        software,
        hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest(),
        configuration.name,
        origins=(origin,),
        service=service,
        reader=PictureReader(service.media_type, pixel_type, _nodata(options, pixel_type)),
        grids=grids,
        keeps_blank=configuration.blank == "keep",
    )


def _checked(configuration: Configuration) -> Address:
    """Return the address of the source, if the options fit a service.

    Raises:
        PlanError: they do not.
    """
    if len(configuration.sources) != 1:
        raise PlanError(
            "name one service, and no other sources; mastaba pyramid join joins pyramids"
        )
    options = configuration.sources[0]
    address = address_of(options.path)
    if not configuration.access.network:
        raise PlanError(
            f"{address.host}: is on the network; if you trust it, allow it with --allow-network"
        )
    defaults = Configuration("", configuration.output, ())
    for name in _WITHOUT_MEANING:
        if getattr(configuration, name) not in (getattr(defaults, name), 1):
            hint = "; state --concurrency" if name == "workers" else ""
            raise PlanError(f"{name}: has no meaning for a service{hint or '; remove it'}")
    for name in _WITHOUT_MEANING_IN_SOURCE:
        if getattr(options, name) != getattr(SourceOptions(""), name):
            raise PlanError(f"{name}: has no meaning for a service; remove it")
    if configuration.engine != "local":
        raise PlanError("a service is harvested by one process, so that --concurrency holds")
    return address


def _opened(
    configuration: Configuration, address: Address, client: Client
) -> tuple[Configuration, TileMatrixSet, dict[str, Any], Service]:
    """Return the configuration with the name of its set, the set, its document, and the service."""
    name, directory = configuration.tile_matrix_set, configuration.tile_matrix_sets
    plugins = configuration.access.plugins
    if address.kind == "wms":
        if name == NATIVE:
            raise PlanError(f"--tms {NATIVE}: a WMS has no grid; choose a set")
        found, document = load_set(name, directory, plugins)
        return configuration, found, document, map_service(address, client, found.crs)
    services = tile_service(address, client)
    if name == NATIVE:
        own, document = set_of(services[0])
        made, document = made_set(own, document)
        return changed(configuration, tile_matrix_set=own), made, document, services[0]
    found, document = load_set(name, directory, plugins)
    fitting = [one for one in services if _finest(one, found, configuration) is not None]
    if not fitting:
        sets = ", ".join(f"{one.set} ({one.code})" for one in services)
        raise PlanError(
            f"{address.host}: no tiles of layer {services[0].layer!r} have the pixels of the tile "
            f"matrix set {name}; its sets are {sets}. Use --tms {NATIVE} with #set=SET, and build "
            "the other pyramid from this one"
        )
    return configuration, found, document, fitting[0]


def _finest(
    service: TileService, tile_matrix_set: TileMatrixSet, configuration: Configuration
) -> TileMatrix | None:
    """Return the finest matrix of a set, or the stated one, with the pixels of a service."""
    if not is_same_crs(service.code, tile_matrix_set.crs.code):
        return None
    for matrix in list(tile_matrix_set.matrices.values())[::-1]:
        if configuration.bottom in (AUTO, matrix.id):
            grid = service.grid_of(matrix, matrix.all_tiles, configuration.slab)
            if grid is not None:
                return matrix
    return None


def pixel_type_of(configuration: Configuration, service: Service) -> PixelType:
    media_type = normal(service.media_type)
    is_float = media_type == "image/x-bil;bits=32"
    name = configuration.format
    if name == AUTO:
        name = "zip" if is_float else "jpg" if media_type == "image/jpeg" else "png"
    name, properties = format_named(name, is_float=is_float)
    if (properties.dtype == np.float32) != is_float:
        raise PlanError(f"{name} does not store pictures in {service.media_type}")
    channels = configuration.channels
    if channels is None:
        is_tile = isinstance(service, TileService) and media_type == "image/png"
        wanted = 1 if is_float else 4 if is_tile else 3
        channels = min(properties.channels, key=lambda one: abs(one - wanted))
    return type_of(configuration, name, channels)


def _nodata(options: SourceOptions, type_: PixelType) -> tuple[float, ...]:
    """Return the value of each channel of a picture where there is no data."""
    if options.nodata is None:
        return type_.nodata
    if len(options.nodata) not in (1, type_.channels):
        raise PlanError(f"{len(options.nodata)} nodata values for {type_.channels} channels")
    return options.nodata * (type_.channels // len(options.nodata))


def _with_colours(service: Service, type_: PixelType) -> Service:
    """Return a service that draws nodata where nothing is; maps only have it as a parameter."""
    if not isinstance(service, MapService) or type_.dtype == np.float32:
        return service
    colour = [int(one) for one in type_.nodata[: 3 if type_.channels >= 3 else 1]]
    colour *= 3 // len(colour)
    return changed(
        service,
        has_alpha=type_.has_alpha and normal(service.media_type) == "image/png",
        background="0x" + "".join(f"{one:02X}" for one in colour),
    )


def levels_of(
    configuration: Configuration, tile_matrix_set: TileMatrixSet, service: Service
) -> tuple[tuple[Level, ...], tuple[Grid | None, ...]]:
    """Return the levels, the finest first, and the pictures of those from the service."""
    matrices = tile_matrix_set.matrices
    for key in (configuration.bottom, configuration.top):
        if key != AUTO and key not in matrices:
            raise PlanError(f"level {key!r} is not in the tile matrix set {tile_matrix_set.id}")
    bottom = configuration.bottom
    if bottom == AUTO:
        if isinstance(service, MapService):
            raise PlanError("a WMS draws maps of any scale; state the finest level with --bottom")
        finest = _finest(service, tile_matrix_set, configuration)
        assert finest is not None
        bottom = finest.id
    top = next(iter(matrices)) if configuration.top == AUTO else configuration.top
    chosen = tile_matrix_set.between(top, bottom)[::-1]
    if not chosen:
        raise PlanError(f"top level {top} is finer than bottom level {bottom}; exchange them")
    box = _box(service, tile_matrix_set)
    levels: list[Level] = []
    grids: list[Grid | None] = []
    for matrix in chosen:
        found: tuple[Grid, TileLimits] | None = None
        below = levels[-1] if levels else None
        factor = 0 if below is None else box_factor(below.matrix, matrix)
        limits = matrix.all_tiles if box is None else matrix.limits_of(box)
        if limits is None:
            raise PlanError(f"the area is outside level {matrix.id} of {tile_matrix_set.id}")
        if isinstance(service, TileService):
            found = service.grid_of(matrix, limits, configuration.slab)
        elif not factor or configuration.draw_levels:
            found = _maps(service, matrix, limits, configuration)
        if found is not None:
            grids.append(found[0])
            levels.append(Level(matrix, found[1], factor=0))
        elif below is not None and factor:
            grids.append(None)
            levels.append(below.decimated(matrix, factor))
        else:
            raise PlanError(
                f"the service has no tiles in the area for level {matrix.id} of "
                f"{tile_matrix_set.id}; choose others with --bottom and --top, or another bbox"
            )
    if sum(_count(one, configuration) for one in levels) > MOST_SLABS:
        raise PlanError(
            f"the levels have more than {MOST_SLABS} slabs; state a smaller area with bbox=, "
            "larger slabs or a coarser --bottom"
        )
    return tuple(levels), tuple(grids)


def _maps(
    service: MapService, matrix: TileMatrix, limits: TileLimits, configuration: Configuration
) -> tuple[Grid, TileLimits]:
    tile = matrix.tile_width, matrix.tile_height
    if service.largest[0] < tile[0] or service.largest[1] < tile[1]:
        width, height = service.largest
        raise PlanError(f"the service draws at most {width} x {height} pixels, less than a tile")
    return MapGrid(*axes_of(limits, configuration.slab, tile), service.largest), limits


def _count(level: Level, configuration: Configuration) -> int:
    rows, columns = slabs_of(level.limits, configuration.slab)
    return len(rows) * len(columns)


def _box(service: Service, tile_matrix_set: TileMatrixSet) -> BoundingBox | None:
    """Return the area to harvest in the CRS of a set; None for all tiles of the service."""
    wanted = service.address.box
    if isinstance(service, MapService):
        known: BoundingBox | None = service.box
    else:
        degrees = service.degrees
        known = None if degrees is None else box_in(tile_matrix_set.crs, degrees)
    if wanted is None or known is None:
        return wanted or known
    cut = wanted.intersection(known)
    if cut is None:
        raise PlanError(
            f"bbox={service.address.options['bbox']}: the layer is elsewhere, in "
            f"{known.xmin:g},{known.ymin:g},{known.xmax:g},{known.ymax:g}"
        )
    return cut


def _title(service: Service) -> str:
    """Return what is published about a service: no address."""
    if isinstance(service, MapService):
        return f"WMS: {service.layers}"
    return f"WMTS: {service.layer}"


def _identity(service: Service, configuration: Configuration, options: SourceOptions) -> str:
    """Return a text that changes with what is requested from a service, and how it is stored."""
    address = service.address
    facts: list[Any] = [address.kind, address.place, address.map_file, service.media_type]
    if isinstance(service, MapService):
        facts += [service.version, service.layers, service.styles, service.crs]
    else:
        facts += [service.layer, service.style, service.set]
    facts += [configuration.blank, configuration.draw_levels, options.nodata]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
