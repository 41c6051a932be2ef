/* Decoding of a part of a JPEG: baseline, YCbCr, chroma at half resolution, as in most tiles.

   The pixels are those of libjpeg (accurate inverse DCT, smooth chroma), bit for bit. Whatever is
   unusual or damaged is left to that library: the functions then return OTHER.

   Nearly all time goes into the Huffman codes. A table therefore gives run, value and length of a
   code at once, and reading stops after the last row of the part. Blocks outside the part are only
   skipped. */

enum { OTHER = 3 };

enum { LUMA, CB, CR, COMPONENTS };

#define SIDE 8          /* samples on a side of a block */
#define COEFFICIENTS 64 /* of a block */
#define UNIT 16         /* pixels on a side of the four luma blocks that are coded together */
#define LOOKUP 10           /* bits */
#define LONGEST 16      /* bits of a code */
#define END_RUN 128     /* run of the code that ends a block */
#define PADDING 16      /* bytes that may be loaded behind the data */

/* For each value of the next bits: value << 16 | run << 8 | bits of code and value. 0 if these are
   more bits than the table has. */
typedef struct {
    uint32_t fast[1 << LOOKUP];
    uint8_t symbols[256];
    /* For codes of each length: the last one, or -1, and what gives the place of its symbol. */
    int32_t last[LONGEST + 1], shift[LONGEST + 1];
    int is_known;
} Codes;

typedef struct {
    const uint8_t *next, *end;
    uint64_t bits; /* the next bit is the highest */
    int count;
} Bits;

typedef struct {
    const uint8_t *quantizers[4]; /* in zigzag order */
    Codes dc[2], ac[2];
    struct {
        const uint8_t *quantizer;
        const Codes *dc, *ac;
    } components[COMPONENTS];
    const uint8_t *scan, *end; /* coded data, and what follows it */
} Jpeg;

static const uint8_t zigzag[COEFFICIENTS] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/* The value that `size` bits stand for (ISO/IEC 10918-1, F.2.2.1). */
INLINE int32_t extended(uint32_t bits, int size)
{
    return size && !(bits >> (size - 1)) ? (int32_t)bits - (1 << size) + 1 : (int32_t)bits;
}

/* Read a table of codes; return the bytes after it, or null. */
static const uint8_t *read_codes(const uint8_t *place, const uint8_t *end, Codes *codes, int is_ac)
{
    if (end - place < LONGEST)
        return NULL;
    const uint8_t *counts = place, *symbols = place + LONGEST;
    int32_t code = 0, number = 0;
    memset(codes->fast, 0, sizeof codes->fast);
    for (int length = 1; length <= LONGEST; length++, code <<= 1) {
        const int32_t count = counts[length - 1];
        if (number + count > 256 || end - symbols < number + count || code + count > 1 << length)
            return NULL;
        codes->shift[length] = number - code;
        codes->last[length] = count ? code + count - 1 : -1;
        for (int32_t i = 0; i < count; i++, code++, number++) {
            const int symbol = codes->symbols[number] = symbols[number];
            const int size = symbol & 15, run = symbol >> 4, bits = length + size;
            if (!is_ac && symbol > 11)
                return NULL;
            if (bits > LOOKUP)
                continue;
            const uint32_t base = (uint32_t)code << (LOOKUP - length), spare = LOOKUP - bits;
            const uint32_t steps = is_ac && !size && run != 15 ? END_RUN : (uint32_t)run;
            for (uint32_t k = 0; k < 1u << (LOOKUP - length); k++) {
                const uint32_t value = (uint32_t)extended(k >> spare, size);
                codes->fast[base + k] = value << 16 | steps << 8 | (uint32_t)bits;
            }
        }
    }
    codes->is_known = 1;
    return symbols + number;
}

INLINE int64_t be16(const uint8_t *place)
{
    return place[0] << 8 | place[1];
}

