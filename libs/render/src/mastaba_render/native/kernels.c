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

/* Pixels on a side of a block with positions of its own. */
#define BLOCK_SIDE 8

/* Where the pixels of a map read: mastaba.render.sampling.GridPositions.

   across, down: output columns and rows of the grid points, ascending. columns, rows, ratios_x,
   ratios_y: down_count x across_count, source positions and pixel sizes there; all are linear
   between the points. Without ratios, these are null. Each cell has the number of its block, or
   -1; blocks is null without any. details: blocks x 4 fields x BLOCK_SIDE x BLOCK_SIDE. If wrap is
   not 0, columns repeat after it, and those nearest to centre are taken. Source pixels outside the
   rows top to bottom and the columns left to right hold no data; a pixel whose kernel meets no
   others counts as one without a position. No kernel reads further outside than margin. */
typedef struct {
    const double *across, *down;
    const double *columns, *rows, *ratios_x, *ratios_y;
    const int32_t *blocks;
    const double *details;
    int64_t across_count, down_count;
    double wrap, centre;
    double top, bottom, left, right, margin;
} Grid;

enum { COLUMN, ROW, RATIO_X, RATIO_Y, FIELDS };

/* The positions of some pixels in one row, not finite without a position; ratios if there are. */
typedef struct {
    double *fields[FIELDS];
    int64_t left, right;
    int64_t above; /* line of the grid at or before the last row */
} Row;

static int open_row(Row *row, int64_t left, int64_t right)
{
    const int64_t size = right - left;
    double *fields = malloc((size_t)(FIELDS * size) * sizeof *fields);
    for (int field = 0; field < FIELDS; field++)
        row->fields[field] = fields + field * size;
    row->left = left;
    row->right = right;
    row->above = 0;
    return fields ? 0 : NO_MEMORY;
}

static int64_t within(double value, int64_t low, int64_t high)
{
    return value < (double)low ? low : value > (double)high ? high : (int64_t)value;
}

/* Compute the positions of row i of the map. Rows come in ascending order. */
static void locate(const Grid *grid, int64_t i, Row *row)
{
    while (row->above < grid->down_count - 2 && (double)i >= grid->down[row->above + 1])
        row->above++;
    const int64_t above = row->above, below = above + (grid->down_count > 1);
    const double *down = grid->down, *across = grid->across;
    const double part = below > above ? (i - down[above]) / (down[below] - down[above]) : 0.0;
    const double *points[FIELDS] = {grid->columns, grid->rows, grid->ratios_x, grid->ratios_y};
    const int fields = grid->ratios_x ? FIELDS : RATIO_X;
    const int64_t count = grid->across_count, cells = count > 1 ? count - 1 : 1;
    for (int64_t cell = 0; cell < cells; cell++) {
        const int64_t next = cell + (count > 1);
        const int64_t first = cell ? within(ceil(across[cell]), row->left, row->right) : row->left;
        const int64_t end = cell < cells - 1 ? within(ceil(across[next]), row->left, row->right)
                                             : row->right;
        const int32_t block = grid->blocks ? grid->blocks[above * cells + cell] : -1;
        const double run = next > cell ? across[next] - across[cell] : 1.0;
        for (int field = 0; field < fields && first < end; field++) {
            double *result = row->fields[field] - row->left;
            if (block >= 0) {
                const double *detail = grid->details + (block * FIELDS + field) * BLOCK_SIDE * BLOCK_SIDE
                    + within(i - ceil(down[above]), 0, BLOCK_SIDE - 1) * BLOCK_SIDE;
                for (int64_t j = first; j < end; j++)
                    result[j] = detail[within(j - ceil(across[cell]), 0, BLOCK_SIDE - 1)];
                continue;
            }
            const double *high = points[field] + above * count, *low = points[field] + below * count;
            const double start = high[cell] * (1 - part) + low[cell] * part;
            const double step = (high[next] * (1 - part) + low[next] * part - start) / run;
            for (int64_t j = first; j < end; j++)
                result[j] = start + ((double)j - across[cell]) * step;
        }
    }
    if (grid->wrap != 0.0)
        for (int64_t j = 0; j < row->right - row->left; j++) {
            double *column = row->fields[COLUMN] + j;
            *column -= grid->wrap * nearbyint((*column - grid->centre) / grid->wrap);
        }
}

/* Distances to the edge of a tap are compared with this tolerance, as in mastaba.render.sampling. */
#define TOLERANCE 1e-7

