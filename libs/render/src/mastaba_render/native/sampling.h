/* Resampling, for one type of samples: kernels.c includes this once for each. */

/* Write the weighted sum of some rows. */
INLINE void TYPED(combine_rows)(const SAMPLE *source, int64_t count, const float *weights,
                                int64_t taps, float *tall)
{
    int64_t x = 0;
    /* The sums of a block stay in registers. */
    for (; x + BLOCK <= count; x += BLOCK) {
        float sums[BLOCK] = {0};
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t k = 0; k < BLOCK; k++)
                sums[k] += weights[tap] * source[tap * count + x + k];
        memcpy(tall + x, sums, sizeof sums);
    }
    for (; x < count; x++) {
        float sum = 0.0f;
        for (int64_t tap = 0; tap < taps; tap++)
            sum += weights[tap] * source[tap * count + x];
        tall[x] = sum;
    }
}

/* Separable resampling of a whole image: mastaba.render.native.resample.

   pixels: height x width x channels. first, weights: first source pixel of each output row or
   column, and its weights. result: rows x columns x channels. */
EXPORT int TYPED(resample)(const SAMPLE *pixels, int64_t height, int64_t width, int64_t channels,
                           const int64_t *row_first, const float *row_weights, int64_t rows,
                           int64_t row_taps, const int64_t *column_first,
                           const float *column_weights, int64_t columns, int64_t column_taps,
                           SAMPLE *result)
{
    for (int64_t i = 0; i < rows; i++)
        if (row_first[i] < 0 || row_first[i] + row_taps > height)
            return OUTSIDE;
    for (int64_t j = 0; j < columns; j++)
        if (column_first[j] < 0 || column_first[j] + column_taps > width)
            return OUTSIDE;
    const int64_t row_size = width * channels;
    const int64_t tall_size = row_size + SLACK, line_size = columns * channels + SLACK;
    float *tall = calloc((size_t)(tall_size + line_size), sizeof *tall);
    if (!tall)
        return NO_MEMORY;
    float *line = tall + tall_size;
    for (int64_t i = 0; i < rows; i++) {
        TYPED(combine_rows)(pixels + row_first[i] * row_size, row_size,
                            row_weights + i * row_taps, row_taps, tall);
        combine_columns(tall, channels, column_first, column_weights, columns, column_taps, line);
        TYPED(store)(line, result + i * columns * channels, columns * channels);
    }
    free(tall);
    return 0;
}

INLINE void TYPED(warp_taps)(const SAMPLE *samples, int64_t row_size, int64_t channels,
                             const float *row_weights, int64_t row_taps,
                             const float *column_weights, int64_t column_taps, float *pixel)
{
    float4 total = {0};
    for (int64_t y = 0; y < row_taps; y++, samples += row_size) {
        const SAMPLE *place = samples;
        float4 across = {0};
        for (int64_t x = 0; x < column_taps; x++, place += channels)
            across += column_weights[x] * TYPED(load)(place);
        total += row_weights[y] * across;
    }
    memcpy(pixel, &total, sizeof total);
}

INLINE void TYPED(warp_pixel)(const SAMPLE *samples, int64_t row_size, int64_t channels,
                              const float *row_weights, int64_t row_taps,
                              const float *column_weights, int64_t column_taps, float *pixel)
{
    /* The usual numbers of taps are faster if the compiler knows them. */
    if (row_taps == 4 && column_taps == 4)
        TYPED(warp_taps)(samples, row_size, channels, row_weights, 4, column_weights, 4, pixel);
    else if (row_taps == 3 && column_taps == 3)
        TYPED(warp_taps)(samples, row_size, channels, row_weights, 3, column_weights, 3, pixel);
    else if (row_taps == 6 && column_taps == 6)
        TYPED(warp_taps)(samples, row_size, channels, row_weights, 6, column_weights, 6, pixel);
    else
        TYPED(warp_taps)(samples, row_size, channels, row_weights, row_taps, column_weights,
                         column_taps, pixel);
}

/* The same at the end of an image, where four samples would reach behind it. */
static void TYPED(warp_last_pixel)(const SAMPLE *samples, int64_t row_size, int64_t channels,
                                   const float *row_weights, int64_t row_taps,
                                   const float *column_weights, int64_t column_taps, float *pixel)
{
    for (int64_t channel = 0; channel < channels; channel++) {
        float total = 0.0f;
        for (int64_t y = 0; y < row_taps; y++) {
            float across = 0.0f;
            for (int64_t x = 0; x < column_taps; x++)
                across += column_weights[x] * samples[y * row_size + x * channels + channel];
            total += row_weights[y] * across;
        }
        pixel[channel] = total;
    }
}

/* Resampling at the positions of a grid, with the same kernel everywhere.

   samples: height x width x channels, its first sample at source row source_top and column
   source_left. first, weights: FRACTIONS x taps, for each fraction of a position. result: rows top
   to bottom, columns left to right of the map; pixels without a position are 0. */
