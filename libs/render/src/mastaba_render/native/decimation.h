/* Decimation, for one type of samples: kernels.c includes this once for each.

   A box is what one pixel of the result is made from: factor x factor pixels. SUM holds the sum of
   any box exactly; KEY holds a pixel and sorts like it. */

typedef struct {
    const SAMPLE *samples;
    const uint8_t *valid; /* or null if all are */
    int64_t row_size, valid_row_size, channels, factor;
    int has_alpha, alpha_of_all;
} TYPED(Box);

INLINE int TYPED(counts)(const TYPED(Box) *box, int64_t y, int64_t x)
{
    return !box->valid || box->valid[y * box->valid_row_size + x];
}

/* The mean of valid pixels; with alpha, colours are weighted by it. */
INLINE void TYPED(average_of)(const TYPED(Box) *box, const int64_t channels, const int64_t factor,
                              int64_t count, SAMPLE *result)
{
    SUM sums[4] = {0};
    const int64_t last = channels - 1;
    const SUM all = (SUM)(factor * factor), number = (SUM)count;
    for (int64_t y = 0; y < factor; y++)
        for (int64_t x = 0; x < factor; x++) {
            const SAMPLE *pixel = box->samples + y * box->row_size + x * channels;
            /* Samples that are not valid are 0. */
            for (int64_t c = 0; c < channels; c++)
                sums[c] += pixel[c];
        }
    if (!box->has_alpha || sums[last] == OPAQUE * all) {
        for (int64_t c = 0; c < channels; c++)
            result[c] = count == factor * factor ? TYPED(mean)(sums[c], all)
                                                 : TYPED(mean)(sums[c], number);
        return;
    }
    SUM weighted[4] = {0};
    for (int64_t y = 0; y < factor; y++)
        for (int64_t x = 0; x < factor; x++) {
            const SAMPLE *pixel = box->samples + y * box->row_size + x * channels;
            for (int64_t c = 0; c < last; c++)
                weighted[c] += (SUM)pixel[c] * pixel[last];
        }
    for (int64_t c = 0; c < last; c++)
        result[c] = sums[last] > 0 ? TYPED(mean)(weighted[c], sums[last]) : 0;
    result[last] = TYPED(mean)(sums[last], box->alpha_of_all ? all : number);
}

INLINE void TYPED(average)(const TYPED(Box) *box, int64_t count, SAMPLE *result)
{
    /* Numbers that the compiler knows are faster. */
    if (box->factor != 2)
        TYPED(average_of)(box, box->channels, box->factor, count, result);
    else if (box->channels == 4)
        TYPED(average_of)(box, 4, 2, count, result);
    else if (box->channels == 3)
        TYPED(average_of)(box, 3, 2, count, result);
    else if (box->channels == 1)
        TYPED(average_of)(box, 1, 2, count, result);
    else
        TYPED(average_of)(box, 2, 2, count, result);
}

/* The extremes of valid pixels; with alpha, of visible ones, and the mean of alpha. */
static void TYPED(extreme)(const TYPED(Box) *box, int64_t count, int highest, SAMPLE *result)
{
    const int64_t channels = box->channels, last = channels - 1;
    SAMPLE mean[4];
    if (box->has_alpha)
        TYPED(average)(box, count, mean);
    int found = 0;
    for (int64_t y = 0; y < box->factor; y++)
        for (int64_t x = 0; x < box->factor; x++) {
            const SAMPLE *pixel = box->samples + y * box->row_size + x * channels;
            if (!TYPED(counts)(box, y, x) || (box->has_alpha && !pixel[last]))
                continue;
            for (int64_t c = 0; c < channels; c++)
                if (!found || (highest ? pixel[c] > result[c] : pixel[c] < result[c]))
                    result[c] = pixel[c];
            found = 1;
        }
    if (!found)
        memset(result, 0, (size_t)channels * sizeof *result);
    if (box->has_alpha)
        result[last] = mean[last];
}

