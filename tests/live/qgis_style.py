"""Draws vector tiles as their style says.

usage: qgis_style.py TILES STYLE X Y PICTURE, with the interpreter of the system: the template of
the tiles, the address of the style, the middle of the map in Web Mercator, the file to write.
"""

from __future__ import annotations

import sys
from urllib.parse import quote

from qgis.core import (
    QgsApplication,
    QgsCoordinateReferenceSystem,
    QgsMapRendererSequentialJob,
    QgsMapSettings,
    QgsRectangle,
    QgsVectorTileLayer,
)
from qgis.PyQt.QtCore import QSize

tiles, style, x, y, picture = sys.argv[1:]
application = QgsApplication([], False)
application.initQgis()
address = quote(tiles, safe=":/{}")
layer = QgsVectorTileLayer(f"styleUrl={style}&type=xyz&url={address}&zmax=4&zmin=2", "layer")
assert layer.isValid()
message, is_loaded = layer.loadDefaultStyle()
assert is_loaded, message
half = 128 * 156543.03392804097 / 2**5
middle = float(x), float(y)
settings = QgsMapSettings()
settings.setLayers([layer])
settings.setDestinationCrs(QgsCoordinateReferenceSystem("EPSG:3857"))
settings.setExtent(
    QgsRectangle(middle[0] - half, middle[1] - half, middle[0] + half, middle[1] + half)
)
settings.setOutputSize(QSize(256, 256))
settings.setOutputDpi(96)
job = QgsMapRendererSequentialJob(settings)
job.start()
job.waitForFinished()
job.renderedImage().save(picture)
application.exitQgis()
