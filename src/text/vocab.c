#include "text/vocab.h"

#include "base/alloc.h"
#include "text/utf8.h"

#include <string.h>

static bool is_printable(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad && byte <= 0xff);
}

/* The other bytes, in order: 0x00..0x20, 0x7f..0xa0, 0xad. */
uint32_t fw_vocab_byte_char(unsigned char byte) {
    if (is_printable(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xa0) return 0x121u + (byte - 0x7fu);
    return 0x143;
}

int fw_vocab_char_byte(uint32_t code) {
    if (code < 0x100) return is_printable(code) ? (int)code : -1;
    if (code <= 0x120) return (int)(code - 0x100);
    if (code <= 0x142) return (int)(code - 0x121 + 0x7f);
    return code == 0x143 ? 0xad : -1;
}

uint64_t fw_vocab_hash(const char *bytes, size_t n_bytes) {
    uint64_t hash = 0x9e3779b97f4a7c15u ^ n_bytes;
    while (n_bytes >= 8) {
        uint64_t eight;
        memcpy(&eight, bytes, 8);
        hash = fw_vocab_mix(hash ^ eight);
        bytes += 8;
        n_bytes -= 8;
    }
    uint64_t rest = 0;
    if (n_bytes) memcpy(&rest, bytes, n_bytes);
    return fw_vocab_mix(hash ^ rest);
}

fw_status fw_vocab_init(fw_vocab *vocab, size_t token_n) {
    *vocab = (fw_vocab){0};
    for (int i = 0; i < 256; i++) vocab->byte_id[i] = -1;
    size_t slot_n = 64;
    while (slot_n < token_n * 2) slot_n *= 2;
    FW_TRY(FW_NEW_ARRAY(vocab->slot, slot_n));
    vocab->slot_n = slot_n;
    memset(vocab->slot, 0xff, slot_n * sizeof *vocab->slot);
    return FW_OK;
}

void fw_vocab_fini(fw_vocab *vocab) {
    fw_free(vocab->text_at);
    fw_free(vocab->byte_n);
    fw_free(vocab->flags);
    fw_free(vocab->text);
    fw_free(vocab->slot);
    fw_free(vocab->merge);
    fw_free(vocab->merge_to);
    fw_free(vocab->filter);
    *vocab = (fw_vocab){0};
}

const char *fw_vocab_token(const fw_vocab *vocab, int32_t id) {
    if (id < 0 || id >= vocab->id_n || vocab->text_at[id] == UINT32_MAX) return NULL;
    return vocab->text + vocab->text_at[id];
}

static size_t find_slot(const fw_vocab *vocab, const char *token, size_t token_bytes) {
    size_t mask = vocab->slot_n - 1, i = (size_t)fw_vocab_hash(token, token_bytes) & mask;
    for (;; i = (i + 1) & mask) {
        if (vocab->slot[i] < 0) return i;
        const char *other = vocab->text + vocab->text_at[vocab->slot[i]];
        if (strncmp(other, token, token_bytes) == 0 && other[token_bytes] == 0) return i;
    }
}

int32_t fw_vocab_find(const fw_vocab *vocab, const char *token, size_t token_bytes) {
    return vocab->slot[find_slot(vocab, token, token_bytes)];
}

static fw_status grow_ids(fw_vocab *vocab, int32_t id) {
    if (id >= vocab->id_cap) {
        int32_t cap = vocab->id_cap ? vocab->id_cap : 1024;
        while (cap <= id) cap *= 2;
        FW_TRY(FW_GROW_ARRAY(vocab->text_at, (size_t)cap));
        FW_TRY(FW_GROW_ARRAY(vocab->byte_n, (size_t)cap));
        FW_TRY(FW_GROW_ARRAY(vocab->flags, (size_t)cap));
        vocab->id_cap = cap;
    }
    for (; vocab->id_n <= id; vocab->id_n++) {
        vocab->text_at[vocab->id_n] = UINT32_MAX;
        vocab->byte_n[vocab->id_n] = 0;
        vocab->flags[vocab->id_n] = 0;
    }
    return FW_OK;
}

static fw_status grow_slots(fw_vocab *vocab) {
    if ((vocab->token_n + 1) * 2 <= vocab->slot_n) return FW_OK;
    int32_t *old = vocab->slot;
    size_t old_n = vocab->slot_n;
    vocab->slot = NULL;
    fw_status status = FW_NEW_ARRAY(vocab->slot, old_n * 2);
    if (status != FW_OK) {
        vocab->slot = old;
        return status;
    }
    vocab->slot_n = old_n * 2;
    memset(vocab->slot, 0xff, vocab->slot_n * sizeof *vocab->slot);
    for (size_t i = 0; i < old_n; i++) {
        if (old[i] < 0) continue;
        const char *token = vocab->text + vocab->text_at[old[i]];
        vocab->slot[find_slot(vocab, token, strlen(token))] = old[i];
    }
    fw_free(old);
    return FW_OK;
}

/* Characters of the spelling = bytes of text; a single one may be the symbol of a byte. */
static uint32_t count_chars(const char *token, size_t token_bytes) {
    uint32_t n = 0;
    for (size_t i = 0; i < token_bytes; i++) n += ((unsigned char)token[i] & 0xc0) != 0x80;
    return n;
}

fw_status fw_vocab_add(fw_vocab *vocab, const char *token, size_t token_bytes, int64_t id, uint8_t flags,
                       const char *where) {
    int shown = token_bytes > 60 ? 60 : (int)token_bytes;
    if (id < 0 || id > FW_VOCAB_MAX_ID)
        return fw_fail(FW_ERR_INPUT, "%s: token \"%.*s\" has id %lld; ids must be from 0 to %d", where, shown, token,
                       (long long)id, FW_VOCAB_MAX_ID);
    if (token_bytes > FW_TOKEN_MAX_BYTES || memchr(token, 0, token_bytes) != NULL)
        return fw_fail(FW_ERR_INPUT, "%s: token %lld has %zu bytes or a zero byte in it; at most %d bytes are read",
                       where, (long long)id, token_bytes, FW_TOKEN_MAX_BYTES);
    FW_TRY(grow_ids(vocab, (int32_t)id));
    if (vocab->text_at[id] != UINT32_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: tokens \"%.60s\" and \"%.*s\" both have id %lld", where,
                       fw_vocab_token(vocab, (int32_t)id), shown, token, (long long)id);
    FW_TRY(grow_slots(vocab));
    size_t slot = find_slot(vocab, token, token_bytes);
    if (vocab->slot[slot] >= 0)
        return fw_fail(FW_ERR_INPUT, "%s: token \"%.*s\" has two ids, %d and %lld", where, shown, token,
                       vocab->slot[slot], (long long)id);
    if (vocab->text_cap - vocab->text_n < token_bytes + 1) {
        size_t cap = vocab->text_cap * 2 + token_bytes + 4096;
        if (cap >= UINT32_MAX)
            return fw_fail(FW_ERR_INPUT, "%s: the spellings of all tokens have more than 4 GB", where);
        FW_TRY(FW_GROW_ARRAY(vocab->text, cap));
        vocab->text_cap = cap;
    }
    vocab->text_at[id] = (uint32_t)vocab->text_n;
    memcpy(vocab->text + vocab->text_n, token, token_bytes);
    vocab->text[vocab->text_n + token_bytes] = 0;
    vocab->text_n += token_bytes + 1;
    vocab->slot[slot] = (int32_t)id;
    vocab->token_n++;
    vocab->flags[id] = flags;
    vocab->byte_n[id] = count_chars(token, token_bytes);
    if ((flags & FW_TOKEN_MODEL) && vocab->byte_n[id] == 1) {
        uint32_t code;
        fw_utf8_next(&code, token);
        int byte = fw_vocab_char_byte(code);
        if (byte >= 0) vocab->byte_id[byte] = (int32_t)id;
    }
    return FW_OK;
}

fw_status fw_vocab_init_merges(fw_vocab *vocab, size_t merge_n) {
    size_t slot_n = 16, filter_bits = 1 << 10;
    while (slot_n < merge_n + merge_n / 2) slot_n *= 2;
    while (filter_bits < merge_n * 8 && filter_bits < (size_t)1 << 24) filter_bits *= 2;
    FW_TRY(FW_NEW_ARRAY(vocab->merge, slot_n));
    FW_TRY(FW_NEW_ARRAY(vocab->merge_to, merge_n));
    FW_TRY(FW_NEW_ARRAY(vocab->filter, filter_bits / 64));
    vocab->filter_bits = filter_bits;
    vocab->merge_slot_n = slot_n;
    vocab->merge_n = merge_n;
    return FW_OK;
}

void fw_vocab_add_merge(fw_vocab *vocab, int32_t left, int32_t right, uint32_t rank, int32_t id) {
    uint64_t pair = fw_vocab_pair(left, right), hash = fw_vocab_pair_hash(pair);
    size_t mask = vocab->merge_slot_n - 1, i = (size_t)hash & mask;
    size_t bit = (size_t)(hash >> 40) & (vocab->filter_bits - 1);
    while (vocab->merge[i] != 0 && vocab->merge[i] >> 20 != pair) i = (i + 1) & mask;
    vocab->merge[i] = pair << 20 | rank;
    vocab->merge_to[rank] = id;
    vocab->filter[bit / 64] |= (uint64_t)1 << (bit % 64);
}
