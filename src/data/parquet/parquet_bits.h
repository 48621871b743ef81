/* Small whole numbers packed into bits: the hybrid of runs and packed groups that levels and dictionary indices are
 * written in, and the DELTA_BINARY_PACKED encoding (parquet-format, Encodings.md). Neither reads beyond its bytes. */
#ifndef FW_DATA_PARQUET_BITS_H
#define FW_DATA_PARQUET_BITS_H

#include <stddef.h>
#include <stdint.h>

/* ---- RLE / bit-packing hybrid ---- */
typedef struct fw_hybrid {
    const uint8_t *at, *end;
    const uint8_t *packed; /* of the current run; NULL: the run repeats `value` */
    uint64_t run_left, run_index;
    uint32_t value;
    int width; /* bits of a number, 0 to 32 */
} fw_hybrid;

void fw_hybrid_init(fw_hybrid *h, const uint8_t *bytes, size_t n_bytes, int width);
/* The next number; 0 when the bytes are used up or wrong. */
int fw_hybrid_next(fw_hybrid *h, uint32_t *value);

/* ---- deltas ---- */
typedef struct fw_deltas {
    const uint8_t *at, *end;
    uint64_t block_n, mini_n, mini_values; /* values of a block, its miniblocks, values of one of these */
    uint64_t left;                         /* values still to come */
    int64_t value, min_delta;
    const uint8_t *widths, *packed;
    uint64_t mini, in_mini; /* which miniblock, and which of its values comes next */
    int started;
} fw_deltas;

/* 0: the header is wrong. left is then how many values there are said to be. */
int fw_deltas_init(fw_deltas *d, const uint8_t *bytes, size_t n_bytes);
int fw_deltas_next(fw_deltas *d, int64_t *value);
/* After the last value: where the bytes behind the deltas begin. */
const uint8_t *fw_deltas_end(const fw_deltas *d);

/* ULEB128; 0: cut off or longer than 64 bits. */
int fw_read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value);

#endif
