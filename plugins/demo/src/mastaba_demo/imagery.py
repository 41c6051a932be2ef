"""Imagery of the world as seen from a satellite."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.colour import Colour, as_image, graded, mixed, paint
from mastaba_demo.light import coverage, hillshade, inner, prominence, slopes
from mastaba_demo.noise import Field, smoothstep
from mastaba_demo.terrain import Terrain

_SEA_DEPTHS = (-5200, -3800, -2000, -700, -180, -60, -15, 0)
_SEA_COLOURS = (
    (6, 16, 43),
    (8, 24, 58),
    (11, 36, 78),
    (16, 54, 98),
    (24, 78, 116),
    (38, 104, 130),
    (70, 138, 146),
    (112, 166, 160),
)
_SAND, _RED_EARTH, _STEPPE = (212, 192, 152), (184, 148, 110), (156, 150, 104)
_MEADOW, _FOREST, _JUNGLE, _TAIGA = (112, 124, 72), (62, 84, 50), (48, 80, 44), (56, 72, 56)
_TUNDRA, _ROCK, _BEACH = (120, 120, 92), (112, 105, 98), (222, 206, 168)
_CROPS = (
    (62, 84, 50),
    (62, 84, 50),
    (98, 118, 64),
    (128, 138, 78),
    (172, 160, 108),
    (150, 128, 92),
)
_CROP_PARTS = (0, 0.3, 0.5, 0.7, 0.88, 1)
_RIVER, _COLD_SHALLOWS = (34, 70, 86), (58, 84, 98)
_SNOW, _ICE = (232, 238, 246), (214, 226, 234)


def imagery(terrain: Terrain, level: int, water: Field) -> NDArray[np.uint8]:
    """Return the image of a terrain.

    Args:
        terrain: terrain with a margin of at least `light.MARGIN` pixels.
        level: level of the tile matrix set PM.
        water: opacity of rivers, 0 to 1, without margin.

    Returns:
        uint8, shape (rows, columns, 3), without margin.
    """
    height = inner(terrain.elevation, terrain)
    grain = inner(terrain.grain, terrain)
    east, south = slopes(terrain)
    steepness = np.hypot(east, south)
    light = hillshade(east, south, level)
    above = prominence(terrain, level)
    colour = _land(terrain, height, grain, steepness, above, level)
    sea = _sea(terrain, height, grain)
    _light_up(colour, light, above)
    paint(colour, _RIVER, water * np.float32(0.85))
    sea *= 1 + 0.22 * (light - 1)
    colour -= sea
    colour *= coverage(height, steepness, terrain.cell_size)
    colour += sea
    return as_image(colour)


def _land(
    terrain: Terrain, height: Field, grain: Field, steepness: Field, above: Field, level: int
) -> Colour:
    temperature = inner(terrain.temperature, terrain) - 0.0062 * np.maximum(height, 0)
    moisture = inner(terrain.moisture, terrain) - 0.16 * above + 0.13 * grain
    # Lowlands and mountains are wetter than the land between.
    moisture += 0.22 * smoothstep(700, 0, height) + 0.3 * smoothstep(500, 1700, height)
    green = smoothstep(-0.55, 0.5, moisture)

    dry = mixed(_SAND, _RED_EARTH, smoothstep(-0.6, 0.9, grain + 0.001 * height))
    paint(dry, _STEPPE, smoothstep(0.08, 0.45, green))
    forest = mixed(_TAIGA, _FOREST, smoothstep(2, 10, temperature))
    paint(forest, _JUNGLE, smoothstep(18, 25, temperature))
    paint(forest, _MEADOW, smoothstep(0.1, 0.9, grain) * 0.4)
    colour = dry
    paint(colour, forest, smoothstep(0.35, 0.85, green))

    if level >= 10:
        farmed = smoothstep(0.07, 0.025, steepness) * smoothstep(0.2, 0.4, green)
        farmed *= smoothstep(3, 8, temperature) * smoothstep(900, 500, height)
        farmed *= smoothstep(-0.5, -0.1, inner(terrain.moisture, terrain))
        crops = graded(inner(terrain.parcel, terrain), _CROP_PARTS, _CROPS)
        paint(colour, crops, farmed * np.float32(0.2 * (level - 9)))

    cold = smoothstep(4.5, -1.5, temperature + 1.2 * grain)
    paint(colour, _TUNDRA, cold)
    steep = steepness * np.float32(1 + 0.25 * (12 - min(level, 12)))
    bare = smoothstep(0.38, 0.85, steep + 0.1 * grain) * (0.45 + 0.55 * cold)
    paint(colour, _ROCK, bare)
    if level >= 9:
        beach = smoothstep(7, 1, height + 3 * grain) * smoothstep(0.06, 0.015, steepness)
        paint(colour, _BEACH, 0.8 * beach)
    canopy = 0.05 + 0.03 * (level >= 8) + 0.05 * (level >= 11) * green
    colour *= 1 + canopy * grain
    # Snow lies where it is cold, less on cliffs and crests, more in hollows.
    lying = temperature + 1.5 * grain + 2.2 * above + 5 * smoothstep(0.5, 1.1, steep)
    paint(colour, _SNOW, smoothstep(-3.0, -7.5, lying))
    return colour


def _sea(terrain: Terrain, height: Field, grain: Field) -> Colour:
    colour = graded(height, _SEA_DEPTHS, _SEA_COLOURS)
    temperature = inner(terrain.temperature, terrain)
    # Cold seas are greyer; warm shallows stay turquoise.
    cold = smoothstep(20, 2, temperature) * smoothstep(-700, -10, height)
    paint(colour, _COLD_SHALLOWS, cold * 0.5)
    patches = 5 * inner(terrain.moisture, terrain) + 0.7 * grain
    frozen = smoothstep(-7.5, -9.5, temperature + patches)
    paint(colour, _ICE, frozen * 0.92)
    return colour


def _light_up(colour: Colour, light: Field, above: Field) -> None:
    """Apply light in place: warm in the sun, bluish in the shade, darker in hollows."""
    light = np.clip(light, 0, 1.6)
    bright = 0.30 + 0.70 * light + 0.10 * above
    shade = np.clip(1 - light, 0, 1)
    for plane, warmth in zip(colour, (-0.06, -0.01, 0.16), strict=True):
        plane *= bright * (1 + np.float32(warmth) * shade)
    # Above 195, colours approach white slowly, so snow keeps its shading.
    over = np.maximum(colour - 195, 0)
    colour -= over
    colour += 58 * (1 - np.exp(over / -58))
