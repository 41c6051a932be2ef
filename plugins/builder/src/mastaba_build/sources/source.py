"""One raster file among the sources of a build, and what pixels depend on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mastaba_build.sources.pyramid import PyramidLevel


@dataclass(frozen=True, slots=True)
class Source:
    """One raster file.

    Attributes:
        path: as GDAL opens it.
        identity: changes when the file, or a file that it refers to, changes.
        crs: WKT.
        transform: a, b, c, d, e, f: x = a * column + b * row + c, y = d * column + e * row + f.
        width, height: pixels.
        dtype: sample type.
        bands: bands of the colours, counted from 1.
        alpha: band of alpha, or None.
        palette: whether the one band is an index of colours.
        has_mask: whether the file contains a mask.
        nodata: value of each band in pixels without data; None without any.
        nodata_ranges, tolerance, touching_edges: as in `SourceOptions`.
        scale: lowest and highest value of each band, which become 0 and 255.
        pyramid: if the source is a level of a pyramid.
        overviews: pixels on a side of a pixel of each overview that may be read.
        overview: which of the overviews this is; None for the image itself.
        registration: ``post`` if a value is that of the point in the centre of its pixel, else
            ``area``. No pixel depends on it.
        remote: version of the files on HTTP servers when the plan was made, which `identity`
            contains.
        facts: what its row of the table of sources contains, as JSON. No pixel depends on it.
        footprints: of `SourceOptions`.
    """

    path: str
    identity: str
    crs: str
    transform: tuple[float, float, float, float, float, float]
    width: int
    height: int
    dtype: str
    bands: tuple[int, ...]
    alpha: int | None
    palette: bool
    has_mask: bool
    nodata: tuple[float, ...] | None
    nodata_ranges: tuple[tuple[float, float], ...]
    tolerance: float
    touching_edges: bool
    scale: tuple[tuple[float, float], ...] | None
    pyramid: PyramidLevel | None = None
    overviews: tuple[int, ...] = ()
    overview: int | None = None
    registration: str = "area"
    remote: str = ""
    facts: str = "{}"
    footprints: tuple[tuple[str, str], ...] | None = None

    def described(self) -> dict[str, Any]:
        """Return everything that pixels depend on."""
        values = asdict(self)
        del values["registration"], values["remote"], values["facts"], values["footprints"]
        return values

    @property
    def pixel_area(self) -> float:
        """Area of a pixel in units of the CRS."""
        a, b, _, d, e, _ = self.transform
        return abs(a * e - b * d)

    @property
    def colours(self) -> int:
        """Number of colour channels: 1 or 3."""
        return 3 if self.palette or len(self.bands) >= 3 else 1
