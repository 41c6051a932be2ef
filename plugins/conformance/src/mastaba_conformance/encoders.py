"""Conformance tests for encoders: subclass `EncoderTests` and set its class attributes.

For example::

    class TestPpmEncoder(EncoderTests):
        encoder_class = PpmEncoder
        signature = b"P6"
        tolerance = 0
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba.errors import InvalidParameterError
from mastaba_conformance.deadline import together
from mastaba_render.api.encoders import Encoder, Raster, StripEncoder, StripRaster

__all__ = [
    "EncoderTests",
    "accepted_by",
    "in_strips",
    "make_raster",
]

_SIZES = [(1, 1), (1, 7), (7, 1), (33, 65), (300, 517)]
_COMBINATIONS = [
    pytest.param(np.dtype(dtype), channels, id=f"{dtype}-{channels}")
    for dtype in ("uint8", "float32")
    for channels in (1, 2, 3, 4)
]
_MOST_COPIES = 32
_SPARE = 64 * 1024**2
_NEVER = [("int16", 1), ("uint16", 3), ("float64", 1), ("bool", 1)]
_HOSTILE = ["", " ", "x", "-1", "0", "7.5", "1e999", "nan", "9" * 5000, "٣", "\0", "a:b;c", "%s{0}"]
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]*(;\s?[a-z0-9-]+=[a-z0-9.+-]+)*")
_LARGE_SIDE = 2600
"""Pixels: a raster of this side needs more memory than an encoder that works in strips may hold."""


class _EncoderKit:
    """What all levels share; see `EncoderTests`."""

    kit: ClassVar = "encoder"
    levels: ClassVar = ("declaration", "images", "strips", "round trip", "options", "threads")

    time_limit: ClassVar[float] = 60.0
    encoder_class: ClassVar[type[Encoder]]
    signature: ClassVar[bytes] = b""
    tolerance: ClassVar[float | None] = None
    decoded_channels: ClassVar[Mapping[int, int]] = {}
    options: ClassVar[Mapping[str, Iterable[str]]] = {}
    refused_options: ClassVar[Mapping[str, Iterable[str]]] = {}
    too_large: ClassVar[tuple[int, int] | None] = None

    def decode(self, data: bytes) -> NDArray[Any]:
        """Return the samples of an image, shape (rows, columns, channels). By default, Pillow."""
        try:
            with Image.open(io.BytesIO(data)) as image:
                image.load()
                pixels = np.asarray(image)
        except UnidentifiedImageError:
            pytest.fail("Pillow cannot read the image: override the method decode")
        return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]

    @pytest.fixture
    def encoder(self) -> Encoder:
        """The tested encoder."""
        return self.encoder_class()

    @pytest.fixture
    def accepted(self, encoder: Encoder) -> tuple[np.dtype[Any], int]:
        """A sample type and a number of channels that the encoder accepts."""
        return accepted_by(encoder)[0]


def accepted_by(encoder: Encoder) -> list[tuple[np.dtype[Any], int]]:
    """Return the sample types and numbers of channels that an encoder accepts."""
    kinds: list[np.dtype[Any]] = [np.dtype(np.uint8), np.dtype(np.float32)]
    found = [pair for pair in itertools.product(kinds, (3, 1, 2, 4)) if encoder.accepts(*pair)]
    assert found, "the encoder accepts neither uint8 nor float32 samples of 1 to 4 channels"
    return found


def make_raster(
    rows: int,
    columns: int,
    dtype: np.dtype[Any],
    channels: int,
    nodata: tuple[float, ...] | None = None,
) -> Raster:
    """Return a smooth raster in which every corner and every channel is different.

    The last of 2 or 4 channels is from 130 to 250: formats may drop an alpha channel that is
    opaque, and colours that are transparent.
    """
    y = np.linspace(0, 1, rows)[:, np.newaxis]
    x = np.linspace(0, 1, columns)[np.newaxis, :]
    bands = [40 + 150 * x + 20 * y, 220 - 170 * y + 10 * x, 60 + 80 * x + 90 * y]
    bands[channels - 1 :] = [250 - 120 * x * y] if channels in (2, 4) else bands[channels - 1 :]
    values = np.stack(np.broadcast_arrays(*bands[:channels]), axis=-1)
    if dtype == np.float32:
        values = values * 17.3 - 400.7
    pixels = np.ascontiguousarray(values.astype(dtype))
    pixels.flags.writeable = False
    box = BoundingBox(1000.0, 2000.0, 1000.0 + 10 * columns, 2000.0 + 10 * rows)
    return Raster(pixels, box, CRS.from_code("EPSG:3857"), nodata)


def in_strips(raster: Raster, heights: Iterable[int]) -> StripRaster:
    """Return a raster in strips of given heights; the last one contains all further rows."""

    def strips() -> Iterator[NDArray[Any]]:
        start = 0
        for height in heights:
            if start + height >= len(raster.pixels):
                break
            yield raster.pixels[start : start + height]
            start += height
        yield raster.pixels[start:]

    pixels = raster.pixels
    return StripRaster(pixels.shape, pixels.dtype, raster.bbox, raster.crs, raster.nodata, strips())


class DeclarationTests(_EncoderKit):
    level = "declaration"

    def test_attributes(self, encoder: Encoder) -> None:
        assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", encoder.name)
        assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", encoder.extension), "without dot, lower case"
        assert _MEDIA_TYPE.fullmatch(encoder.media_type), "type/subtype in lower case"
        assert isinstance(encoder.is_picture, bool)
        assert isinstance(encoder.holds_alpha, bool)

    @pytest.mark.parametrize(("dtype", "channels"), _COMBINATIONS)
    def test_accepts_is_true_or_false(
        self, encoder: Encoder, dtype: np.dtype[Any], channels: int
    ) -> None:
        answer = encoder.accepts(dtype, channels)
        assert isinstance(answer, bool | np.bool_), f"accepts returns {answer!r}"

    def test_something_is_accepted(self, encoder: Encoder) -> None:
        accepted_by(encoder)

    @pytest.mark.parametrize(("dtype", "channels"), _NEVER)
    def test_other_samples_are_not_accepted(
        self, encoder: Encoder, dtype: str, channels: int
    ) -> None:
        assert not encoder.accepts(np.dtype(dtype), channels)

    def test_alpha_is_accepted_if_the_format_holds_it(self, encoder: Encoder) -> None:
        alpha = [encoder.accepts(np.dtype(np.uint8), channels) for channels in (2, 4)]
        if encoder.is_picture:
            assert any(alpha) == encoder.holds_alpha

    def test_memory_grows_with_the_raster(
        self, encoder: Encoder, accepted: tuple[np.dtype[Any], int]
    ) -> None:
        dtype, channels = accepted
        sizes = [encoder.memory((rows, 2000, channels), dtype) for rows in (1, 100, 10_000)]
        assert all(isinstance(size, int | np.integer) for size in sizes)
        assert 0 < sizes[0] <= sizes[1] <= sizes[2]


class ImageTests(_EncoderKit):
    level = "images"

    @pytest.fixture(params=_SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
    def size(self, request: pytest.FixtureRequest) -> Any:
        """Rows and columns of an image."""
        return request.param

    def test_every_accepted_raster_is_encoded(
        self, encoder: Encoder, size: tuple[int, int]
    ) -> None:
        for dtype, channels in accepted_by(encoder):
            raster = make_raster(*size, dtype, channels)
            before = raster.pixels.copy()
            data = encoder.encode(raster, {})
            assert type(data) is bytes, f"encode returns {type(data).__name__}, not bytes"
            assert data
            assert data.startswith(self.signature)
            assert np.array_equal(raster.pixels, before), "the raster is modified"
            again = encoder.encode(raster, {}) == data
            assert again, "the same raster is encoded differently the second time"

    def test_views_with_gaps_are_encoded(
        self, encoder: Encoder, accepted: tuple[np.dtype[Any], int]
    ) -> None:
        whole = make_raster(60, 90, *accepted)
        part: Any = whole.pixels[::2, 1::3]
        view = Raster(part, whole.bbox, whole.crs)
        copy = Raster(np.ascontiguousarray(part), whole.bbox, whole.crs)
        assert encoder.encode(view, {}) == encoder.encode(copy, {})

    @pytest.mark.parametrize("value", [0.0, -99999.0, 255.0, 1e30, float("nan")])
    def test_nodata_is_accepted(self, encoder: Encoder, value: float) -> None:
        for dtype, channels in accepted_by(encoder):
            if dtype == np.uint8 and not 0 <= value <= 255:
                continue
            assert encoder.encode(make_raster(9, 9, dtype, channels, (value,) * channels), {})

    def test_infinite_samples_are_encoded(self, encoder: Encoder) -> None:
        for dtype, channels in accepted_by(encoder):
            if dtype == np.float32:
                pixels = np.full((5, 4, channels), np.nan, np.float32)
                pixels[0], pixels[1] = np.inf, -np.inf
                box = BoundingBox(0.0, 0.0, 4.0, 5.0)
                assert encoder.encode(Raster(pixels, box, CRS.from_code("CRS:84")), {})

    def test_image_that_is_too_large_is_refused(self, encoder: Encoder) -> None:
        if self.too_large is None:
            pytest.skip("not declared: too_large")
        for dtype, channels in accepted_by(encoder):
            shape = (*self.too_large, channels)
            pixels: Any = np.broadcast_to(np.zeros(1, dtype), shape)
            raster = Raster(pixels, BoundingBox(0.0, 0.0, 1.0, 1.0), CRS.from_code("CRS:84"))
            with pytest.raises(InvalidParameterError) as caught:
                encoder.encode(raster, {})
            assert caught.value.parameter
            with pytest.raises(InvalidParameterError):
                next(iter(encoder.encode_strips(in_strips(raster, [1]), {})))


class StripTests(_EncoderKit):
    level = "strips"

    @pytest.mark.parametrize(
        "heights",
        [
            pytest.param([], id="one strip"),
            pytest.param([1] * 299, id="single rows"),
            pytest.param([7, 1, 100, 3, 64], id="any heights"),
        ],
    )
    def test_image_does_not_depend_on_the_strips(
        self, encoder: Encoder, heights: list[int]
    ) -> None:
        for dtype, channels in accepted_by(encoder):
            raster = make_raster(300, 517, dtype, channels)
            pieces = list(encoder.encode_strips(in_strips(raster, heights), {}))
            assert all(type(piece) is bytes for piece in pieces), "each piece is bytes"
            same = b"".join(pieces) == encoder.encode(raster, {})
            assert same, f"{dtype}, {channels} channels: strips and whole differ"

    def test_memory_is_not_exceeded(
        self, encoder: Encoder, accepted: tuple[np.dtype[Any], int]
    ) -> None:
        dtype, channels = accepted
        height = 20
        strip = np.ascontiguousarray(
            np.broadcast_to(
                make_raster(height, 1, dtype, channels).pixels, (height, 2600, channels)
            )
        )
        # One that needs the whole raster is not given a large one.
        rows = 400
        if isinstance(encoder, StripEncoder):
            rows = max(_LARGE_SIDE, 24 * 2**20 // strip[0].nbytes) // height * height
        shape = (rows, strip.shape[1], channels)
        strips = StripRaster(
            shape,
            dtype,
            BoundingBox(0.0, 0.0, 1.0, 1.0),
            CRS.from_code("CRS:84"),
            None,
            (strip.copy() for _ in range(rows // height)),
        )
        tracemalloc.start()
        try:
            for _ in encoder.encode_strips(strips, {}):
                pass
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        limit = encoder.memory(shape, dtype)
        assert peak <= limit, f"{peak} bytes are held at once, but memory() says {limit}"
        most = _MOST_COPIES * math.prod(shape) * dtype.itemsize + _SPARE
        assert limit <= most, f"memory() says {limit}, so maps of this size would be refused"


class RoundTripTests(_EncoderKit):
    level = "round trip"

    @pytest.mark.parametrize(("dtype", "channels"), _COMBINATIONS)
    def test_decoded_image_is_the_raster(
        self, encoder: Encoder, dtype: np.dtype[Any], channels: int
    ) -> None:
        if self.tolerance is None:
            pytest.skip("not declared: tolerance of a decoded image")
        if not encoder.accepts(dtype, channels):
            pytest.skip("not declared: accepts() refuses these samples")
        for rows, columns in ((33, 65), (1, 1), (130, 70)):
            raster = make_raster(rows, columns, dtype, channels)
            decoded = self.decode(encoder.encode(raster, {}))
            count = self.decoded_channels.get(channels, channels)
            assert decoded.shape == (rows, columns, count)
            self._compare(decoded, raster.pixels)

    def test_transparent_pixels_stay_transparent(self, encoder: Encoder) -> None:
        if self.tolerance is None or not encoder.holds_alpha:
            pytest.skip("not declared: alpha, and tolerance of a decoded image")
        for channels in (2, 4):
            if encoder.accepts(np.dtype(np.uint8), channels):
                pixels = np.full((40, 50, channels), 200, np.uint8)
                pixels[10:20, 5:30, -1] = 0
                box = BoundingBox(0.0, 0.0, 50.0, 40.0)
                raster = Raster(pixels, box, CRS.from_code("EPSG:3857"))
                alpha = self.decode(encoder.encode(raster, {}))[:, :, -1]
                same = np.array_equal(alpha == 0, pixels[:, :, -1] == 0)
                assert same, "other pixels are transparent in the decoded image"

    def _compare(self, decoded: NDArray[Any], pixels: NDArray[Any]) -> None:
        assert self.tolerance is not None
        if decoded.shape[2] != pixels.shape[2]:
            alpha = pixels[:, :, 1:] if pixels.shape[2] == 2 else pixels[:, :, :0]
            pixels = np.concatenate([np.repeat(pixels[:, :, :1], 3, axis=2), alpha], axis=2)
        if self.tolerance == 0:
            assert decoded.dtype == pixels.dtype
        difference = float(np.abs(decoded.astype(float) - pixels.astype(float)).mean())
        assert difference <= self.tolerance, "the decoded image differs from the raster"


class OptionTests(_EncoderKit):
    level = "options"

    def test_valid_options_are_accepted(
        self, encoder: Encoder, accepted: tuple[np.dtype[Any], int]
    ) -> None:
        raster = make_raster(20, 30, *accepted)
        for name, values in self.options.items():
            for value in values:
                encoder.check_options({name: value})
                assert encoder.encode(raster, {name: value}).startswith(self.signature)

    def test_unknown_options_are_ignored(
        self, encoder: Encoder, accepted: tuple[np.dtype[Any], int]
    ) -> None:
        raster = make_raster(20, 30, *accepted)
        options = {"no-such-option": "1", "": ""}
        encoder.check_options(options)
        assert encoder.encode(raster, options) == encoder.encode(raster, {})

    def test_invalid_options_are_refused_by_name(
        self, encoder: Encoder, accepted: tuple[np.dtype[Any], int]
    ) -> None:
        if not self.refused_options:
            pytest.skip("not declared: refused_options")
        raster = make_raster(20, 30, *accepted)
        for name, values in self.refused_options.items():
            for value in values:
                for refuse in (encoder.check_options, lambda given: encoder.encode(raster, given)):
                    with pytest.raises(InvalidParameterError) as caught:
                        refuse({name: value})
                    assert caught.value.parameter

    @pytest.mark.parametrize("value", _HOSTILE, ids=lambda value: repr(value[:9]))
    def test_any_option_is_taken_ignored_or_refused(
        self, encoder: Encoder, accepted: tuple[np.dtype[Any], int], value: str
    ) -> None:
        raster = make_raster(20, 30, *accepted)
        for name in {*self.options, *self.refused_options, "quality", "compression"}:
            refusals = []
            for attempt in (encoder.check_options, lambda given: encoder.encode(raster, given)):
                refused = False
                with contextlib.suppress(InvalidParameterError):
                    refused = True
                    attempt({name: value})
                    refused = False
                refusals.append(refused)
            assert refusals[0] == refusals[1], "check_options and encode disagree"


class ThreadTests(_EncoderKit):
    level = "threads"

    def test_one_encoder_in_many_threads(
        self, encoder: Encoder, accepted: tuple[np.dtype[Any], int]
    ) -> None:
        rasters = [make_raster(40 + number, 60, *accepted) for number in range(8)]
        expected = [self.encoder_class().encode(raster, {}) for raster in rasters]

        def encode(number: int) -> bool:
            strips = in_strips(rasters[number], [5, 9])
            return (
                encoder.encode(rasters[number], {}) == expected[number]
                and b"".join(encoder.encode_strips(strips, {})) == expected[number]
            )

        calls = [lambda number=number: encode(number) for number in range(8)] * 3
        assert all(together(self.time_limit, "encoding in threads", calls))


class EncoderTests(
    DeclarationTests, ImageTests, StripTests, RoundTripTests, OptionTests, ThreadTests
):
    """The contract of `mastaba_render.api.encoders.Encoder`, in levels.

    Subclasses set ``encoder_class``. The other class attributes declare abilities. Formats that
    Pillow does not read override the method ``decode``.

    Attributes:
        encoder_class: the tested encoder.
        signature: first bytes of every file of the format.
        tolerance: largest mean difference of decoded samples; 0 if the format is lossless. None:
            not declared, and nothing is decoded.
        decoded_channels: channels of a decoded image by those of the encoded one, if they differ:
            formats without grey return 3 for 1.
        options: valid values of each option.
        refused_options: values of options that are refused. Others may be refused or ignored.
        too_large: rows and columns of an image that the format cannot hold; None if there is no
            limit.
        time_limit: seconds after which a test fails because the encoder hangs.
        kit: kind of plugin, for the report.
        levels: levels of the tests, in the order of the report.
    """
