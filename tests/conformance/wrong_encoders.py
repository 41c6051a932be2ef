"""Wrong encoders: each has one bug, and names the test of the kit that must report it.

`test_wrong_plugins.py` runs this file in a process of its own.
"""

from __future__ import annotations

import math
import random
import struct
import threading
import time

import numpy as np
from tests.conformance.flat import FlatEncoder, decode
from tests.conformance.wrong import WrongPlugins

from mastaba.errors import InvalidParameterError
from mastaba_conformance.encoders import EncoderTests
from mastaba_render.encoder import Encoder, StripRaster


class TestRight(EncoderTests):
    encoder_class: type[FlatEncoder] = FlatEncoder
    signature = b"FLAT"
    tolerance = 0
    too_large = (1, 65536)
    options = {"check": ("none", "crc")}  # noqa: RUF012
    refused_options = {"check": ("md5",)}  # noqa: RUF012

    def decode(self, data):
        return decode(data)


WRONG: WrongPlugins[type[FlatEncoder]] = WrongPlugins()
reported_by = WRONG.reported_by


# ---------------------------------------------------------------- declaration


@reported_by("test_attributes")
class MediaTypeInCapitals(FlatEncoder):
    media_type = "Image/X-Flat"


@reported_by("test_attributes")
class ExtensionWithDot(FlatEncoder):
    extension = ".flat"


@reported_by("test_attributes")
class NameWithSpace(FlatEncoder):
    name = "flat file"


@reported_by("test_accepts_is_true_or_false")
class AcceptsAsText(FlatEncoder):
    def accepts(self, dtype, channels):
        return "yes" if super().accepts(dtype, channels) else ""


@reported_by("test_something_is_accepted")
class AcceptsNothing(FlatEncoder):
    def accepts(self, dtype, channels):
        return False


@reported_by("test_other_samples_are_not_accepted")
class AcceptsAnySamples(FlatEncoder):
    def accepts(self, dtype, channels):
        return channels <= 4


@reported_by("test_alpha_is_accepted_if_the_format_holds_it")
class AlphaNotDeclared(FlatEncoder):
    holds_alpha = False


@reported_by("test_alpha_is_accepted_if_the_format_holds_it")
class AlphaNotAccepted(FlatEncoder):
    def accepts(self, dtype, channels):
        return super().accepts(dtype, channels) and channels in (1, 3)


@reported_by("test_memory_grows_with_the_raster")
class NeedsNoMemory(FlatEncoder):
    def memory(self, shape, dtype):
        return 0


# ---------------------------------------------------------------- images


@reported_by("test_every_accepted_raster_is_encoded")
class ReturnsBytearray(FlatEncoder):
    def encode(self, raster, options):
        return bytearray(super().encode(raster, options))


@reported_by("test_every_accepted_raster_is_encoded")
class RefusesFloats(FlatEncoder):
    def samples(self, strip):
        if strip.dtype != np.uint8:
            raise TypeError("only bytes")
        return super().samples(strip)


@reported_by("test_every_accepted_raster_is_encoded")
class FailsForOneRow(FlatEncoder):
    def encode(self, raster, options):
        rows = len(raster.pixels)
        assert 100 // (rows - 1)
        return super().encode(raster, options)


@reported_by("test_every_accepted_raster_is_encoded")
class WritesIntoTheRaster(FlatEncoder):
    def samples(self, strip):
        strip[0, 0] = 0
        return super().samples(strip)


@reported_by("test_every_accepted_raster_is_encoded")
class OtherSignature(FlatEncoder):
    def encode(self, raster, options):
        return b"\xef\xbb\xbf" + super().encode(raster, options)


@reported_by("test_every_accepted_raster_is_encoded")
class WritesTheTime(FlatEncoder):
    def encode(self, raster, options):
        return super().encode(raster, options) + struct.pack("<d", time.perf_counter())


@reported_by("test_views_with_gaps_are_encoded")
class ReadsMemoryOfViews(FlatEncoder):
    def samples(self, strip):
        base = strip if strip.base is None else np.asarray(strip.base)
        return super().samples(base.reshape(-1)[: strip.size])


@reported_by("test_nodata_is_accepted")
class CountsWithNodata(FlatEncoder):
    def encode_strips(self, raster, options):
        if raster.nodata:
            int(raster.nodata[0])
        return super().encode_strips(raster, options)


@reported_by("test_infinite_samples_are_encoded")
class RoundsSamples(FlatEncoder):
    def samples(self, strip):
        int(strip.max())
        return super().samples(strip)


@reported_by("test_image_that_is_too_large_is_refused")
class TooLargeIsErrorOfStruct(FlatEncoder):
    def encode_strips(self, raster, options):
        yield struct.pack("<HH", *raster.shape[:2])[:0]
        yield from super().encode_strips(raster, options)


@reported_by("test_image_that_is_too_large_is_refused")
class CutsLargeImages(FlatEncoder):
    def encode_strips(self, raster, options):
        rows, columns, channels = raster.shape
        strips = (strip[:, :0xFFFF] for strip in raster.strips)
        shape = rows, min(columns, 0xFFFF), channels
        cut = StripRaster(shape, raster.dtype, raster.bbox, raster.crs, raster.nodata, strips)
        return super().encode_strips(cut, options)


@reported_by("test_image_that_is_too_large_is_refused")
class RefusesAfterTheFirstPiece(FlatEncoder):
    def encode_strips(self, raster, options):
        yield b"FLAT"
        for number, piece in enumerate(super().encode_strips(raster, options)):
            yield piece if number else piece[4:]


# ---------------------------------------------------------------- strips