/* Read everything before the coded data; false unless it is a JPEG of the usual kind and size. */
static int read_headers(Jpeg *jpeg, const uint8_t *data, int64_t size, int64_t width, int64_t height)
{
    const uint8_t *place = data + 2, *frame = NULL, *end = data + size;
    if (size < 4 || data[0] != 0xFF || data[1] != 0xD8)
        return 0;
    for (;;) {
        if (end - place < 4 || place[0] != 0xFF)
            return 0;
        const int marker = place[1];
        const uint8_t *part = place + 4, *next = place + 2 + be16(place + 2);
        if (next < part || next > end)
            return 0;
        place = next;
        if (marker == 0xDB) {
            for (; part < next; part += 1 + COEFFICIENTS) {
                if (*part > 3 || next - part < 1 + COEFFICIENTS)
                    return 0;
                jpeg->quantizers[*part] = part + 1;
            }
        } else if (marker == 0xC4) {
            while (part < next) {
                const int number = *part & 15, is_ac = *part >> 4;
                if (number > 1 || is_ac > 1)
                    return 0;
                part = read_codes(part + 1, next, (is_ac ? jpeg->ac : jpeg->dc) + number, is_ac);
                if (!part)
                    return 0;
            }
        } else if (marker == 0xC0) {
            static const uint8_t sampling[COMPONENTS] = {0x22, 0x11, 0x11};
            if (frame || next - part != 6 + 3 * COMPONENTS || part[0] != 8
                || be16(part + 1) != height || be16(part + 3) != width || part[5] != COMPONENTS)
                return 0;
            frame = part + 6;
            for (int i = 0; i < COMPONENTS; i++)
                if (frame[3 * i] != i + 1 || frame[3 * i + 1] != sampling[i] || frame[3 * i + 2] > 3)
                    return 0;
        } else if (marker == 0xDA) {
            static const uint8_t whole[3] = {0, COEFFICIENTS - 1, 0};
            if (!frame || next - part != 4 + 2 * COMPONENTS || part[0] != COMPONENTS
                || memcmp(next - 3, whole, sizeof whole))
                return 0;
            for (int i = 0; i < COMPONENTS; i++) {
                const int tables = part[2 + 2 * i], dc = tables >> 4, ac = tables & 15;
                if (part[1 + 2 * i] != i + 1 || dc > 1 || ac > 1 || !jpeg->dc[dc].is_known
                    || !jpeg->ac[ac].is_known || !jpeg->quantizers[frame[3 * i + 2]])
                    return 0;
                jpeg->components[i].quantizer = jpeg->quantizers[frame[3 * i + 2]];
                jpeg->components[i].dc = jpeg->dc + dc;
                jpeg->components[i].ac = jpeg->ac + ac;
            }
            jpeg->scan = next;
            jpeg->end = end;
            return 1;
        } else if (marker != 0xFE && (marker < 0xE0 || marker > 0xEF || marker == 0xEE)) {
            /* Neither a comment nor data of an application. Adobe's may change the colours. */
            return 0;
        }
    }
}

/* Copy the coded data without the zeros after 0xFF; return its size, or -1 if it is not whole. */
static int64_t unstuff(const Jpeg *jpeg, uint8_t *result)
{
    const uint8_t *from = jpeg->scan;
    uint8_t *to = result;
    for (;;) {
        const uint8_t *found = memchr(from, 0xFF, (size_t)(jpeg->end - from));
        if (!found || jpeg->end - found < 2)
            return -1;
        memcpy(to, from, (size_t)(found - from));
        to += found - from;
        if (found[1] == 0xD9)
            return to - result;
        if (found[1])
            return -1;
        *to++ = 0xFF;
        from = found + 2;
    }
}

/* Have at least 56 bits. Behind the end, they are zeros. */
INLINE void refill(Bits *bits)
{
    uint64_t more;
    memcpy(&more, bits->next, sizeof more);
    bits->bits |= __builtin_bswap64(more) >> bits->count;
    bits->next += (63 - bits->count) >> 3;
    bits->count |= 56;
    if (bits->next > bits->end)
        bits->next = bits->end;
}

INLINE uint32_t take(Bits *bits, int count)
{
    const uint32_t value = (uint32_t)(bits->bits >> 1 >> (63 - count));
    bits->bits <<= count;
    bits->count -= count;
    return value;
}

