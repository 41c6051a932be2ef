"""Draws WMTS layers as QGIS does when a user picks them from the capabilities.

usage: qgis_wmts.py FILE, with the interpreter of the system. The file is a JSON list of objects
with the source (``uri``), the area (``box``: west, south, east, north) and the file to write
(``picture``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from qgis.core import (
    QgsApplication,
    QgsMapRendererSequentialJob,
    QgsMapSettings,
    QgsRasterLayer,
    QgsRectangle,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor

application = QgsApplication([], False)
application.initQgis()
for item in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    layer = QgsRasterLayer(item["uri"], "layer", "wms")
    assert layer.isValid(), (item, layer.error().message())
    settings = QgsMapSettings()
    settings.setLayers([layer])
    settings.setDestinationCrs(layer.crs())
    settings.setExtent(QgsRectangle(*item["box"]))
    settings.setBackgroundColor(QColor(0, 0, 0, 0))
    settings.setOutputSize(QSize(256, 256))
    job = QgsMapRendererSequentialJob(settings)
    job.start()
    job.waitForFinished()
    job.renderedImage().save(item["picture"])
application.exitQgis()
