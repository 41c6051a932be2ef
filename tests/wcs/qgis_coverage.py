"""Reads and draws WCS layers as QGIS does.

usage: qgis_coverage.py FILE, with the interpreter of the system. The file is a JSON object with a
source (``uri``), the area of a block (``box``: west, south, east, north) and its size (``columns``,
``rows``). It prints the extent, size and CRS of the layer and the values of the block, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from qgis.core import QgsApplication, QgsRasterLayer, QgsRectangle

application = QgsApplication([], False)
application.initQgis()
wanted = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
layer = QgsRasterLayer(wanted["uri"], "layer", "wcs")
assert layer.isValid(), layer.error().message()
provider, extent = layer.dataProvider(), layer.extent()
columns, rows = wanted["columns"], wanted["rows"]
block = provider.block(1, QgsRectangle(*wanted["box"]), columns, rows)
assert block.isValid()
values = [
    [None if block.isNoData(row, col) else block.value(row, col) for col in range(columns)]
    for row in range(rows)
]
found = {
    "extent": [extent.xMinimum(), extent.yMinimum(), extent.xMaximum(), extent.yMaximum()],
    "size": [provider.xSize(), provider.ySize()],
    "crs": layer.crs().authid(),
    "values": values,
}
print(json.dumps(found))
# QGIS frees what these need when it exits.
del layer, provider, block
application.exitQgis()