/* The first tap of a position, and the number of taps, for a kernel of some radius. */
INLINE double first_tap(double position, double radius)
{
    return ceil(position - radius - TOLERANCE);
}

INLINE double tap_count(double radius)
{
    return ceil(2.0 * radius - TOLERANCE);
}

/* Further away, positions have no fractions. */
#define FURTHEST (INT64_MAX >> FRACTION_BITS)

/* Nearer than this, the fractions up to a position are an exact integer. */
#define NEAR 0x1p43

/* Whether all positions of a row are finite and near. */
static int are_near(const double *positions, int64_t count)
{
    int near = 1;
    for (int64_t i = 0; i < count; i++)
        near &= fabs(positions[i]) < NEAR;
    return near;
}

/* Fractions of a source pixel up to a position, which is cut to them. */
INLINE int64_t fractions_to(double position, int near)
{
    const double fractions = floor(position * FRACTIONS);
    if (near)
        return (int64_t)fractions;
    return isfinite(position) ? within(fractions, -(INT64_MAX >> 1), INT64_MAX >> 1) : 0;
}

INLINE double cut(double position)
{
    return floor(position * FRACTIONS) / FRACTIONS;
}

/* Whether the taps of a pixel meet source pixels that may hold data. Not without a position. */
INLINE int meets(const Grid *grid, double row, double rows, double column, double columns)
{
    return row < grid->bottom && row + rows > grid->top
        && column < grid->right && column + columns > grid->left;
}

/* Whether all source pixels may hold data. */
INLINE int is_open(const Grid *grid)
{
    return grid->top == -INFINITY && grid->bottom == INFINITY
        && grid->left == -INFINITY && grid->right == INFINITY;
}

/* Places from low to high. */
typedef struct {
    int64_t low, high;
} Range;

/* Return where the first tap of a kernel may be if it reads only pixels of an image, and meets those
   that may hold data: rows or columns from begin to end. Other places need a closer look.

   first, last: the image has room for kernels between these. */
static Range inside(double begin, double end, int64_t taps, int64_t first, int64_t last)
{
    const int64_t low = within(floor(begin), -FURTHEST, FURTHEST) - taps + 1;
    const int64_t high = within(ceil(end), -FURTHEST, FURTHEST) - 1;
    return (Range){first > low ? first : low, last < high ? last : high};
}

/* Find the source pixels that part of a map needs.

   radius_x, radius_y: of the kernel; where the grid has ratios, times the ratio of the pixel.
   every_row: 0 if the pixels next to the lines of the grid show the extremes. placed: rows x columns,
   whether each pixel has a position, or null. bounds: first source row, row after the last, first
   column, column after the last; unchanged if no pixel has a position. taps: added up for the pixels
   that were looked at. boxes: rows x columns x 4, such bounds for each pixel that has a position, or
   null. */
