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

/* Separable resampling of a whole image: mastaba.render.resample.

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

INLINE void TYPED(warp_pixel)(const SAMPLE *samples, int64_t row_size, int64_t channels,
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

/* Resampling at the positions of a grid: mastaba.render.warp.

   samples: height x width x channels. across, down: output columns and rows of the grid points,
   ascending. grid_columns, grid_rows: source positions there; positions run evenly in between.
   first, weights: FRACTIONS x taps, for each fraction of a position. result: one row and column
   more than the last grid points. Output pixels without a position are 0. */
EXPORT int TYPED(warp)(const SAMPLE *samples, int64_t height, int64_t width, int64_t channels,
                       const double *across, int64_t across_count, const double *down,
                       int64_t down_count, const double *grid_columns, const double *grid_rows,
                       const int32_t *row_first, const float *row_weights, int64_t row_taps,
                       const int32_t *column_first, const float *column_weights,
                       int64_t column_taps, SAMPLE *result)
{
    const int64_t columns = (int64_t)across[across_count - 1] + 1;
    const int64_t rows = (int64_t)down[down_count - 1] + 1;
    const int64_t last_top = height - row_taps, last_left = width - column_taps;
    const int64_t row_size = width * channels;
    /* The taps of a pixel may start here at most, for four samples of the last to be inside. */
    const int64_t last_start = (last_top * width + last_left + 1) * channels - 4;
    float *line = calloc((size_t)(columns * channels + SLACK), sizeof *line);
    if (!line)
        return NO_MEMORY;
    int64_t above = 0;
    for (int64_t i = 0; i < rows; i++) {
        while (above < down_count - 2 && i >= down[above + 1])
            above++;
        const int64_t below = above + 1 < down_count ? above + 1 : above;
        const double part = below > above ? (i - down[above]) / (down[below] - down[above]) : 0.0;
        const double *columns_above = grid_columns + above * across_count;
        const double *columns_below = grid_columns + below * across_count;
        const double *rows_above = grid_rows + above * across_count;
        const double *rows_below = grid_rows + below * across_count;
        const int64_t cells = across_count > 1 ? across_count - 1 : 1;
        for (int64_t cell = 0; cell < cells; cell++) {
            const int64_t next = cell + 1 < across_count ? cell + 1 : cell;
            const int64_t start = (int64_t)across[cell];
            const int64_t stop = (int64_t)across[next] + (next == across_count - 1);
            const double column = columns_above[cell] * (1 - part) + columns_below[cell] * part;
            const double row = rows_above[cell] * (1 - part) + rows_below[cell] * part;
            double column_step = 0.0, row_step = 0.0;
            if (next > cell) {
                const double run = across[next] - across[cell];
                column_step = (columns_above[next] * (1 - part) + columns_below[next] * part - column) / run;
                row_step = (rows_above[next] * (1 - part) + rows_below[next] * part - row) / run;
            }
            if (!isfinite(column + row + column_step + row_step)) {
                memset(line + start * channels, 0, (size_t)((stop - start) * channels) * sizeof *line);
                continue;
            }
            for (int64_t j = start; j < stop; j++) {
                const int64_t fixed_row = (int64_t)floor((row + (j - start) * row_step) * FRACTIONS);
                const int64_t fixed_column = (int64_t)floor((column + (j - start) * column_step) * FRACTIONS);
                const int64_t row_part = fixed_row & (FRACTIONS - 1);
                const int64_t column_part = fixed_column & (FRACTIONS - 1);
                const int64_t top = (fixed_row >> FRACTION_BITS) + row_first[row_part];
                const int64_t left = (fixed_column >> FRACTION_BITS) + column_first[column_part];
                if (top < 0 || top > last_top || left < 0 || left > last_left) {
                    free(line);
                    return OUTSIDE;
                }
                const int64_t corner = (top * width + left) * channels;
                (corner > last_start ? TYPED(warp_last_pixel) : TYPED(warp_pixel))(
                    samples + corner, row_size, channels, row_weights + row_part * row_taps,
                    row_taps, column_weights + column_part * column_taps, column_taps,
                    line + j * channels);
            }
        }
        TYPED(store)(line, result + i * columns * channels, columns * channels);
    }
    free(line);
    return 0;
}

/* Resampling where each output pixel has a kernel of its own width: mastaba.render.warp.

   table: the kernel from its centre to its radius, in even steps. columns, rows, radii_x,
   radii_y: height_out x width_out, source positions and kernel radii in source pixels. Output
   pixels without a position are 0. */
EXPORT int TYPED(warp_locally)(const SAMPLE *samples, int64_t height, int64_t width,
                               int64_t channels, const double *table, int64_t table_size,
                               const double *columns, const double *rows, const double *radii_x,
                               const double *radii_y, int64_t height_out, int64_t width_out,
                               SAMPLE *result)
{
    const int64_t row_size = width * channels;
    const int64_t last_start = height * row_size - 4;
    double widest = 0.0;
    for (int64_t i = 0; i < height_out * width_out; i++) {
        widest = radii_x[i] > widest ? radii_x[i] : widest;
        widest = radii_y[i] > widest ? radii_y[i] : widest;
    }
    if (!(widest <= (double)(height + width)))
        return OUTSIDE;
    const int64_t most_taps = (int64_t)(2.0 * widest) + 2;
    float *line = calloc((size_t)(width_out * channels + SLACK + 2 * most_taps), sizeof *line);
    if (!line)
        return NO_MEMORY;
    float *row_weights = line + width_out * channels + SLACK;
    float *column_weights = row_weights + most_taps;
    for (int64_t i = 0; i < height_out; i++) {
        for (int64_t j = 0; j < width_out; j++) {
            const int64_t place = i * width_out + j;
            const double row = rows[place], column = columns[place];
            float *pixel = line + j * channels;
            if (!isfinite(row + column + radii_x[place] + radii_y[place])) {
                memset(pixel, 0, (size_t)channels * sizeof *pixel);
                continue;
            }
            const int64_t top = (int64_t)ceil(row - radii_y[place] - TOLERANCE);
            const int64_t left = (int64_t)ceil(column - radii_x[place] - TOLERANCE);
            const int64_t row_taps = (int64_t)ceil(2.0 * radii_y[place] - TOLERANCE);
            const int64_t column_taps = (int64_t)ceil(2.0 * radii_x[place] - TOLERANCE);
            if (top < 0 || left < 0 || top + row_taps > height || left + column_taps > width) {
                free(line);
                return OUTSIDE;
            }
            weigh(table, table_size, row, radii_y[place], top, row_taps, row_weights);
            weigh(table, table_size, column, radii_x[place], left, column_taps, column_weights);
            const int64_t corner = (top * width + left) * channels;
            const int64_t last = corner + (row_taps - 1) * row_size + (column_taps - 1) * channels;
            (last > last_start ? TYPED(warp_last_pixel) : TYPED(warp_pixel))(
                samples + corner, row_size, channels, row_weights, row_taps, column_weights,
                column_taps, pixel);
        }
        TYPED(store)(line, result + i * width_out * channels, width_out * channels);
    }
    free(line);
    return 0;
}
