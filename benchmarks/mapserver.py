"""MapServer on the same pixels, for comparison: FastCGI processes behind nginx.

The tiles of the requested region become a GeoTIFF with tiles and overviews: JPEG for images,
deflate for elevation. MapServer has no Lanczos kernel, so it serves only the layers with linear
interpolation. Its interpolation is not anti-aliased, and has less to compute.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.maps import WGS84, MapInstallation, Source
from benchmarks.servers import (
    Missing,
    Target,
    find_program,
    free_port,
    nginx_before,
    start_process,
)
from mastaba.model.style import Palette
from mastaba_render.codecs import TileDecoder

_BACKLOG = 128

_MAPFILE = """
MAP
  NAME "benchmark"
  SIZE 256 256
  MAXSIZE 5000
  UNITS METERS
  PROJECTION "init=epsg:3857" END
  WEB METADATA
    "ows_enable_request" "*"
    "ows_title" "benchmark"
    "ows_onlineresource" "{address}/wms"
    "ows_srs" "{codes}"
  END END
  OUTPUTFORMAT NAME "jpeg" DRIVER "AGG/JPEG" MIMETYPE "image/jpeg" IMAGEMODE RGB
    FORMATOPTION "QUALITY=75"
  END
  OUTPUTFORMAT NAME "png" DRIVER "AGG/PNG" MIMETYPE "image/png" IMAGEMODE RGB
    FORMATOPTION "COMPRESSION=1"
  END
{layers}
END
"""
_LAYER = """
  LAYER
    NAME "{name}"
    TYPE RASTER
    STATUS ON
    DATA "{file}"
    PROJECTION "init=epsg:3857" END
    METADATA "ows_title" "{name}" "wms_srs" "{codes}" END
    PROCESSING "RESAMPLE=BILINEAR"
    PROCESSING "CLOSE_CONNECTION=DEFER"
{more}
  END