EXPORT int survey(const Grid *grid, int64_t top, int64_t bottom, int64_t left, int64_t right,
                  double radius_x, double radius_y, int64_t every_row, uint8_t *placed,
                  int64_t *bounds, double *taps, int64_t *boxes)
{
    Row row;
    if (open_row(&row, left, right))
        return NO_MEMORY;
    double lowest[2] = {INFINITY, INFINITY}, highest[2] = {-INFINITY, -INFINITY}, sum = 0.0;
    const int open = is_open(grid);
    const double *ratios_x = grid->ratios_x;
    const double readable[2][2] = {{grid->top - grid->margin, grid->bottom + grid->margin},
                                   {grid->left - grid->margin, grid->right + grid->margin}};
    for (int64_t i = top; i < bottom; i++) {
        locate(grid, i, &row);
        int64_t cell = 0;
        for (int64_t j = 0; j < right - left; j++) {
            const double column = row.fields[COLUMN][j], line = row.fields[ROW][j];
            const double wide = ratios_x ? radius_x * row.fields[RATIO_X][j] : radius_x;
            const double high = ratios_x ? radius_y * row.fields[RATIO_Y][j] : radius_y;
            const double counts[2] = {tap_count(high), tap_count(wide)};
            /* Nor is a pixel drawn that is so far away that its fractions overflow. */
            const int found = isfinite((column + line) * FRACTIONS + wide + high)
                && (open || meets(grid, first_tap(cut(line), high), counts[0],
                                  first_tap(cut(column), wide), counts[1]));
            if (placed)
                placed[(i - top) * (right - left) + j] = (uint8_t)found;
            if (!found)
                continue;
            const double starts[2] = {first_tap(line, high), first_tap(column, wide)};
            double area = 1.0;
            for (int axis = 0; axis < 2; axis++) {
                double first = starts[axis], last = first + counts[axis];
                if (!open) {
                    first = fmax(first, readable[axis][0]);
                    last = fmin(last, readable[axis][1]);
                }
                lowest[axis] = first < lowest[axis] ? first : lowest[axis];
                highest[axis] = last > highest[axis] ? last : highest[axis];
                area *= last - first;
            }
            sum += area;
            if (boxes) {
                int64_t *box = boxes + 4 * ((i - top) * (right - left) + j);
                const double start[2] = {first_tap(cut(line), high), first_tap(cut(column), wide)};
                for (int axis = 0; axis < 2; axis++) {
                    box[2 * axis] = within(fmax(start[axis], readable[axis][0]), -FURTHEST, FURTHEST);
                    box[2 * axis + 1] = within(fmin(start[axis] + counts[axis], readable[axis][1]),
                                               -FURTHEST, FURTHEST);
                }
            }
            if (!every_row) {
                /* On to the last column before the next line, and to that line. */
                const int64_t count = grid->across_count;
                while (cell < count - 2 && (double)(left + j) >= grid->across[cell + 1])
                    cell++;
                const double next = grid->across[cell + (count > 1)];
                const int64_t last = within(ceil(next) - 1, left + j, right - 1) - left;
                j = last > j ? last - 1 : j;
            }
        }
        if (!every_row) {
            /* On to the last row before the next line, and to that line. */
            const double next = grid->down[row.above + (grid->down_count > 1)];
            const int64_t last = within(ceil(next) - 1, i, bottom - 1);
            i = last > i ? last - 1 : i;
        }
    }
    free(row.fields[0]);
    *taps += sum;
    for (int axis = 0; axis < 2 && lowest[0] <= highest[0]; axis++) {
        bounds[2 * axis] = within(lowest[axis], -FURTHEST, FURTHEST);
        bounds[2 * axis + 1] = within(highest[axis], -FURTHEST, FURTHEST);
    }
    return 0;
}

/* The value of a kernel at a distance from its centre. */
INLINE double kernel_at(const double *table, int64_t last, double distance, double radius)
{
    double place = distance / radius;
    place = (place < 1.0 ? place : 1.0) * (double)last;
    const int64_t whole = (int64_t)place < last ? (int64_t)place : last - 1;
    const double part = place - (double)whole;
    return table[whole] * (1.0 - part) + table[whole + 1] * part;
}

/* The sum of more taps than these is the integral of the kernel; it differs by less than 1e-5. */
#define MANY_TAPS 512

/* The sum of the weights of a kernel with many taps, divided by its radius. */
static double integral(const double *table, int64_t table_size)
{
    double total = 0.0;
    for (int64_t i = 0; i < table_size; i++)
        total += table[i];
    return 2.0 * total / (double)table_size;
}

/* Write the weights of the taps of a pixel between `low` and `high`; they sum to 1, because the
   first or the last one holds those of the taps outside. whole: the integral of the kernel.

   Return the first of these taps, and their number in `taps`. */
static int64_t weigh(const double *table, int64_t table_size, double position, double radius,
                     double whole, double low, double high, int64_t *taps, float *weights)
{
    const double start = first_tap(position, radius), end = start + tap_count(radius);
    const int64_t last = table_size - 1;
    const int64_t first = (int64_t)fmax(start, low), after = (int64_t)fmin(end, high);
    double sum = 0.0, total = 0.0;
    for (int64_t tap = first; tap < after; tap++) {
        const double value = kernel_at(table, last, fabs((double)tap - position), radius);
        weights[tap - first] = (float)value;
        sum += value;
    }
    if (start >= low && end <= high)
        total = sum;
    else if (end - start <= MANY_TAPS)
        for (double tap = start; tap < end; tap++)
            total += kernel_at(table, last, fabs(tap - position), radius);
    else
        total = whole * radius;
    weights[start < low ? 0 : after - first - 1] += (float)(total - sum);
    *taps = after - first;
    for (int64_t tap = 0; tap < *taps; tap++)
        weights[tap] = (float)(weights[tap] / total);
    return first;
}

/* Alpha of an opaque pixel; only bytes have alpha. */
#define OPAQUE 255

/* Methods of decimation: see mastaba.render.native.DECIMATIONS. */
enum { MEAN, CENTRE, MOST_FREQUENT, LOWEST, HIGHEST };

