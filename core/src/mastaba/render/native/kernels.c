/* The inner loops of maps, called from Python through ctypes (see __init__.py).

   Arrays are C-contiguous. The caller passes shapes that fit together; source positions are
   checked here, because they come from coordinates. Each function returns 0, or one of the
   errors below. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NO_MEMORY = 1, OUTSIDE = 2 };

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

/* A position is cut to 1/1024 of a source pixel: this many bits for the fraction. */
#define FRACTION_BITS 10
#define FRACTIONS (1 << FRACTION_BITS)

/* Four channels of a pixel, computed at once. A pixel with fewer channels reads the samples that
   follow it: its own values are right, and the next pixel overwrites the rest. Rows therefore
   have room for SLACK samples after the last pixel. */
typedef float float4 __attribute__((vector_size(16)));
typedef uint8_t byte4 __attribute__((vector_size(4)));
#define SLACK 4

/* Samples of a row that are summed at once. */
#define BLOCK 32

INLINE float4 load_uint8(const uint8_t *samples)
{
    byte4 four;
    memcpy(&four, samples, sizeof four);
    return __builtin_convertvector(four, float4);
}

INLINE float4 load_float32(const float *samples)
{
    float4 four;
    memcpy(&four, samples, sizeof four);
    return four;
}

/* Write a finished row: bytes are rounded half up and clipped. */
INLINE void store_uint8(const float *line, uint8_t *row, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float value = line[i] + 0.5f;
        value = value > 0.0f ? value : 0.0f;
        row[i] = (uint8_t)(value < 255.0f ? value : 255.0f);
    }
}

INLINE void store_float32(const float *line, float *row, int64_t count)
{
    memcpy(row, line, (size_t)count * sizeof *row);
}

INLINE void combine_columns_of(const float *tall, const int64_t channels, const int64_t *first,
                               const float *weights, int64_t columns, int64_t taps, float *line)
{
    for (int64_t j = 0; j < columns; j++) {
        const float *place = tall + first[j] * channels;
        float4 total = {0};
        for (int64_t tap = 0; tap < taps; tap++, place += channels)
            total += weights[j * taps + tap] * load_float32(place);
        memcpy(line + j * channels, &total, sizeof total);
    }
}

static void combine_columns(const float *tall, int64_t channels, const int64_t *first,
                            const float *weights, int64_t columns, int64_t taps, float *line)
{
    /* A number of channels that the compiler knows is faster. */
    if (channels == 3)
        combine_columns_of(tall, 3, first, weights, columns, taps, line);
    else
        combine_columns_of(tall, channels, first, weights, columns, taps, line);
}

/* Distances to the edge of a tap are compared with this tolerance, as in mastaba.render.kernels. */
#define TOLERANCE 1e-7

/* Write the weights of the taps from `first` on; they sum to 1. */
static void weigh(const double *table, int64_t table_size, double position, double radius,
                  int64_t first, int64_t taps, float *weights)
{
    const int64_t last = table_size - 1;
    double total = 0.0;
    for (int64_t tap = 0; tap < taps; tap++) {
        double place = fabs((double)(first + tap) - position) / radius;
        place = (place < 1.0 ? place : 1.0) * (double)last;
        const int64_t whole = (int64_t)place < last ? (int64_t)place : last - 1;
        const double part = place - (double)whole;
        const double value = table[whole] * (1.0 - part) + table[whole + 1] * part;
        weights[tap] = (float)value;
        total += value;
    }
    for (int64_t tap = 0; tap < taps; tap++)
        weights[tap] = (float)(weights[tap] / total);
}

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define SAMPLE uint8_t
#define TYPED(name) JOIN(name, uint8)
#include "sampling.h"
#undef SAMPLE
#undef TYPED

#define SAMPLE float
#define TYPED(name) JOIN(name, float32)
#include "sampling.h"

/* Colours of values by a palette: mastaba.render.styles.apply_palette.

   steps: ascending. entries: steps x 4. result: count x 4. */
EXPORT int colours(const float *values, int64_t count, const double *steps, int64_t step_count,
                   const double *entries, int64_t rgb, int64_t alpha, uint8_t *result)
{
    const int64_t last = step_count - 1;
    int64_t below = 0;
    for (int64_t i = 0; i < count; i++, result += 4) {
        const double value = values[i];
        /* Neighbouring pixels are mostly between the same two steps. */
        if (!(steps[below] <= value && (below == last || value < steps[below + 1]))) {
            int64_t low = 0, high = step_count; /* first step above the value */
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (value < steps[middle])
                    high = middle;
                else
                    low = middle + 1;
            }
            below = low > 0 ? low - 1 : 0;
        }
        double part = 0.0;
        if (below < last && value > steps[below])
            part = (value - steps[below]) / (steps[below + 1] - steps[below]);
        for (int channel = 0; channel < 4; channel++) {
            double colour = entries[below * 4 + channel];
            if ((channel == 3 ? alpha : rgb) && part > 0.0)
                colour += (entries[below * 4 + 4 + channel] - colour) * part;
            result[channel] = (uint8_t)(colour + 1e-9);
        }
    }
    return 0;
}

/* Pixels with alpha on a background colour: mastaba.render.compose.as_picture.

   pixels: count x channels, the last one alpha. ground, result: 1 or 3 channels; grey pixels
   give all three. */
EXPORT int flatten(const uint8_t *pixels, int64_t count, int64_t channels, const uint8_t *ground,
                   int64_t ground_channels, uint8_t *result)
{
    const int64_t colour_channels = channels - 1;
    for (int64_t i = 0; i < count; i++, pixels += channels, result += ground_channels) {
        const uint32_t alpha = pixels[colour_channels];
        for (int64_t channel = 0; channel < ground_channels; channel++) {
            const uint32_t colour = pixels[channel < colour_channels ? channel : colour_channels - 1];
            result[channel] = (uint8_t)((colour * alpha + ground[channel] * (255 - alpha) + 127) / 255);
        }
    }
    return 0;
}