/* The most frequent valid pixel, of several the smallest. keys: room for a box. */
static void TYPED(mode)(const TYPED(Box) *box, KEY *keys, SAMPLE *result)
{
    int64_t count = 0;
    for (int64_t y = 0; y < box->factor; y++)
        for (int64_t x = 0; x < box->factor; x++)
            if (TYPED(counts)(box, y, x))
                keys[count++] = TYPED(key)(box->samples + y * box->row_size + x * box->channels,
                                           box->channels);
    qsort(keys, (size_t)count, sizeof *keys, TYPED(compare));
    KEY best = keys[0];
    int64_t most = 0;
    for (int64_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && keys[end] == keys[start];)
            end++;
        if (end - start > most) {
            most = end - start;
            best = keys[start];
        }
    }
    TYPED(pixel_of)(best, box->channels, result);
}

/* The usual case: the mean of 2 x 2 pixels that are all valid, without alpha. */
INLINE void TYPED(halve_row)(const SAMPLE *above, const SAMPLE *below, int64_t columns,
                             const int64_t channels, SAMPLE *result)
{
    for (int64_t x = 0; x < columns; x++)
        for (int64_t c = 0; c < channels; c++) {
            const int64_t left = 2 * x * channels + c, right = left + channels;
            result[x * channels + c] = TYPED(mean)(
                (SUM)above[left] + above[right] + below[left] + below[right], 4);
        }
}

/* Decimation of an image: mastaba.render.native.decimate.

   samples (0 where not valid): rows x factor rows of columns x factor pixels, whose first samples are row_size samples
   apart; valid: the same pixels, or null. result, result_valid: rows x columns pixels. A pixel is
   valid if at least `enough` pixels of its box are; others are 0. */
EXPORT int TYPED(decimate)(const SAMPLE *samples, int64_t row_size, const uint8_t *valid,
                           int64_t valid_row_size, int64_t rows, int64_t columns, int64_t channels,
                           int64_t factor, int64_t method, int64_t has_alpha, int64_t alpha_of_all,
                           int64_t enough, SAMPLE *result, int64_t result_row_size,
                           uint8_t *result_valid, int64_t result_valid_row_size)
{
    const int64_t middle = (factor - 1) / 2;
    KEY *keys = malloc((size_t)(method == MOST_FREQUENT ? factor * factor : 1) * sizeof *keys);
    if (!keys)
        return NO_MEMORY;
    for (int64_t y = 0; y < rows; y++) {
        SAMPLE *line = result + y * result_row_size;
        uint8_t *line_valid = result_valid + y * result_valid_row_size;
        const SAMPLE *first = samples + y * factor * row_size;
        if (!valid && !has_alpha && method == MEAN && factor == 2) {
            if (channels == 3)
                TYPED(halve_row)(first, first + row_size, columns, 3, line);
            else
                TYPED(halve_row)(first, first + row_size, columns, channels, line);
            memset(line_valid, 1, (size_t)columns);
            continue;
        }
        for (int64_t x = 0; x < columns; x++) {
            SAMPLE *pixel = line + x * channels;
            const TYPED(Box) box = {
                first + x * factor * channels,
                valid ? valid + y * factor * valid_row_size + x * factor : 0,
                row_size, valid_row_size, channels, factor, (int)has_alpha, (int)alpha_of_all};
            int64_t count = factor * factor;
            if (method == CENTRE)
                count = TYPED(counts)(&box, middle, middle) ? count : 0;
            else if (valid) {
                count = 0;
                for (int64_t i = 0; i < factor; i++)
                    for (int64_t j = 0; j < factor; j++)
                        count += TYPED(counts)(&box, i, j);
            }
            line_valid[x] = count >= enough;
            if (count < enough)
                memset(pixel, 0, (size_t)channels * sizeof *pixel);
            else if (method == CENTRE)
                memcpy(pixel, box.samples + middle * row_size + middle * channels,
                       (size_t)channels * sizeof *pixel);
            else if (method == MOST_FREQUENT)
                TYPED(mode)(&box, keys, pixel);
            else if (method != MEAN)
                TYPED(extreme)(&box, count, method == HIGHEST, pixel);
            else
                TYPED(average)(&box, count, pixel);
        }
    }
    free(keys);
    return 0;
}