/* A mean: bytes are rounded half to even, so that no level is brighter than the one below. */
INLINE uint8_t mean_uint8(uint64_t sum, uint64_t count)
{
    const uint64_t whole = sum / count, twice = 2 * (sum - whole * count);
    return (uint8_t)(whole + (twice > count || (twice == count && (whole & 1))));
}

INLINE float mean_float32(double sum, double count)
{
    return (float)(sum / count);
}

/* Pixels as keys that sort like them, channel by channel. */
INLINE uint32_t key_uint8(const uint8_t *pixel, int64_t channels)
{
    uint32_t key = 0;
    for (int64_t c = 0; c < channels; c++)
        key = key << 8 | pixel[c];
    return key;
}

INLINE void pixel_of_uint8(uint32_t key, int64_t channels, uint8_t *pixel)
{
    for (int64_t c = channels - 1; c >= 0; c--, key >>= 8)
        pixel[c] = (uint8_t)key;
}

static int compare_uint8(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Float images have one channel. */
INLINE float key_float32(const float *pixel, int64_t channels)
{
    (void)channels;
    return *pixel;
}

INLINE void pixel_of_float32(float key, int64_t channels, float *pixel)
{
    (void)channels;
    *pixel = key;
}

static int compare_float32(const void *a, const void *b)
{
    const float left = *(const float *)a, right = *(const float *)b;
    return (left > right) - (left < right);
}

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define SAMPLE uint8_t
#define TYPED(name) JOIN(name, uint8)
#define SUM uint64_t
#define KEY uint32_t
#include "sampling.h"
#include "decimation.h"
#undef SAMPLE
#undef TYPED
#undef SUM
#undef KEY

#define SAMPLE float
#define TYPED(name) JOIN(name, float32)
#define SUM double
#define KEY float
#include "sampling.h"
#include "decimation.h"

#include "jpeg.h"

/* Extend the ranges of samples, columns x channels, by those of a row that are valid. */
static void widen(const float *samples, const uint8_t *valid, int64_t columns, int64_t channels,
                  float *low, float *high)
{
    for (int64_t x = 0; x < columns; x++)
        for (int64_t i = x * channels; i < (x + 1) * channels && valid[x]; i++) {
            low[i] = fminf(low[i], samples[i]);
            high[i] = fmaxf(high[i], samples[i]);
        }
}

/* Move values into the range of the valid samples that each was made from, for each channel.

   samples: height x width x channels. valid: height x width. boxes: count x 4, first row, row after
   the last, first column and column after the last of the pixels of each value. by_rows: whether
   many successive boxes have the same rows. values: count x channels; unchanged without a valid
   sample. */
EXPORT int bound(const float *samples, const uint8_t *valid, int64_t height, int64_t width,
                 int64_t channels, const int64_t *boxes, int64_t count, int64_t by_rows,
                 float *values)
{
    float *low = malloc((size_t)(2 * width * channels + 1) * sizeof *low), *high = low + width * channels;
    int64_t top = -1, bottom = -1;
    if (!low)
        return NO_MEMORY;
    for (int64_t i = 0; i < count; i++, boxes += 4, values += channels) {
        if (boxes[0] < 0 || boxes[1] > height || boxes[2] < 0 || boxes[3] > width) {
            free(low);
            return OUTSIDE;
        }
        /* The ranges of the columns of these rows are found once for all boxes that share them. */
        if (!by_rows || boxes[0] != top || boxes[1] != bottom) {
            const int64_t left = by_rows ? 0 : boxes[2], right = by_rows ? width : boxes[3];
            top = boxes[0], bottom = boxes[1];
            for (int64_t x = left * channels; x < right * channels; x++)
                low[x] = INFINITY, high[x] = -INFINITY;
            for (int64_t y = top; y < bottom; y++)
                widen(samples + (y * width + left) * channels, valid + y * width + left, right - left,
                      channels, low + left * channels, high + left * channels);
        }
        for (int64_t channel = 0; channel < channels; channel++) {
            float least = INFINITY, most = -INFINITY;
            for (int64_t x = boxes[2]; x < boxes[3]; x++) {
                least = fminf(least, low[x * channels + channel]);
                most = fmaxf(most, high[x * channels + channel]);
            }
            if (least <= most)
                values[channel] = fminf(fmaxf(values[channel], least), most);
        }
    }
    free(low);
    return 0;
}

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
