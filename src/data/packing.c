#include "data/packing.h"

#include "base/alloc.h"

/* Which amounts of free room occur among the open bins: a bit per amount, and a bit per 64 of those. */
typedef struct rooms {
    uint64_t *word, *summary;
    int64_t *newest; /* [amount]: the bin opened or changed last with that much room, or -1 */
    int64_t amount_n;
} rooms;

static fw_status rooms_init(rooms *r, int64_t amount_n) {
    const size_t words = (size_t)(amount_n + 63) / 64;
    *r = (rooms){.amount_n = amount_n};
    FW_TRY(FW_NEW_ARRAY(r->word, words));
    FW_TRY(FW_NEW_ARRAY(r->summary, (words + 63) / 64));
    FW_TRY(FW_NEW_ARRAY(r->newest, (size_t)amount_n));
    for (int64_t i = 0; i < amount_n; i++) r->newest[i] = -1;
    return FW_OK;
}

static void rooms_fini(rooms *r) {
    fw_free(r->word);
    fw_free(r->summary);
    fw_free(r->newest);
}

/* Bins with the same room form a stack through `below`. */
static void rooms_push(rooms *r, int64_t *below, int64_t amount, int64_t bin) {
    below[bin] = r->newest[amount];
    r->newest[amount] = bin;
    r->word[amount / 64] |= 1ull << (amount % 64);
    r->summary[amount / 4096] |= 1ull << (amount / 64 % 64);
}

static int64_t rooms_pop(rooms *r, const int64_t *below, int64_t amount) {
    int64_t bin = r->newest[amount];
    r->newest[amount] = below[bin];
    if (r->newest[amount] < 0) {
        r->word[amount / 64] &= ~(1ull << (amount % 64));
        if (r->word[amount / 64] == 0) r->summary[amount / 4096] &= ~(1ull << (amount / 64 % 64));
    }
    return bin;
}

/* The smallest amount >= least that occurs, or -1. */
static int64_t rooms_find(const rooms *r, int64_t least) {
    const int64_t words = (r->amount_n + 63) / 64, summaries = (words + 63) / 64;
    uint64_t bits = r->word[least / 64] & (UINT64_MAX << (least % 64));
    if (bits) return least / 64 * 64 + __builtin_ctzll(bits);
    int64_t next = least / 64 + 1;
    for (int64_t s = next / 64; s < summaries; s++) {
        bits = r->summary[s];
        if (s == next / 64) bits &= UINT64_MAX << (next % 64);
        if (bits == 0) continue;
        int64_t word = s * 64 + __builtin_ctzll(bits);
        return word * 64 + __builtin_ctzll(r->word[word]);
    }
    return -1;
}

static int64_t length(const fw_dataset *d, int64_t sample) { return d->sample[sample].n; }

/* by_length: sample numbers, longest first, equal lengths in file order (a counting sort). */
static fw_status sort_by_length(int64_t *by_length, const fw_dataset *d) {
    int64_t *place;
    FW_TRY(FW_NEW_ARRAY(place, (size_t)d->stats.longest_n + 1));
    for (int64_t s = 0; s < d->sample_n; s++) place[length(d, s)]++;
    for (int64_t n = d->stats.longest_n, next = 0; n >= 0; n--) {
        int64_t count = place[n];
        place[n] = next;
        next += count;
    }
    for (int64_t s = 0; s < d->sample_n; s++) by_length[place[length(d, s)]++] = s;
    fw_free(place);
    return FW_OK;
}

static void assign_in_order(int64_t *bin, int64_t *bin_n, const fw_dataset *d, int64_t bin_tokens) {
    int64_t room = 0;
    for (int64_t s = 0; s < d->sample_n; s++) {
        if (length(d, s) > room) {
            ++*bin_n;
            room = bin_tokens;
        }
        bin[s] = *bin_n - 1;
        room -= length(d, s);
    }
}

fw_status fw_packing_assign(int64_t *bin, int64_t *bin_n, const fw_dataset *d, int64_t bin_tokens,
                            fw_packing_strategy strategy) {
    *bin_n = 0;
    if (bin_tokens < d->stats.longest_n)
        return fw_fail(FW_ERR_OPTION,
                       "packing into bins of %lld tokens (max_length), but one conversation has %lld; packing needs a "
                       "max_length",
                       (long long)bin_tokens, (long long)d->stats.longest_n);
    if (strategy == FW_PACKING_SEQUENTIAL) {
        assign_in_order(bin, bin_n, d, bin_tokens);
        return FW_OK;
    }
    if (bin_tokens > d->stats.token_n) bin_tokens = d->stats.token_n; /* one bin takes all: no larger table */
    rooms r = {0};
    int64_t *by_length = NULL, *below = NULL;
    fw_status status;
    FW_TRY_OR(rooms_init(&r, bin_tokens + 1), done);
    FW_TRY_OR(FW_NEW_ARRAY(by_length, (size_t)d->sample_n), done);
    FW_TRY_OR(FW_NEW_ARRAY(below, (size_t)d->sample_n), done);
    FW_TRY_OR(sort_by_length(by_length, d), done);
    int64_t opened = 0;
    for (int64_t i = 0; i < d->sample_n; i++) {
        int64_t sample = by_length[i], n = length(d, sample), room = rooms_find(&r, n);
        int64_t taken = room < 0 ? opened++ : rooms_pop(&r, below, room);
        bin[sample] = taken;
        rooms_push(&r, below, (room < 0 ? bin_tokens : room) - n, taken);
    }
    /* Number the bins by their first sample; `below` is free now and holds the new numbers. */
    for (int64_t i = 0; i < opened; i++) below[i] = -1;
    for (int64_t s = 0; s < d->sample_n; s++) {
        if (below[bin[s]] < 0) below[bin[s]] = (*bin_n)++;
        bin[s] = below[bin[s]];
    }
done:
    rooms_fini(&r);
    fw_free(by_length);
    fw_free(below);
    return status;
}
