#include "data/parquet/parquet_bits.h"

int fw_read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return 1;
    }
    return 0;
}

/* Number `index` of `width` bits (up to 64), least significant bit first. */
static uint64_t unpack(const uint8_t *packed, uint64_t index, unsigned width) {
    uint64_t bit = index * width, value = 0;
    for (unsigned got = 0; got < width;) {
        unsigned shift = (unsigned)(bit % 8), take = 8 - shift;
        if (take > width - got) take = width - got;
        value |= (uint64_t)((unsigned)packed[bit / 8] >> shift & ((1u << take) - 1)) << got;
        got += take;
        bit += take;
    }
    return value;
}

void fw_hybrid_init(fw_hybrid *h, const uint8_t *bytes, size_t n_bytes, int width) {
    *h = (fw_hybrid){.at = bytes, .end = bytes + n_bytes, .width = width};
}

static int next_run(fw_hybrid *h) {
    while (h->run_left == 0) {
        uint64_t header;
        if (!fw_read_varint(&h->at, h->end, &header)) return 0;
        h->run_left = header >> 1;
        h->run_index = 0;
        const uint64_t left = (uint64_t)(h->end - h->at), width = (uint64_t)h->width;
        if (header & 1) {
            uint64_t groups = h->run_left;
            if (width > 0 && groups > left / width) return 0; /* a group is 8 numbers: width bytes */
            if (groups > UINT64_MAX / 8) return 0;
            h->packed = h->at;
            h->run_left = groups * 8;
            h->at += groups * width;
        } else {
            uint64_t bytes = (width + 7) / 8;
            if (bytes > left) return 0;
            h->packed = NULL;
            h->value = 0;
            for (uint64_t i = 0; i < bytes; i++) h->value |= (uint32_t)h->at[i] << (8 * i);
            h->at += bytes;
        }
    }
    return 1;
}

int fw_hybrid_next(fw_hybrid *h, uint32_t *value) {
    if (h->run_left == 0 && !next_run(h)) return 0;
    *value = h->packed != NULL ? (uint32_t)unpack(h->packed, h->run_index++, (unsigned)h->width) : h->value;
    h->run_left--;
    return 1;
}

static int64_t from_zigzag(uint64_t value) { return (int64_t)(value >> 1) ^ -(int64_t)(value & 1); }

int fw_deltas_init(fw_deltas *d, const uint8_t *bytes, size_t n_bytes) {
    *d = (fw_deltas){.at = bytes, .end = bytes + n_bytes};
    uint64_t first;
    if (!fw_read_varint(&d->at, d->end, &d->block_n) || !fw_read_varint(&d->at, d->end, &d->mini_n) ||
        !fw_read_varint(&d->at, d->end, &d->left) || !fw_read_varint(&d->at, d->end, &first))
        return 0;
    if (d->block_n == 0 || d->block_n > 1 << 20 || d->mini_n == 0 || d->block_n % d->mini_n != 0 ||
        d->block_n / d->mini_n % 8 != 0)
        return 0;
    d->mini_values = d->block_n / d->mini_n;
    d->mini = d->mini_n; /* a block comes next */
    d->in_mini = d->mini_values;
    d->value = from_zigzag(first);
    return 1;
}

/* The next miniblock of this block or the first of the next. */
static int next_mini(fw_deltas *d) {
    if (d->mini + 1 >= d->mini_n || d->widths == NULL) {
        uint64_t min_delta;
        if (!fw_read_varint(&d->at, d->end, &min_delta) || (uint64_t)(d->end - d->at) < d->mini_n) return 0;
        d->min_delta = from_zigzag(min_delta);
        d->widths = d->at;
        d->at += d->mini_n;
        d->mini = 0;
    } else
        d->mini++;
    uint64_t width = d->widths[d->mini], bytes = width * d->mini_values / 8;
    if (width > 64 || bytes > (uint64_t)(d->end - d->at)) return 0;
    d->packed = d->at;
    d->at += bytes;
    d->in_mini = 0;
    return 1;
}

int fw_deltas_next(fw_deltas *d, int64_t *value) {
    if (d->left == 0) return 0;
    if (d->started) {
        if (d->in_mini == d->mini_values && !next_mini(d)) return 0;
        uint64_t delta = unpack(d->packed, d->in_mini++, d->widths[d->mini]) + (uint64_t)d->min_delta;
        d->value = (int64_t)((uint64_t)d->value + delta);
    }
    d->started = 1;
    d->left--;
    *value = d->value;
    return 1;
}

const uint8_t *fw_deltas_end(const fw_deltas *d) { return d->at; }
