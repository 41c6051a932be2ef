"""What the ETag of a map contains."""

from dataclasses import dataclass, field

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba_render.api.maps import identity_of
from mastaba_render.encoding.jpeg import JpegEncoder


@dataclass(frozen=True)
class Query:
    bbox: BoundingBox
    crs: CRS
    options: dict[str, str]
    names: frozenset[str] = frozenset()
    file_name: str | None = field(default=None, compare=False)


BBOX = BoundingBox(0.0, 1.0, 2.0, 3.0)


def test_compared_fields_only() -> None:
    crs = CRS.from_code("EPSG:3857")
    first = identity_of(Query(BBOX, crs, {"a": "1", "b": "2"}, frozenset("xyz"), "map"))
    assert first == identity_of(Query(BBOX, crs, {"b": "2", "a": "1"}, frozenset("zyx"), "other"))
    assert first == [[0.0, 1.0, 2.0, 3.0], "EPSG:3857", [("a", "1"), ("b", "2")], ["x", "y", "z"]]


def test_settings_of_an_encoder() -> None:
    usual, small = JpegEncoder(), JpegEncoder()
    small.settings = {"quality": 10}
    assert identity_of(usual) != identity_of(small)
    assert identity_of(usual) == identity_of(JpegEncoder())


def test_it_is_its_own_identity() -> None:
    query = identity_of(Query(BBOX, CRS.from_code("CRS:84"), {"a": "1"}))
    assert repr(identity_of(query)) == repr(identity_of(identity_of(query)))