/* Read a code that is not in the table; -1 if there is none. */
static int long_symbol(Bits *bits, const Codes *codes)
{
    for (int length = 1; length <= LONGEST; length++) {
        const int32_t code = (int32_t)(bits->bits >> (64 - length));
        if (code <= codes->last[length]) {
            take(bits, length);
            return codes->symbols[code + codes->shift[length]];
        }
    }
    return -1;
}

/* Read one block. Its coefficients are added to `block`, which is 0, unless that is null. Returns
   whether the block is more than its mean, or -1 if it is damaged. */
INLINE int read_block(Bits *stream, const Codes *dc, const Codes *ac, const uint8_t *quantizer,
                      int32_t *mean, int16_t *block)
{
    /* A copy can stay in registers. */
    Bits here = *stream, *const bits = &here;
    refill(bits);
    uint32_t entry = dc->fast[bits->bits >> (64 - LOOKUP)];
    if (entry) {
        take(bits, entry & 0xFF);
        *mean += (int16_t)(entry >> 16);
    } else {
        const int size = long_symbol(bits, dc);
        if (size < 0)
            return -1;
        *mean += extended(take(bits, size), size);
    }
    if (block)
        block[0] = (int16_t)((uint32_t)*mean * quantizer[0]);
    int k = 1;
    while (k < COEFFICIENTS) {
        refill(bits);
        entry = ac->fast[bits->bits >> (64 - LOOKUP)];
        int32_t value = (int16_t)(entry >> 16);
        if (entry) {
            take(bits, entry & 0xFF);
            k += entry >> 8 & 0xFF;
        } else {
            const int symbol = long_symbol(bits, ac);
            if (symbol < 0)
                return -1;
            const int size = symbol & 15, run = symbol >> 4;
            k += size || run == 15 ? run : END_RUN;
            value = extended(take(bits, size), size);
        }
        if (k >= COEFFICIENTS)
            break;
        if (block)
            block[zigzag[k]] = (int16_t)(value * quantizer[k]);
        k++;
    }
    *stream = here;
    /* The code that ends the block may be the first, or there are too many coefficients. */
    return k > COEFFICIENTS && k < END_RUN ? -1 : k != END_RUN + 1;
}

typedef int16_t short8 __attribute__((vector_size(16)));
typedef int32_t signed8 __attribute__((vector_size(32)));
typedef uint32_t word8 __attribute__((vector_size(32)));

/* The inverse DCT of 8 columns (Loeffler, Ligtenberg and Moschytz, 1989), scaled by 2^13. The
   arithmetic is modulo 2^32. */
INLINE void transform(short8 *lines, int scale)
{
    word8 in[SIDE], out[SIDE];
    for (int i = 0; i < SIDE; i++)
        in[i] = (word8)__builtin_convertvector(lines[i], signed8);
    const word8 z1 = (in[2] + in[6]) * 4433;
    const word8 low = z1 - in[6] * 15137, high = z1 + in[2] * 6270;
    const word8 sum = (in[0] + in[4]) << 13, difference = (in[0] - in[4]) << 13;
    const word8 even[4] = {sum + high, difference + low, difference - low, sum - high};
    const word8 z5 = (in[7] + in[3] + in[5] + in[1]) * 9633;
    const word8 a = -(in[7] + in[1]) * 7373, b = -(in[5] + in[3]) * 20995;
    const word8 c = z5 - (in[7] + in[3]) * 16069, d = z5 - (in[5] + in[1]) * 3196;
    const word8 odd[4] = {in[1] * 12299 + a + d, in[3] * 25172 + b + c, in[5] * 16819 + b + d,
                          in[7] * 2446 + a + c};
    for (int i = 0; i < 4; i++) {
        out[i] = even[i] + odd[i];
        out[7 - i] = even[i] - odd[i];
    }
    for (int i = 0; i < SIDE; i++)
        lines[i] = __builtin_convertvector((signed8)(out[i] + (1u << (scale - 1))) >> scale, short8);
}

#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

