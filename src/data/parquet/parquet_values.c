#include "data/parquet/parquet_values.h"

#include <string.h>

enum {
    PLAIN = 0,
    PLAIN_DICTIONARY = 2,
    RLE = 3,
    DELTA_BINARY_PACKED = 5,
    DELTA_LENGTH_BYTE_ARRAY = 6,
    DELTA_BYTE_ARRAY = 7,
    RLE_DICTIONARY = 8
};

const char fw_parquet_not_read[] = "an encoding that is not read";

static uint32_t read_u32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static uint64_t read_u64(const uint8_t *p) { return read_u32(p) | (uint64_t)read_u32(p + 4) << 32; }

int fw_parquet_plain(fw_parquet_values *v, fw_parquet_value *value) {
    const size_t left = (size_t)(v->end - v->at);
    uint32_t word;
    uint64_t bits;
    float single;
    *value = (fw_parquet_value){.text = ""};
    switch (v->type) {
    case FW_PARQUET_BOOLEAN:
        if (v->index / 8 >= left) return 0;
        value->integer = v->at[v->index / 8] >> (v->index % 8) & 1;
        v->index++;
        return 1;
    case FW_PARQUET_INT32:
    case FW_PARQUET_FLOAT:
        if (left < 4) return 0;
        word = read_u32(v->at);
        memcpy(&single, &word, sizeof single);
        value->integer = (int32_t)word;
        value->real = single;
        v->at += 4;
        return 1;
    case FW_PARQUET_INT64:
    case FW_PARQUET_DOUBLE:
        if (left < 8) return 0;
        bits = read_u64(v->at);
        memcpy(&value->real, &bits, sizeof bits);
        value->integer = (int64_t)bits;
        v->at += 8;
        return 1;
    case FW_PARQUET_BYTE_ARRAY:
        if (left < 4) return 0;
        word = read_u32(v->at);
        if (word > left - 4) return 0;
        value->text = (const char *)v->at + 4;
        value->text_bytes = word;
        v->at += 4 + (size_t)word;
        return 1;
    default: return 0;
    }
}

/* All lengths come first, so the texts begin where the deltas end: they are gone through once to find it. */
static int start_lengths(fw_parquet_values *v, const uint8_t *bytes) {
    fw_deltas ahead;
    int64_t length;
    if (!fw_deltas_init(&ahead, bytes, (size_t)(v->end - bytes))) return 0;
    v->deltas = ahead;
    while (ahead.left > 0)
        if (!fw_deltas_next(&ahead, &length)) return 0;
    v->at = fw_deltas_end(&ahead);
    return 1;
}

static int start_prefixes(fw_parquet_values *v, const uint8_t *bytes) {
    fw_deltas ahead;
    int64_t length;
    if (!fw_deltas_init(&ahead, bytes, (size_t)(v->end - bytes))) return 0;
    v->prefixes = ahead;
    while (ahead.left > 0)
        if (!fw_deltas_next(&ahead, &length)) return 0;
    fw_strbuf_clear(&v->last);
    return start_lengths(v, fw_deltas_end(&ahead));
}

const char *fw_parquet_values_start(fw_parquet_values *v, fw_parquet_type type, int encoding, const uint8_t *bytes,
                                    size_t n_bytes, const fw_parquet_dictionary *dictionary) {
    fw_strbuf last = v->last;
    *v = (fw_parquet_values){.type = type, .encoding = encoding, .at = bytes, .end = bytes + n_bytes, .last = last};
    const int is_integer = type == FW_PARQUET_INT32 || type == FW_PARQUET_INT64;
    switch (encoding) {
    case PLAIN: return NULL;
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY:
        if (dictionary == NULL || dictionary->value == NULL) return "indices without a dictionary";
        v->dictionary = dictionary;
        if (n_bytes == 0) { /* no value but nulls */
            fw_hybrid_init(&v->hybrid, bytes, 0, 0);
            return NULL;
        }
        if (bytes[0] > 32) return "indices of more than 32 bits";
        fw_hybrid_init(&v->hybrid, bytes + 1, n_bytes - 1, bytes[0]);
        return NULL;
    case RLE:
        if (type != FW_PARQUET_BOOLEAN) return fw_parquet_not_read;
        if (n_bytes < 4) return n_bytes == 0 ? NULL : "truth values are cut off";
        if (read_u32(bytes) > n_bytes - 4) return "truth values are cut off";
        fw_hybrid_init(&v->hybrid, bytes + 4, read_u32(bytes), 1);
        return NULL;
    case DELTA_BINARY_PACKED:
        if (!is_integer) return fw_parquet_not_read;
        return n_bytes == 0 || fw_deltas_init(&v->deltas, bytes, n_bytes) ? NULL : "the header of deltas";
    case DELTA_LENGTH_BYTE_ARRAY:
        if (type != FW_PARQUET_BYTE_ARRAY) return fw_parquet_not_read;
        return n_bytes == 0 || start_lengths(v, bytes) ? NULL : "the lengths of texts";
    case DELTA_BYTE_ARRAY:
        if (type != FW_PARQUET_BYTE_ARRAY) return fw_parquet_not_read;
        return n_bytes == 0 || start_prefixes(v, bytes) ? NULL : "the lengths of prefixes";
    default: return fw_parquet_not_read;
    }
}

/* A text of the length that comes next. */
static int next_text(fw_parquet_values *v, fw_parquet_value *value) {
    int64_t length;
    if (!fw_deltas_next(&v->deltas, &length) || length < 0 || length > v->end - v->at) return 0;
    value->text = (const char *)v->at;
    value->text_bytes = (size_t)length;
    v->at += length;
    return 1;
}

static fw_status next_prefixed(fw_parquet_values *v, fw_parquet_value *value, int *good) {
    int64_t prefix;
    *good = fw_deltas_next(&v->prefixes, &prefix) && prefix >= 0 && (uint64_t)prefix <= v->last.len_bytes &&
            next_text(v, value);
    if (!*good) return FW_OK;
    v->last.len_bytes = (size_t)prefix;
    FW_TRY(fw_strbuf_append(&v->last, value->text, value->text_bytes));
    value->text = fw_strbuf_text(&v->last);
    value->text_bytes = v->last.len_bytes;
    return FW_OK;
}

fw_status fw_parquet_values_next(fw_parquet_values *v, fw_parquet_value *value, const char **wrong) {
    uint32_t index = 0;
    int good = 0;
    *value = (fw_parquet_value){.text = ""};
    *wrong = NULL;
    switch (v->encoding) {
    case PLAIN: good = fw_parquet_plain(v, value); break;
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY:
        good = fw_hybrid_next(&v->hybrid, &index) && index < v->dictionary->n;
        if (good) *value = v->dictionary->value[index];
        break;
    case RLE:
        good = fw_hybrid_next(&v->hybrid, &index);
        value->integer = index;
        break;
    case DELTA_BINARY_PACKED: good = fw_deltas_next(&v->deltas, &value->integer); break;
    case DELTA_LENGTH_BYTE_ARRAY: good = next_text(v, value); break;
    default: FW_TRY(next_prefixed(v, value, &good));
    }
    if (!good) *wrong = "a page has fewer values than it says";
    return FW_OK;
}

void fw_parquet_values_fini(fw_parquet_values *v) { fw_strbuf_fini(&v->last); }
