/* Packing and unpacking of blocks.
 *
 * What bitsandbytes does and a reader would not guess:
 *   4 bits  A block is multiplied with the reciprocal of its scale, but the last one, if it is short, is divided by it. A
 *           scale below 1e-38 counts as 1e-38, and that is written for a short block and 0 for a whole one.
 *           A number on the middle between two entries becomes the lower one. FP4 has two zeros: numbers from 0 down
 *           become code 0, small ones above 0 code 8.
 *   8 bits  A number is moved to the nearest of 65536 points between -1 and 1 before its entry is looked up, so 0 becomes
 *           the entry nearest to 2^-16. A block of zeros has codes 0.
 *   mean    PyTorch sums in 4 x 8 lanes (fewer than 8 numbers in 4) and cascades (here: as it does with one thread; with more, it sums more than
 *           32767 scales in another order, which may show in the last place). */
#include "quant/quant.h"

#include <math.h>

static fw_status not_a_number(int64_t i, float value) {
    return fw_fail(FW_ERR_INPUT, "element %lld is %f, which has no 4-bit or 8-bit form", (long long)i, (double)value);
}

/* The largest size; infinite when a number is none (an fp32 maximum would pass over NaN). */
static float largest(const float *x, int64_t n) {
    float most = 0;
    int good = 1;
    for (int64_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        good &= size <= 3.4028234664e38f;
        most = size > most ? size : most;
    }
    return good ? most : INFINITY;
}
static fw_status refuse(const float *x, int64_t first, int64_t n) {
    int64_t i = first;
    while (i + 1 < first + n && isfinite(x[i])) i++;
    return not_a_number(i, x[i]);
}

/* ---- 4 bits ---- */

/* The entries in rising order: their codes, and the middle between each and the next. */
typedef struct sorted_map {
    uint8_t code[FW_QUANT_MAP4_N];
    float middle[FW_QUANT_MAP4_N - 1];
} sorted_map;

static sorted_map sort_map(fw_quant_kind kind) {
    static const uint8_t order[FW_QUANT_KIND_N][FW_QUANT_MAP4_N] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3},
    };
    const float *map = fw_quant_map4(kind);
    sorted_map m;
    for (int i = 0; i < FW_QUANT_MAP4_N; i++) m.code[i] = order[kind][i];
    for (int i = 0; i + 1 < FW_QUANT_MAP4_N; i++) m.middle[i] = (map[m.code[i]] + map[m.code[i + 1]]) / 2;
    return m;
}

static float within_one(float value) { return value < -1 ? -1 : value > 1 ? 1 : value; }

/* Codes of n <= PIECE values, two a byte; a half that is left over gets the code of 0. The first loop is one for vector
 * registers: a value's place in the order is the number of middles below it. */
enum { PIECE = 64 };
static void pack_piece(uint8_t *code, float value[PIECE], int64_t n, const sorted_map *m) {
    int32_t place[PIECE];
    for (int64_t i = n; i < PIECE; i++) value[i] = 0;
    for (int i = 0; i < PIECE; i++) {
        int32_t below = 0;
        for (int k = 0; k + 1 < FW_QUANT_MAP4_N; k++) below += value[i] > m->middle[k];
        place[i] = below;
    }
    for (int64_t i = 0; i < n; i += 2) code[i / 2] = (uint8_t)(m->code[place[i]] << 4 | m->code[place[i + 1]]);
}

fw_status fw_quant_pack4(uint8_t *code, float *absmax, const float *x, int64_t n, int64_t block, fw_quant_kind kind) {
    const float least = 1e-38f;
    const sorted_map m = sort_map(kind);
    float value[PIECE];
    FW_ASSERT(block > 0 && block % 2 == 0);
    for (int64_t first = 0; first < n; first += block) {
        const int64_t here = n - first < block ? n - first : block;
        const float most = largest(x + first, here), divisor = most < least ? least : most, factor = 1 / divisor;
        if (isinf(most)) return refuse(x, first, here);
        absmax[first / block] = here < block ? divisor : most;
        for (int64_t at = 0; at < here; at += PIECE) {
            const float *from = x + first + at;
            const int64_t some = here - at < PIECE ? here - at : PIECE;
            for (int64_t i = 0; i < some; i++)
                value[i] = within_one(here < block ? from[i] / divisor : from[i] * factor);
            pack_piece(code + (first + at) / 2, value, some, &m);
        }
    }
    return FW_OK;
}

