"""Tables in the VRT format of GDAL: simple and complex sources only.

Read by events, without a tree, a document type or entities: a stranger may have written it.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final
from xml.parsers import expat

from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.table import Rows
from mastaba_server.web.parameters import whole_number

_REMEDY: Final = "make it with gdalbuildvrt"
_SOURCES: Final = frozenset({"SimpleSource", "ComplexSource"})
_DEEPEST: Final = 32
_LONGEST: Final = 64 * 1024
_ALLOWED: Final = frozenset(
    (
        *("SourceFilename", "SourceBand", "SourceProperties", "SrcRect", "DstRect"),
        *("NODATA", "UseMaskBand"),
    )
)
"""Elements of sources whose pixels are copied."""
_EPSG: Final = re.compile(r'EPSG:(\d{4,6})|(?:AUTHORITY|ID)\["EPSG","?(\d{4,6})"?\]\]?\s*$')


def rows_of_vrt(data: bytes) -> Rows:
    """Return a row for each file. Raises `CogError`."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError:
        raise CogError("it is not valid XML", _REMEDY) from None
    return reader.rows()


class _Reader:
    """Collects the sources of a document."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._text: list[str] = []
        self._length = 0
        self._attributes: dict[str, str] = {}
        self._source: dict[str, Any] = {}
        self._band = 0
        self._found: dict[str, dict[str, Any]] = {}
        self._header: dict[str, str] = {}

    def refuse(self, *_: Any) -> None:
        raise CogError("it has a document type or entities", _REMEDY)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self._path[-1] if self._path else ""
        if len(self._path) == _DEEPEST:
            raise CogError("its elements are nested too deeply", _REMEDY)
        if not self._path and (name != "VRTDataset" or "subClass" in attributes):
            raise CogError("it is not a plain VRT", _REMEDY)
        if len(self._path) == 1 and name == "VRTRasterBand":
            self._band += 1
            if "subClass" in attributes:
                raise CogError(f"it has a {attributes['subClass'][:40]}", _REMEDY)
        if parent == "VRTRasterBand" and name.endswith("Source") and name not in _SOURCES:
            raise CogError(f"it has a {name[:40]}", _REMEDY)
        if parent in _SOURCES and name not in _ALLOWED:
            raise CogError(f"a source has the element {name[:40]}", _REMEDY)
        if name in _SOURCES:
            self._source = {}
        self._path.append(name)
        self._attributes, self._text, self._length = attributes, [], 0
        if parent in _SOURCES:
            self._source[name] = attributes

    def text(self, text: str) -> None:
        self._length += len(text)
        if self._length > _LONGEST:
            raise CogError("a text is too long", _REMEDY)
        self._text.append(text)

    def end(self, name: str) -> None:
        self._path.pop()
        parent, text = (self._path[-1] if self._path else ""), "".join(self._text).strip()
        if len(self._path) == 1 and name in ("SRS", "GeoTransform"):
            self._header[name] = text
        if parent in _SOURCES and name in ("SourceFilename", "SourceBand", "NODATA"):
            self._source[f"{name} text"] = text
        if name in _SOURCES:
            self._finish()
        self._text = []

    def _finish(self) -> None:
        source = self._source
        name = source.get("SourceFilename text", "")
        relative = source.get("SourceFilename", {}).get("relativeToVRT")
        if not name:
            raise CogError("a source has no file", _REMEDY)
        if relative != "1" and not name.startswith("/") and "://" not in name:
            raise CogError(f"the path {name[:80]!r} is not relative to the VRT", _REMEDY)
        sizes = [_rectangle(source.get(key, {})) for key in ("SrcRect", "DstRect")]
        for here, there in ((2, 2), (3, 3)):
            if abs(sizes[0][here] - sizes[1][there]) > 0.01 * max(1.0, sizes[0][here]):
                raise CogError(f"{name[:80]!r} is resampled", "build a VRT of one resolution")
        band = source.get("SourceBand text", "1")
        number = whole_number(band)
        if number is None:
            raise CogError(f"{name[:80]!r} is read from the band {band[:40]}", _REMEDY)
        known = self._found.setdefault(
            name, {"rectangle": sizes[1], "bands": {}, "nodata": source.get("NODATA text")}
        )
        known["bands"].setdefault(self._band, number)

    def rows(self) -> Rows:
        place = [_number(value) for value in self._header.get("GeoTransform", "").split(",")]
        if len(place) != 6 or place[2] or place[4] or place[1] <= 0 or place[5] >= 0:
            raise CogError("its position is missing or rotated", _REMEDY)
        code = _EPSG.search(self._header.get("SRS", ""))
        if code is None:
            raise CogError("its CRS has no code of EPSG", "make it with gdalbuildvrt -a_srs")
        rows = Rows(f"EPSG:{code[1] or code[2]}")
        for number, (name, source) in enumerate(self._found.items()):
            left, top, width, height = source["rectangle"]
            xmin, ymax = place[0] + left * place[1], place[3] + top * place[5]
            box = (xmin, ymax + height * place[5], xmin + width * place[1], ymax)
            bands = tuple(source["bands"].get(band) for band in range(1, self._band + 1))
            facts: dict[str, Any] = {}
            if None in bands:
                raise CogError(f"{name[:80]!r} is not in all bands", _REMEDY)
            if bands != tuple(range(1, len(bands) + 1)):
                facts["bands"] = bands
            if source["nodata"]:
                facts["nodata"] = _number(source["nodata"])
            rows.add(name, box, number, facts)
        return rows


def _rectangle(attributes: dict[str, str]) -> tuple[float, ...]:
    return tuple(_number(attributes.get(key, "")) for key in ("xOff", "yOff", "xSize", "ySize"))


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.inf
    if not math.isfinite(found):
        raise CogError(f"{text[:40]!r} is not a number", _REMEDY)
    return found