"""
# A FastCGI process accepts connections on the socket at its standard input. The shell waits for the
# processes, so they stay its descendants. It kills them when it exits, because they delay SIGTERM
# until the next request.
_LAUNCH = "exec 3<&0; trap 'kill -KILL 0' TERM; {starts} wait"


def mapserver(installation: MapInstallation, folder: Path, *, workers: int) -> Target:
    """Export the pixels, and start MapServer and nginx.

    Raises:
        Missing: MapServer is not installed or does not start.
    """
    program = find_program("mapserv")
    missing = [
        name for name in ("mapserv", "gdal_translate", "gdaladdo") if find_program(name) is None
    ]
    if program is None or missing:
        packages = "the Debian packages cgi-mapserver and gdal-bin"
        raise Missing(f"--with-mapserver needs {' and '.join(missing)}: {packages} have them")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    sources = list(installation.sources())
    target = Target(
        "nginx + MapServer",
        f"http://127.0.0.1:{port}",
        layers=frozenset(source.layers["linear"] for source in sources),
    )
    codes = f"EPSG:3857 {WGS84} {installation.utm}"
    layers = "".join(_layer(source, folder, codes) for source in sources)
    mapfile = folder / "benchmark.map"
    text = _MAPFILE.format(address=target.address, codes=codes, layers=layers)
    mapfile.write_text(text, encoding="utf-8")
    configuration = folder / "mapserver.conf"
    configuration.write_text(f'CONFIG\n  ENV\n    MS_MAPFILE "{mapfile}"\n  END\nEND\n', "utf-8")
    path = folder / "mapserver.sock"
    start = f"MAPSERVER_CONFIG_FILE={shlex.quote(str(configuration))} {shlex.quote(program)} <&3 &"
    command = ["sh", "-c", _LAUNCH.format(starts=" ".join([start] * workers))]
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen(_BACKLOG)
            log = folder / "mapserver.log"
            target.pid = start_process(target, command, log, stdin=listening.fileno()).pid
        # Each process serves one connection after another.
        nginx_before(target, path, folder, "nginx-mapserver", keep=False)
    except BaseException:
        target.stop()
        raise
    return target


def _layer(source: Source, folder: Path, codes: str) -> str:
    palette = next(
        (style.palette for style in source.layer.styles if style.identifier == source.style), None
    )
    return _LAYER.format(
        name=source.layers["linear"],
        file=_exported(source, folder),
        codes=codes,
        more=_classes(source.style, palette) if palette else "",
    )


def _classes(style: str, palette: Palette) -> str:
    """Return a mapfile class for each interval of an interpolated palette."""
    entries = palette.entries
    lowest, highest = entries[1].value, entries[-1].value
    lines = [
        f'    PROCESSING "SCALE={lowest:g},{highest:g}"',
        '    PROCESSING "SCALE_BUCKETS=4096"',
        f'    CLASSGROUP "{style}"',
    ]
    for low, high in pairwise(entries):
        if low.alpha == 0:
            continue
        colours = f"{low.red} {low.green} {low.blue} {high.red} {high.green} {high.blue}"
        condition = f"[pixel] >= {low.value:g} AND [pixel] < {high.value:g}"
        lines.append(
            f'    CLASS GROUP "{style}" NAME "{low.value:g}" EXPRESSION ({condition}) STYLE '
            f'COLORRANGE {colours} DATARANGE {low.value:g} {high.value:g} RANGEITEM "pixel" '
            "END END"
        )
    return "\n".join(lines)


def _exported(source: Source, folder: Path) -> Path:
    """Write the region as a GeoTIFF with overviews."""
    raw = folder / f"{source.layer.id}.raw"
    file = raw.with_suffix(".tif")
    pixels = _stitched(source)
    pixels.tofile(raw)
    height, width, channels = pixels.shape
    # ENVI data type 1 is uint8, 4 is float32.
    raw.with_suffix(".hdr").write_text(
        f"ENVI\nsamples = {width}\nlines = {height}\nbands = {channels}\nheader offset = 0\n"
        f"data type = {1 if pixels.dtype == np.uint8 else 4}\ninterleave = bip\nbyte order = 0\n"
    )
    region = source.region
    corners = (region.xmin, region.ymax, region.xmax, region.ymin)
    jpeg = ["COMPRESS=JPEG", "PHOTOMETRIC=YCBCR", "JPEG_QUALITY=90"]
    options = jpeg if channels == 3 else ["COMPRESS=DEFLATE", "PREDICTOR=3"]
    command = ["gdal_translate", "-q", "-a_srs", source.crs.code, "-a_ullr", *map(repr, corners)]
    for option in ("TILED=YES", "BLOCKXSIZE=256", "BLOCKYSIZE=256", *options):
        command += ["-co", option]
    overviews = ["gdaladdo", "-q", "-r", "average", str(file), "2", "4", "8"]
    for line in ([*command, str(raw), str(file)], overviews):
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Missing(f"{line[0]} failed:\n{done.stderr}")
    raw.unlink()
    return file


def _stitched(source: Source) -> np.ndarray:
    pyramid = source.layer.pyramid
    raster, matrix, limits = pyramid.raster, pyramid.finest.matrix, source.limits
    assert raster is not None
    decoder = TileDecoder(pyramid.format, raster.channels, matrix.tile_width, matrix.tile_height)
    rows = limits.max_row - limits.min_row + 1
    columns = limits.max_col - limits.min_col + 1
    shape = (rows * matrix.tile_height, columns * matrix.tile_width, raster.channels)
    dtype = np.uint8 if pyramid.format.sample == "uint8" else np.float32
    pixels = np.empty(shape, dtype)
    pixels[:] = raster.nodata
    for row in range(rows):
        for column in range(columns):
            stored = source.reader.locate(limits.min_row + row, limits.min_col + column)
            if stored is not None:
                top, left = row * matrix.tile_height, column * matrix.tile_width
                tile = decoder.decode(stored.read())
                pixels[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return pixels