@reported_by("test_image_does_not_depend_on_the_strips")
class MarksStrips(FlatEncoder):
    def samples(self, strip):
        return super().samples(strip) + b"|"


@reported_by("test_image_does_not_depend_on_the_strips")
class TakesTheFirstStrip(FlatEncoder):
    def encode_strips(self, raster, options):
        strips = [next(iter(raster.strips))]
        first = StripRaster(
            raster.shape, raster.dtype, raster.bbox, raster.crs, raster.nodata, strips
        )
        return super().encode_strips(first, options)


@reported_by("test_image_does_not_depend_on_the_strips")
class YieldsViews(FlatEncoder):
    def samples(self, strip):
        return memoryview(super().samples(strip))


@reported_by("test_memory_is_not_exceeded")
class HoldsTheWholeRaster(FlatEncoder):
    def encode_strips(self, raster, options):
        return iter(list(super().encode_strips(raster, options)))


@reported_by("test_memory_is_not_exceeded")
class SaysTooLittleMemory(Encoder):
    """Not a `StripEncoder`."""

    name, media_type, extension, holds_alpha = "flat", "image/x-flat", "flat", True
    accepts = FlatEncoder.accepts

    def encode(self, raster, options):
        return FlatEncoder().encode(raster, options)

    def memory(self, shape, dtype):
        return 1000 + math.prod(shape) // 4


@reported_by("test_memory_is_not_exceeded")
class SaysTooMuchMemory(FlatEncoder):
    def memory(self, shape, dtype):
        return 1000 * math.prod(shape)


# ---------------------------------------------------------------- round trip


class OtherSamples(FlatEncoder):
    def samples(self, strip):
        return super().samples(self.other(strip))


@reported_by("test_decoded_image_is_the_raster")
class SwapsColours(OtherSamples):
    def other(self, strip):
        return strip[:, :, [2, 1, 0, *range(3, strip.shape[2])]] if strip.shape[2] > 2 else strip


@reported_by("test_decoded_image_is_the_raster")
class Mirrors(OtherSamples):
    def other(self, strip):
        return strip[:, ::-1]


@reported_by("test_decoded_image_is_the_raster")
class StartsAtTheBottom(OtherSamples):
    def other(self, strip):
        return strip[::-1]


@reported_by("test_decoded_image_is_the_raster")
class WritesColumns(OtherSamples):
    def other(self, strip):
        return strip.transpose(1, 0, 2)


@reported_by("test_decoded_image_is_the_raster")
class WritesBands(OtherSamples):
    def other(self, strip):
        return strip.transpose(2, 0, 1)


@reported_by("test_decoded_image_is_the_raster")
class WritesBigEndian(OtherSamples):
    def samples(self, strip):
        return strip.astype(strip.dtype.newbyteorder(">")).tobytes()


@reported_by("test_decoded_image_is_the_raster")
class LosesABit(OtherSamples):
    def other(self, strip):
        return strip & 0xFE if strip.dtype == np.uint8 else strip


@reported_by("test_decoded_image_is_the_raster")
class PremultipliesAlpha(OtherSamples):
    def other(self, strip):
        if strip.dtype != np.uint8 or strip.shape[2] != 4:
            return strip
        colours = strip[:, :, :3].astype(int) * strip[:, :, 3:] // 255
        return np.concatenate([colours.astype(np.uint8), strip[:, :, 3:]], axis=2)


@reported_by("test_transparent_pixels_stay_transparent")
class FillsTransparentPixels(OtherSamples):
    def other(self, strip):
        alpha = strip.dtype == np.uint8 and strip.shape[2] in (2, 4)
        return np.maximum(strip, 1) if alpha else strip


# ---------------------------------------------------------------- options, threads


@reported_by("test_invalid_options_are_refused_by_name")
class ChecksOptionsLate(FlatEncoder):
    def check_options(self, options):
        pass

    def encode_strips(self, raster, options):
        super().check_options(options)
        return super().encode_strips(raster, options)


@reported_by("test_invalid_options_are_refused_by_name")
class RefusesWithoutName(FlatEncoder):
    def check_options(self, options):
        if options.get("check", "none") not in ("none", "crc"):
            raise InvalidParameterError("invalid check")


@reported_by("test_unknown_options_are_ignored")
class RefusesUnknownOptions(FlatEncoder):
    def check_options(self, options):
        super().check_options(options)
        if set(options) - {"check"}:
            raise InvalidParameterError("unknown option", "FORMAT_OPTIONS")


@reported_by("test_any_option_is_taken_ignored_or_refused")
class TakesNumbersOnly(FlatEncoder):
    def encode_strips(self, raster, options):
        int(options.get("quality", "75"))
        return super().encode_strips(raster, options)


@reported_by("test_valid_options_are_accepted")
class KnowsNoCheckSums(FlatEncoder):
    def check_options(self, options):
        if options.get("check", "none") != "none":
            raise InvalidParameterError("the check is none", "FORMAT_OPTIONS")


@reported_by("test_one_encoder_in_many_threads")
class SharesTheRaster(FlatEncoder):
    def encode_strips(self, raster, options):
        self.raster = raster
        time.sleep(random.random() / 1000)
        yield from super().encode_strips(self.raster, options)


@reported_by("test_one_encoder_in_many_threads")
class HangsInThreads(FlatEncoder):
    busy = threading.Lock()

    def samples(self, strip):
        if not self.busy.acquire(blocking=False):
            threading.Event().wait()
        try:
            time.sleep(0.001)
            return super().samples(strip)
        finally:
            self.busy.release()


globals().update(
    WRONG.test_classes(
        TestRight,
        "encoder_class",
        lambda encoder: {"time_limit": 1.0 if encoder is HangsInThreads else 60.0},
    )
)