void fw_quant_unpack4(float *y, const uint8_t *code, const float map4[FW_QUANT_MAP4_N], const fw_quant_scales *scales,
                      int64_t n) {
    for (int64_t first = 0; first < n; first += scales->block) {
        const float scale = fw_quant_scale(scales, first / scales->block);
        for (int64_t i = first; i < n && i < first + scales->block; i++)
            y[i] = map4[i % 2 == 0 ? code[i / 2] >> 4 : code[i / 2] & 15] * scale;
    }
}

/* ---- 8 bits ---- */

/* The entry of point p of 65536. */
static uint8_t entry_at(const float middle[FW_QUANT_MAP8_N - 1], int p) {
    const float value = 2 * (float)p / 65535.0f - 1;
    int low = 0, high = FW_QUANT_MAP8_N - 1;
    while (low < high) { /* the first whose middle to the next is not below value */
        const int at = (low + high) / 2;
        if (value > middle[at])
            low = at + 1;
        else
            high = at;
    }
    return (uint8_t)low;
}

fw_status fw_quant_pack8(uint8_t *code, float *absmax, const float *x, int64_t n, int64_t block,
                         const float map[FW_QUANT_MAP8_N]) {
    float middle[FW_QUANT_MAP8_N - 1];
    for (int i = 0; i + 1 < FW_QUANT_MAP8_N; i++) middle[i] = (map[i] + map[i + 1]) * 0.5f;
    for (int64_t first = 0; first < n; first += block) {
        const int64_t here = n - first < block ? n - first : block;
        const float most = largest(x + first, here), factor = 1 / most;
        if (isinf(most)) return refuse(x, first, here);
        absmax[first / block] = most;
        for (int64_t i = first; i < first + here; i++) {
            const float half = (within_one(x[i] * factor) + 1) * 0.5f;
            code[i] = most == 0 ? 0 : entry_at(middle, (uint16_t)(int)fmaf(half, 65535.0f, 0.5f));
        }
    }
    return FW_OK;
}

/* ---- the mean ---- */

enum { LANES = 8, ROWS = 4, WIDE = LANES * ROWS, LEVELS = 4 };

static int ceiling_of_log2(int64_t n) {
    int bits = 0;
    while (((int64_t)1 << bits) < n) bits++;
    return bits;
}

/* Sums of n groups of `wide` numbers, one a lane: every 2^power groups the lowest level is carried to the next. */
static void cascade(float sum[WIDE], const float *x, int64_t n, int wide) {
    const int power = ceiling_of_log2(n) / LEVELS > 4 ? ceiling_of_log2(n) / LEVELS : 4;
    const int64_t step = (int64_t)1 << power;
    float level[LEVELS][WIDE] = {{0}};
    int64_t i = 0;
    while (i + step <= n) {
        for (int64_t j = 0; j < step; j++, i++)
            for (int k = 0; k < wide; k++) level[0][k] += x[i * wide + k];
        for (int j = 1; j < LEVELS; j++) {
            for (int k = 0; k < wide; k++) level[j][k] += level[j - 1][k], level[j - 1][k] = 0;
            if ((i & ((step - 1) << (j * power))) != 0) break;
        }
    }
    for (; i < n; i++)
        for (int k = 0; k < wide; k++) level[0][k] += x[i * wide + k];
    for (int j = 1; j < LEVELS; j++)
        for (int k = 0; k < wide; k++) level[0][k] += level[j][k];
    for (int k = 0; k < wide; k++) sum[k] = level[0][k];
}

static float mean(const float *x, int64_t n) {
    const int lanes = n < LANES ? 1 : LANES;
    float lane[WIDE], total = 0;
    const int64_t group_n = n / (lanes * ROWS), vector_n = n / lanes;
    cascade(lane, x, group_n, lanes * ROWS);
    for (int64_t i = group_n * ROWS; i < vector_n; i++)
        for (int k = 0; k < lanes; k++) lane[k] += x[i * lanes + k];
    for (int row = 1; row < ROWS; row++)
        for (int k = 0; k < lanes; k++) lane[k] += lane[row * lanes + k];
    for (int64_t i = vector_n * lanes; i < n; i++) total += x[i];
    for (int k = 0; k < lanes; k++) total += lane[k];
    return total / (float)n;
}

fw_status fw_quant_nest(uint8_t *scale_code, float *nested, float *offset, float *absmax, int64_t n,
                        const float map8[FW_QUANT_MAP8_N]) {
    *offset = mean(absmax, n);
    for (int64_t i = 0; i < n; i++) absmax[i] -= *offset;
    return fw_quant_pack8(scale_code, nested, absmax, n, FW_QUANT_NESTED_BLOCK, map8);
}