INLINE void transpose(short8 *lines)
{
    for (int turn = 0; turn < 3; turn++) {
        short8 zipped[SIDE];
        for (int i = 0; i < 4; i++) {
            zipped[2 * i] = ZIP_LOW(lines[i], lines[i + 4]);
            zipped[2 * i + 1] = ZIP_HIGH(lines[i], lines[i + 4]);
        }
        memcpy(lines, zipped, sizeof zipped);
    }
}

INLINE uint8_t byte_of(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Write the samples of a block. */
static void write_block(const int16_t *block, int has_detail, uint8_t *samples, int64_t stride)
{
    if (!has_detail) {
        const uint8_t sample = byte_of(((block[0] * 4 + 16) >> 5) + 128);
        for (int y = 0; y < SIDE; y++)
            memset(samples + y * stride, sample, SIDE);
        return;
    }
    short8 lines[SIDE];
    memcpy(lines, block, sizeof lines);
    transform(lines, 11);
    transpose(lines);
    transform(lines, 18);
    transpose(lines);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            samples[y * stride + x] = byte_of(lines[y][x] + 128);
}

/* A plane of samples; rows and columns count from the first of the image. */
typedef struct {
    uint8_t *samples;
    int64_t stride, top, left, last_row, last_column;
} Plane;

INLINE const uint8_t *row_of(const Plane *plane, int64_t row)
{
    const int64_t real = row < 0 ? 0 : row > plane->last_row ? plane->last_row : row;
    return plane->samples + (real - plane->top) * plane->stride - plane->left;
}

/* Write the chroma of some pixels of a row: three quarters of the nearest sample, in both
   directions. sums: room for the columns of the part, and one on each side. */
static void smooth(const Plane *plane, int64_t row, int64_t left, int64_t right, uint16_t *sums,
                   uint8_t *result)
{
    const uint8_t *near = row_of(plane, row / 2), *far = row_of(plane, row / 2 + (row & 1 ? 1 : -1));
    const int64_t first = left / 2 - 1, end = (right - 1) / 2 + 2;
    for (int64_t x = first < 0 ? 0 : first; x < end && x <= plane->last_column; x++)
        sums[x - first] = (uint16_t)(3 * near[x] + far[x]);
    /* Beyond the image, the outer column repeats. */
    if (first < 0)
        sums[0] = sums[1];
    if (end - 1 > plane->last_column)
        sums[end - 1 - first] = sums[end - 2 - first];
    uint8_t *pixels = result - (left & 1);
    for (int64_t x = 1; x < end - first - 1; x++) {
        const uint8_t before = (uint8_t)((3 * sums[x] + sums[x - 1] + 8) >> 4);
        if (x > 1 || !(left & 1))
            pixels[2 * x - 2] = before;
        pixels[2 * x - 1] = (uint8_t)((3 * sums[x] + sums[x + 1] + 7) >> 4);
    }
}

/* Write a row of RGB (ITU-T T.871). */
static void convert(const uint8_t *luma, const uint8_t *cb, const uint8_t *cr, int64_t count,
                    uint8_t *rgb)
{
    for (int64_t x = 0; x < count; x++) {
        const int32_t y = luma[x], blue = cb[x] - 128, red = cr[x] - 128;
        rgb[3 * x] = byte_of(y + ((91881 * red + 32768) >> 16));
        rgb[3 * x + 1] = byte_of(y + ((-22554 * blue - 46802 * red + 32768) >> 16));
        rgb[3 * x + 2] = byte_of(y + ((116130 * blue + 32768) >> 16));
    }
}

/* Read the coded data, and write the samples of the units from unit row and column `up` and
   `first` to before `down` and `end`. */
static int read_scan(const Jpeg *jpeg, Bits *bits, int64_t across, int64_t up, int64_t down,
                     int64_t first, int64_t end, Plane *planes)
{
    int32_t means[COMPONENTS] = {0};
    int16_t block[COEFFICIENTS] __attribute__((aligned(32)));
    for (int64_t row = 0; row < down; row++)
        for (int64_t column = 0; column < across; column++) {
            const int is_wanted = row >= up && column >= first && column < end;
            for (int i = 0; i < 4 + 2; i++) {
                const int number = i < 4 ? LUMA : i - 3;
                const Codes *dc = jpeg->components[number].dc, *ac = jpeg->components[number].ac;
                const uint8_t *quantizer = jpeg->components[number].quantizer;
                if (!is_wanted) {
                    if (read_block(bits, dc, ac, quantizer, means + number, NULL) < 0)
                        return OTHER;
                    continue;
                }
                memset(block, 0, sizeof block);
                const int found = read_block(bits, dc, ac, quantizer, means + number, block);
                if (found < 0)
                    return OTHER;
                const Plane *plane = planes + number;
                const int64_t side = number == LUMA ? UNIT : SIDE;
                const int64_t y = row * side + (number == LUMA ? i / 2 * SIDE : 0) - plane->top;
                const int64_t x = column * side + (number == LUMA ? i % 2 * SIDE : 0) - plane->left;
                write_block(block, found, plane->samples + y * plane->stride + x, plane->stride);
            }
        }
    return 0;
}

/* Decode a part of an image of a known size: mastaba.render.native.decode_jpeg.

   result: its first pixel; rows are `stride` bytes apart. */
EXPORT int decode_jpeg(const uint8_t *data, int64_t size, int64_t width, int64_t height, int64_t top,
                       int64_t bottom, int64_t left, int64_t right, uint8_t *result, int64_t stride)
{
    Jpeg jpeg;
    memset(jpeg.quantizers, 0, sizeof jpeg.quantizers);
    for (int i = 0; i < 2; i++)
        jpeg.dc[i].is_known = jpeg.ac[i].is_known = 0;
    /* Chroma of very narrow images is not smoothed. */
    if (width < 6 || !read_headers(&jpeg, data, size, width, height))
        return OTHER;
    const int64_t across = (width + UNIT - 1) / UNIT, units = (height + UNIT - 1) / UNIT;
    /* Chroma is smoothed over the next sample on each side. */
    const int64_t up = (top > 2 ? top - 2 : 0) / UNIT, first = (left > 2 ? left - 2 : 0) / UNIT;
    const int64_t down = bottom + 1 < height ? (bottom + 1) / UNIT + 1 : units;
    const int64_t end = right + 1 < width ? (right + 1) / UNIT + 1 : across;
    const int64_t high = (down - up) * UNIT, wide = (end - first) * UNIT, columns = right - left;
    const int64_t luma = high * wide, coded = jpeg.end - jpeg.scan + PADDING;
    const int64_t sums = 2 * (columns + 6), rows = 2 * (columns + 2);
    uint8_t *memory = malloc((size_t)(luma + luma / 2 + sums + rows + coded));
    if (!memory)
        return NO_MEMORY;
    Plane planes[COMPONENTS];
    uint8_t *place = memory;
    for (int i = 0; i < COMPONENTS; i++) {
        const int64_t part = i == LUMA ? 1 : 2;
        planes[i] = (Plane){place, wide / part, up * UNIT / part, first * UNIT / part,
                            (height + part - 1) / part - 1, (width + part - 1) / part - 1};
        place += luma / part / part;
    }
    uint16_t *line = (uint16_t *)place;
    uint8_t *cb = place + sums, *cr = cb + columns + 2, *codes = cr + columns + 2;
    const int64_t length = unstuff(&jpeg, codes);
    int status = OTHER;
    if (length >= 0) {
        memset(codes + length, 0, PADDING);
        Bits bits = {codes, codes + length + PADDING / 2, 0, 0};
        status = read_scan(&jpeg, &bits, across, up, down, first, end, planes);
        /* No more was read than there is; after the whole image, no byte is left. */
        const int64_t left_bits = 8 * (codes + length - bits.next) + bits.count;
        if (left_bits < 0 || (down == units && left_bits >= 8))
            status = OTHER;
    }
    for (int64_t row = top; row < bottom && !status; row++, result += stride) {
        smooth(planes + CB, row, left, right, line, cb);
        smooth(planes + CR, row, left, right, line, cr);
        convert(row_of(planes + LUMA, row) + left, cb, cr, columns, result);
    }
    free(memory);
    return status;
}
