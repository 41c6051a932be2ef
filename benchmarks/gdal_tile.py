"""``gdal raster tile`` of GDAL 3.11 without its program: ``python -m benchmarks.gdal_tile``.

Debian has an older GDAL, and no package of PyPI contains the program. The library that the wheel of
pyogrio contains has the algorithm; this module calls it by GDAL's C interface.
"""

from __future__ import annotations

import sys
from ctypes import CDLL, c_char_p, c_void_p
from importlib.util import find_spec
from pathlib import Path


def library() -> Path | None:
    """Return the GDAL of pyogrio; None if it is not installed as a wheel."""
    spec = find_spec("pyogrio")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parents[1] / "pyogrio.libs"
    return next(folder.glob("libgdal*.so*"), None)


def main(words: list[str]) -> int:
    """Run the algorithm with the arguments of ``gdal raster tile``."""
    path = library()
    if path is None:
        sys.stderr.write("the wheel of pyogrio is not installed\n")
        return 1
    gdal = CDLL(str(path))
    for name, kinds in {
        "GDALGetGlobalAlgorithmRegistry": (),
        "GDALAlgorithmRegistryInstantiateAlg": (c_void_p, c_char_p),
        "GDALAlgorithmInstantiateSubAlgorithm": (c_void_p, c_char_p),
    }.items():
        function = getattr(gdal, name)
        function.restype, function.argtypes = c_void_p, kinds
    gdal.GDALAlgorithmParseCommandLineArguments.argtypes = (c_void_p, c_void_p)
    gdal.GDALAlgorithmRun.argtypes = (c_void_p, c_void_p, c_void_p)
    gdal.GDALAllRegister()
    registry = gdal.GDALGetGlobalAlgorithmRegistry()
    raster = gdal.GDALAlgorithmRegistryInstantiateAlg(registry, b"raster")
    tile = gdal.GDALAlgorithmInstantiateSubAlgorithm(raster, b"tile")
    arguments = (c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)
    parsed = gdal.GDALAlgorithmParseCommandLineArguments(tile, arguments)
    return 0 if parsed and gdal.GDALAlgorithmRun(tile, None, None) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
