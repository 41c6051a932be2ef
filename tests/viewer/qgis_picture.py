"""Imports connections into QGIS, and draws the first as picture.png.

usage: qgis_picture.py KIND LAYER FILE, where KIND is xyz, vector-tile or wms, with the interpreter
of the system
"""

from __future__ import annotations

import sys
from urllib.parse import quote, urlencode
from urllib.request import urlopen
from xml.etree import ElementTree as ET

from qgis.core import (
    QgsApplication,
    QgsMapRendererParallelJob,
    QgsMapSettings,
    QgsRasterLayer,
    QgsSettings,
    QgsVectorTileLayer,
)
from qgis.gui import QgsManageConnectionsDialog as Dialog
from qgis.PyQt.QtCore import QSize

KINDS = {"xyz": Dialog.XyzTiles, "vector-tile": Dialog.VectorTile, "wms": Dialog.WMS}
WMTS = "{http://www.opengis.net/wmts/1.0}"
OWS = "{http://www.opengis.net/ows/1.1}"


def imported(kind: str, file: str) -> dict[str, str]:
    """Import a file as the dialog of QGIS does; return the settings of its connection."""
    dialog = Dialog(None, Dialog.Import, KINDS[kind], file)
    dialog.selectAll()
    dialog.doExportImport()
    settings = QgsSettings()
    settings.beginGroup(f"qgis/connections-{kind}")
    (name,) = settings.childGroups()
    settings.beginGroup(name)
    return {key: settings.value(key) for key in settings.allKeys()}


def wmts_uri(url: str, layer: str) -> str:
    """Return the source of a layer, chosen from the capabilities as in the dialog of QGIS."""
    with urlopen(url) as response:
        layers = ET.parse(response).iter(f"{WMTS}Layer")
    found = next(item for item in layers if item.findtext(f"{OWS}Identifier") == layer)
    values = {
        "crs": "EPSG:2154",
        "layers": layer,
        "styles": found.findtext(f"{WMTS}Style/{OWS}Identifier"),
        "format": found.findtext(f"{WMTS}Format"),
        "tileMatrixSet": found.findtext(f"{WMTS}TileMatrixSetLink/{WMTS}TileMatrixSet"),
        "url": url,
    }
    return urlencode(values)


def main(kind: str, name: str, file: str) -> None:
    connection = imported(kind, file)
    if kind == "wms":
        layer = QgsRasterLayer(wmts_uri(connection["url"], name), name, "wms")
    else:
        place = "&".join(f"{key}={connection[key]}" for key in ("zmin", "zmax"))
        uri = f"type=xyz&url={quote(connection['url'])}&{place}"
        layer = (
            QgsVectorTileLayer(uri, name)
            if kind == "vector-tile"
            else QgsRasterLayer(uri, name, "wms")
        )
    assert layer.isValid(), layer.error().message()
    settings = QgsMapSettings()
    settings.setLayers([layer])
    settings.setDestinationCrs(layer.crs())
    if kind == "wms":
        settings.setExtent(layer.extent())
    else:
        # The XYZ layers of QGIS cover the world: a part of the tests' layers.
        settings.setExtent(type(layer.extent())(0, 0, 10018754, 10018754))
    settings.setOutputSize(QSize(512, 512))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    assert not job.errors(), [error.message for error in job.errors()]
    job.renderedImage().save("picture.png")


application = QgsApplication([], True)
application.initQgis()
main(*sys.argv[1:])
application.exitQgis()