EXPORT int TYPED(warp)(const SAMPLE *samples, int64_t height, int64_t width, int64_t channels,
                       int64_t source_top, int64_t source_left, const Grid *grid, int64_t top,
                       int64_t bottom, int64_t left, int64_t right, const int32_t *row_first,
                       const float *row_weights, int64_t row_taps, const int32_t *column_first,
                       const float *column_weights, int64_t column_taps, SAMPLE *result)
{
    const int64_t columns = right - left, row_size = width * channels;
    const int64_t last_top = height - row_taps, last_left = width - column_taps;
    /* The taps of a pixel may start here at most, for four samples of the last to be inside. */
    const int64_t last_start = (last_top * width + last_left + 1) * channels - 4;
    const Range rows = inside(grid->top, grid->bottom, row_taps, source_top, source_top + last_top);
    const Range across = inside(grid->left, grid->right, column_taps, source_left,
                                source_left + last_left);
    Row row;
    if (open_row(&row, left, right))
        return NO_MEMORY;
    float *line = calloc((size_t)(columns * channels + SLACK), sizeof *line);
    int status = line ? 0 : NO_MEMORY;
    for (int64_t i = top; i < bottom && !status; i++) {
        locate(grid, i, &row);
        const int near = are_near(row.fields[ROW], columns) && are_near(row.fields[COLUMN], columns);
        for (int64_t j = 0; j < columns; j++) {
            const double source_row = row.fields[ROW][j], source_column = row.fields[COLUMN][j];
            const int64_t fixed_row = fractions_to(source_row, near);
            const int64_t fixed_column = fractions_to(source_column, near);
            const int64_t row_part = fixed_row & (FRACTIONS - 1);
            const int64_t column_part = fixed_column & (FRACTIONS - 1);
            const int64_t first_row = (fixed_row >> FRACTION_BITS) + row_first[row_part];
            const int64_t first_column = (fixed_column >> FRACTION_BITS) + column_first[column_part];
            const int64_t y = first_row - source_top, x = first_column - source_left;
            if (!near || first_row < rows.low || first_row > rows.high || first_column < across.low
                || first_column > across.high) {
                if (!isfinite(source_row + source_column)
                    || !meets(grid, first_row, row_taps, first_column, column_taps)) {
                    memset(line + j * channels, 0, (size_t)channels * sizeof *line);
                    continue;
                }
                if (y < 0 || y > last_top || x < 0 || x > last_left) {
                    status = OUTSIDE;
                    break;
                }
            }
            const int64_t corner = (y * width + x) * channels;
            (corner > last_start ? TYPED(warp_last_pixel) : TYPED(warp_pixel))(
                samples + corner, row_size, channels, row_weights + row_part * row_taps, row_taps,
                column_weights + column_part * column_taps, column_taps, line + j * channels);
        }
        if (!status)
            TYPED(store)(line, result + (i - top) * columns * channels, columns * channels);
    }
    free(row.fields[0]);
    free(line);
    return status;
}

/* The same with a kernel for each pixel, whose radius depends on the ratio of the pixel.

   table: the kernel from its centre to its radius, in even steps. radius_x, radius_y: as in
   survey. */
EXPORT int TYPED(warp_locally)(const SAMPLE *samples, int64_t height, int64_t width,
                               int64_t channels, int64_t source_top, int64_t source_left,
                               const Grid *grid, int64_t top, int64_t bottom, int64_t left,
                               int64_t right, const double *table, int64_t table_size,
                               double radius_x, double radius_y, SAMPLE *result)
{
    const int64_t columns = right - left, row_size = width * channels;
    const int64_t last_start = height * row_size - 4;
    const double whole = integral(table, table_size);
    /* The source pixels that may be read. */
    const double low[2] = {grid->top - grid->margin, grid->left - grid->margin};
    const double ends[2] = {grid->bottom + grid->margin, grid->right + grid->margin};
    Row row;
    if (open_row(&row, left, right))
        return NO_MEMORY;
    /* No pixel has more taps than the image has rows or columns. */
    float *line = calloc((size_t)(columns * channels + SLACK + height + width), sizeof *line);
    float *row_weights = line + columns * channels + SLACK, *column_weights = row_weights + height;
    int status = line ? 0 : NO_MEMORY;
    for (int64_t i = top; i < bottom && !status; i++) {
        locate(grid, i, &row);
        for (int64_t j = 0; j < columns; j++) {
            float *pixel = line + j * channels;
            const double wide = grid->ratios_x ? radius_x * row.fields[RATIO_X][j] : radius_x;
            const double high = grid->ratios_x ? radius_y * row.fields[RATIO_Y][j] : radius_y;
            const double found_row = row.fields[ROW][j], found_column = row.fields[COLUMN][j];
            const double source_row = cut(found_row), source_column = cut(found_column);
            const double first_row = first_tap(source_row, high), rows = tap_count(high);
            const double first_column = first_tap(source_column, wide), across = tap_count(wide);
            if (!isfinite(found_row + found_column + wide + high)
                || !meets(grid, first_row, rows, first_column, across)) {
                memset(pixel, 0, (size_t)channels * sizeof *pixel);
                continue;
            }
            if (fmax(first_row, low[0]) < source_top
                || fmin(first_row + rows, ends[0]) > source_top + height
                || fmax(first_column, low[1]) < source_left
                || fmin(first_column + across, ends[1]) > source_left + width) {
                status = OUTSIDE;
                break;
            }
            int64_t row_taps, column_taps;
            const int64_t y = weigh(table, table_size, source_row, high, whole, low[0],
                                    ends[0], &row_taps, row_weights) - source_top;
            const int64_t x = weigh(table, table_size, source_column, wide, whole, low[1],
                                    ends[1], &column_taps, column_weights) - source_left;
            const int64_t corner = (y * width + x) * channels;
            const int64_t last = corner + (row_taps - 1) * row_size + (column_taps - 1) * channels;
            (last > last_start ? TYPED(warp_last_pixel) : TYPED(warp_pixel))(
                samples + corner, row_size, channels, row_weights, row_taps, column_weights,
                column_taps, pixel);
        }
        if (!status)
            TYPED(store)(line, result + (i - top) * columns * channels, columns * channels);
    }
    free(row.fields[0]);
    free(line);
    return status;
}
