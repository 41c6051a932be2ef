"""Read a Zarr group over HTTP with the package zarr: a program of its own, with its own threads.

Usage: read_zarr.py URL FOLDER. Each array is written into the folder as NAME.npy; what else the
package says of the group is printed as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.storage import FsspecStore


def read(url: str, folder: Path) -> dict[str, Any]:
    store = FsspecStore.from_url(url, read_only=True)
    group = zarr.open_group(store, mode="r", zarr_format=2)
    consolidated = group.metadata.consolidated_metadata
    found: dict[str, Any] = {"attributes": dict(group.attrs), "is_consolidated": bool(consolidated)}
    # Names are known by the consolidated metadata: HTTP lists nothing.
    for name, array in group.arrays():
        np.save(folder / f"{name}.npy", array[...])
        found[name] = {"fill_value": float(array.fill_value), "chunks": array.chunks}
    # Without them, each array is found by its own documents.
    plain = zarr.open_array(store, path="3", mode="r", zarr_format=2)
    found["part"] = plain[10:14, 20:23].astype(float).tolist()
    return found


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1], Path(sys.argv[2]))))
