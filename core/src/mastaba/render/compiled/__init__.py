"""Inner loops compiled by numba, an optional extra (``pip install mastaba[fast]``).

They make maps several times faster, not different: where `AVAILABLE` is false, numpy does the same.
"""

from __future__ import annotations

try:
    from mastaba.render.compiled.colours import colours
    from mastaba.render.compiled.flatten import flatten
    from mastaba.render.compiled.resample import resample
    from mastaba.render.compiled.warp import warp, warp_locally
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

__all__ = ["AVAILABLE", "colours", "flatten", "resample", "warp", "warp_locally"]
