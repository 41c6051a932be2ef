"""Draws layers of a connection with QGIS, and reads feature info and a legend.

usage: qgis_keyed.py, with the interpreter of the system, in a folder with items.json: the ``box``
(west, south, east, north) and the ``sources`` by name. Writes NAME.png and found.json.
"""

from __future__ import annotations

import json
from pathlib import Path

from qgis.core import (
    QgsApplication,
    QgsCoordinateReferenceSystem,
    QgsMapRendererSequentialJob,
    QgsMapSettings,
    QgsPointXY,
    QgsRaster,
    QgsRasterLayer,
    QgsRectangle,
    QgsVectorTileLayer,
)
from qgis.PyQt.QtCore import QEventLoop, QSize


def legend_width(layer: QgsRasterLayer, settings: QgsMapSettings) -> int:
    """Return the width of the legend that the server draws."""
    fetcher = layer.dataProvider().getLegendGraphicFetcher(settings)
    loop = QEventLoop()
    widths = []
    fetcher.finish.connect(lambda image: (widths.append(image.width()), loop.quit()))
    fetcher.error.connect(lambda message: (print(message), loop.quit()))
    fetcher.start()
    if not widths:
        loop.exec_()
    return widths[0]


application = QgsApplication([], False)
application.initQgis()
items = json.loads(Path("items.json").read_text(encoding="utf-8"))
box = QgsRectangle(*items["box"])
found = {}
for name, uri in items["sources"].items():
    is_vector = name == "vector"
    layer = QgsVectorTileLayer(uri, name) if is_vector else QgsRasterLayer(uri, name, "wms")
    assert layer.isValid(), (name, layer.error().message())
    settings = QgsMapSettings()
    settings.setLayers([layer])
    settings.setDestinationCrs(QgsCoordinateReferenceSystem("EPSG:3857"))
    settings.setExtent(box)
    settings.setOutputSize(QSize(256, 256))
    job = QgsMapRendererSequentialJob(settings)
    job.start()
    job.waitForFinished()
    assert not job.errors(), [error.message for error in job.errors()]
    job.renderedImage().save(f"{name}.png")
    if name == "wms":
        results = layer.dataProvider().identify(
            QgsPointXY(box.center()), QgsRaster.IdentifyFormatText, box, 256, 256
        )
        assert results.isValid(), results.error().message()
        found["info"] = str(results.results())
    if name == "ember":
        found["legend"] = legend_width(layer, settings)
Path("found.json").write_text(json.dumps(found), encoding="utf-8")
application.exitQgis()
