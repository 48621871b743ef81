/* Who writes what when the state is saved. A share is owned by R ranks; each of them writes an R-th of every part. */
#include "shard/shard_internal.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int fw_shard_saved_place(const fw_shard_layout *l, int rank) { return rank % l->S * l->R + rank / l->S; }

void fw_shard_saved_range(const fw_shard_layout *l, int rank, int32_t unit, int64_t *first_n, int64_t *n) {
    const fw_bucket *b = &l->bucket[l->bucket_of_unit[unit]];
    const int64_t own = rank % l->S * b->part_n, own_end = own + b->part_n;
    const int64_t piece = fw_shard_part_n(b->part_n, l->R), from = smaller(own + rank / l->S * piece, own_end);
    const int64_t unit_at = l->table->unit_offset_n[unit] - l->table->unit_offset_n[b->first_unit];
    const int64_t first = larger(from, unit_at),
                  last = smaller(smaller(from + piece, own_end), unit_at + l->table->unit_size_n[unit]);
    *first_n = first < last ? first - unit_at : 0;
    *n = first < last ? last - first : 0;
}
