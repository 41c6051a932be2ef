"""Draws layers of QGIS at instants or ranges of time, as its temporal controller does.

usage: qgis_temporal.py FILE, with the interpreter of the system. The file is a JSON list of objects
with the source (``uri``), the area (``box``: west, south, east, north), the range of time
(``begin``, ``end``: ISO 8601), whether the layer must have times (``is_temporal``) and the file to
write (``picture``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from qgis.core import (
    QgsApplication,
    QgsDateTimeRange,
    QgsMapRendererSequentialJob,
    QgsMapSettings,
    QgsRasterLayer,
    QgsRectangle,
)
from qgis.PyQt.QtCore import QDateTime, QSize, Qt
from qgis.PyQt.QtGui import QColor

application = QgsApplication([], False)
application.initQgis()
for item in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    layer = QgsRasterLayer(item["uri"], "layer", "wms")
    assert layer.isValid(), (item, layer.error().message())
    if item["is_temporal"]:
        assert layer.dataProvider().temporalCapabilities().hasTemporalCapabilities(), item
        layer.temporalProperties().setIsActive(True)
    settings = QgsMapSettings()
    settings.setLayers([layer])
    settings.setDestinationCrs(layer.crs())
    settings.setExtent(QgsRectangle(*item["box"]))
    settings.setBackgroundColor(QColor(0, 0, 0, 0))
    settings.setOutputSize(QSize(256, 256))
    begin, end = (QDateTime.fromString(item[name], Qt.ISODate) for name in ("begin", "end"))
    settings.setIsTemporal(True)
    settings.setTemporalRange(QgsDateTimeRange(begin, end))
    job = QgsMapRendererSequentialJob(settings)
    job.start()
    job.waitForFinished()
    job.renderedImage().save(item["picture"])
application.exitQgis()
