"""GDAL: a command that describes the layer; of heights, with their values."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from mastaba_viewer.sources.common import with_query

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def command(offer: Offer) -> str | None:
    """Return the lines for a shell."""
    credit = f"# {offer.attribution}\n" if offer.attribution else ""
    if offer.values is not None:
        return credit + _heights(offer, *offer.values)
    if not offer.wmts:
        return None
    return f"{credit}gdalinfo {_shell(f'WMTS:{offer.capabilities},layer={offer.layer.id}')}\n"


def _heights(offer: Offer, uri: str, style: str, media_type: str) -> str:
    """Return lines that describe maps with the values of a layer, as a file of GDAL."""
    layer = offer.layer
    raster, box, crs = layer.pyramid.raster, layer.native_bbox, layer.pyramid.tile_matrix_set.crs
    cell = layer.pyramid.finest.matrix.cell_size
    width, height = round((box.xmax - box.xmin) / cell), round((box.ymax - box.ymin) / cell)
    nodata = f'\n  <DataValues NoData="{raster.nodata[0]:.10g}"/>' if raster else ""
    axes = "\n    <BBoxOrder>yxYX</BBoxOrder>" if crs.northing_first else ""
    name = _shell(f"{layer.id}.xml")
    return f"""cat > {name} <<'END'
<GDAL_WMS>
  <Service name="WMS">
    <Version>1.3.0</Version>
    <ServerUrl>{escape(with_query(uri, {}, {}))}</ServerUrl>
    <CRS>{crs.code}</CRS>
    <Layers>{escape(layer.id)}</Layers>
    <Styles>{escape(style)}</Styles>
    <ImageFormat>{media_type}</ImageFormat>{axes}
  </Service>
  <DataWindow>
    <UpperLeftX>{box.xmin!r}</UpperLeftX>
    <UpperLeftY>{box.ymax!r}</UpperLeftY>
    <LowerRightX>{box.xmax!r}</LowerRightX>
    <LowerRightY>{box.ymin!r}</LowerRightY>
    <SizeX>{max(1, width)}</SizeX>
    <SizeY>{max(1, height)}</SizeY>
  </DataWindow>
  <Projection>{_projection(crs.code)}</Projection>
  <BandsCount>1</BandsCount>
  <DataType>Float32</DataType>{nodata}
  <BlockSizeX>512</BlockSizeX>
  <BlockSizeY>512</BlockSizeY>
  <OverviewCount>{_overviews(width, height)}</OverviewCount>
</GDAL_WMS>
END
gdalinfo {name}
"""


def _overviews(width: int, height: int) -> int:
    """Return how often a raster can be halved until it is a block."""
    return max(0, (max(width, height) // 512).bit_length())


def _projection(code: str) -> str:
    return "OGC:CRS84" if code == "CRS:84" else code


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
