#include "data/parquet/parquet_column.h"

#include "base/alloc.h"
#include "data/decompress.h"
#include "data/parquet/thrift.h"

#include <snappy-c.h>
#include <string.h>
#include <zstd.h>

enum { PAGE_DATA = 0, PAGE_INDEX = 1, PAGE_DICTIONARY = 2, PAGE_DATA_V2 = 3 };
enum { CODEC_NONE = 0, CODEC_SNAPPY = 1, CODEC_GZIP = 2, CODEC_ZSTD = 6, LEVELS_RLE = 3, PAGE_BYTES_MAX = 1 << 30 };

static const char *const codec_names[] = {"none", "Snappy", "gzip", "LZO", "Brotli", "LZ4", "Zstandard", "LZ4_RAW"};

/* What a page's header says, all three kinds in one. */
typedef struct page_header {
    int64_t type, unpacked_bytes, packed_bytes;
    int64_t value_n, encoding;
    int64_t rep_encoding, def_encoding; /* v1 */
    int64_t rep_bytes, def_bytes;       /* v2 */
    int is_packed;                      /* v2: the values are compressed */
} page_header;

void fw_parquet_column_init(fw_parquet_column *c, const fw_parquet *p, const fw_parquet_group *group, int leaf) {
    const fw_parquet_chunk *chunk = &group->chunk[leaf];
    const uint8_t *at = (const uint8_t *)p->bytes + chunk->offset;
    *c = (fw_parquet_column){.p = p,
                             .node = &p->node[p->leaf[leaf]],
                             .chunk = chunk,
                             .at = at,
                             .end = at + chunk->bytes,
                             .left = chunk->value_n};
}

void fw_parquet_column_fini(fw_parquet_column *c) {
    fw_parquet_values_fini(&c->values);
    fw_free(c->page);
    fw_free(c->dictionary_page);
    fw_free(c->dictionary.value);
    *c = (fw_parquet_column){0};
}

/* The file may be whole, but not what is read. */
static fw_status not_read(const fw_parquet_column *c, int64_t encoding) {
    static const char *const names[] = {"PLAIN",
                                        NULL,
                                        "PLAIN_DICTIONARY",
                                        "RLE",
                                        "BIT_PACKED",
                                        "DELTA_BINARY_PACKED",
                                        "DELTA_LENGTH_BYTE_ARRAY",
                                        "DELTA_BYTE_ARRAY",
                                        "RLE_DICTIONARY",
                                        "BYTE_STREAM_SPLIT"};
    const int known = encoding >= 0 && encoding < (int64_t)(sizeof names / sizeof *names) && names[encoding] != NULL;
    return fw_fail(FW_ERR_INPUT,
                   "%s: column %s is written in encoding %lld (%s), which is not read here; write the file anew with "
                   "PLAIN or a dictionary, which writers take by themselves",
                   c->p->name, c->node->name, (long long)encoding, known ? names[encoding] : "unknown");
}

static fw_status damaged(const fw_parquet_column *c, const char *what) {
    return fw_fail(FW_ERR_INPUT, "%s: the Parquet file is damaged: column %s: %s", c->p->name, c->node->name, what);
}

static void read_data_header(page_header *h, fw_thrift *t) {
    fw_thrift_field field = {0};
    while (fw_thrift_next_field(t, &field)) switch (field.id) {
        case 1: h->value_n = fw_thrift_int(t, field.type); break;
        case 2: h->encoding = fw_thrift_int(t, field.type); break;
        case 3: h->def_encoding = fw_thrift_int(t, field.type); break;
        case 4: h->rep_encoding = fw_thrift_int(t, field.type); break;
        default: fw_thrift_skip(t, field.type);
        }
}

static void read_dictionary_header(page_header *h, fw_thrift *t) {
    fw_thrift_field field = {0};
    while (fw_thrift_next_field(t, &field)) switch (field.id) {
        case 1: h->value_n = fw_thrift_int(t, field.type); break;
        case 2: h->encoding = fw_thrift_int(t, field.type); break;
        default: fw_thrift_skip(t, field.type);
        }
}

static void read_data_header_v2(page_header *h, fw_thrift *t) {
    fw_thrift_field field = {0};
    h->is_packed = 1;
    while (fw_thrift_next_field(t, &field)) switch (field.id) {
        case 1: h->value_n = fw_thrift_int(t, field.type); break;
        case 4: h->encoding = fw_thrift_int(t, field.type); break;
        case 5: h->def_bytes = fw_thrift_int(t, field.type); break;
        case 6: h->rep_bytes = fw_thrift_int(t, field.type); break;
        case 7: h->is_packed = fw_thrift_bool(t, field.type); break;
        default: fw_thrift_skip(t, field.type);
        }
}

static fw_status read_header(fw_parquet_column *c, page_header *h) {
    fw_thrift t = {.at = c->at, .end = c->end};
    fw_thrift_field field = {0};
    *h = (page_header){.type = -1, .value_n = -1, .rep_encoding = LEVELS_RLE, .def_encoding = LEVELS_RLE};
    while (fw_thrift_next_field(&t, &field)) switch (field.id) {
        case 1: h->type = fw_thrift_int(&t, field.type); break;
        case 2: h->unpacked_bytes = fw_thrift_int(&t, field.type); break;
        case 3: h->packed_bytes = fw_thrift_int(&t, field.type); break;
        case 5:
            fw_thrift_expect_struct(&t, field.type);
            read_data_header(h, &t);
            break;
        case 7:
            fw_thrift_expect_struct(&t, field.type);
            read_dictionary_header(h, &t);
            break;
        case 8:
            fw_thrift_expect_struct(&t, field.type);
            read_data_header_v2(h, &t);
            break;
        default: fw_thrift_skip(&t, field.type);
        }
    if (t.broken) return damaged(c, "a page has no readable header");
    c->at = t.at;
    if (h->packed_bytes < 0 || h->packed_bytes > c->end - c->at) return damaged(c, "a page is longer than its column");
    if (h->unpacked_bytes < 0 || h->unpacked_bytes > PAGE_BYTES_MAX)
        return damaged(c, "a page is said to be more than 1 GiB unpacked");
    return FW_OK;
}

/* Pages that say more than their codec can give are not believed: no memory is taken for them. */
static fw_status unpack(const fw_parquet_column *c, uint8_t *out, size_t out_bytes, const uint8_t *bytes,
                        size_t n_bytes) {
    size_t got = out_bytes;
    switch (c->chunk->codec) {
    case CODEC_SNAPPY:
        return snappy_uncompress((const char *)bytes, n_bytes, (char *)out, &got) == SNAPPY_OK && got == out_bytes
                   ? FW_OK
                   : damaged(c, "a page cannot be unpacked (Snappy)");
    case CODEC_ZSTD:
        got = ZSTD_decompress(out, out_bytes, bytes, n_bytes);
        return !ZSTD_isError(got) && got == out_bytes ? FW_OK : damaged(c, "a page cannot be unpacked (Zstandard)");
    default: {
        fw_status status = fw_inflate_block(out, out_bytes, bytes, n_bytes);
        return status == FW_ERR_INPUT ? damaged(c, "a page cannot be unpacked (gzip)") : status;
    }
    }
}

static int believable(int codec, size_t out_bytes, const uint8_t *bytes, size_t n_bytes) {
    size_t said;
    if (codec == CODEC_SNAPPY)
        return snappy_uncompressed_length((const char *)bytes, n_bytes, &said) == SNAPPY_OK && said == out_bytes;
    if (codec == CODEC_GZIP) return out_bytes / 1040 <= n_bytes;
    unsigned long long size = ZSTD_getFrameContentSize(bytes, n_bytes);
    return size != ZSTD_CONTENTSIZE_ERROR && (size == ZSTD_CONTENTSIZE_UNKNOWN || size == out_bytes);
}

/* *out: the unpacked bytes, in *buffer or where they stand in the file. */
static fw_status get_bytes(const fw_parquet_column *c, const uint8_t **out, uint8_t **buffer, size_t *cap,
                           const uint8_t *bytes, size_t n_bytes, size_t out_bytes, int is_packed) {
    const int codec = c->chunk->codec;
    *out = bytes;
    if (!is_packed || codec == CODEC_NONE)
        return n_bytes == out_bytes ? FW_OK : damaged(c, "a page that is not compressed has two sizes");
    if (codec != CODEC_SNAPPY && codec != CODEC_GZIP && codec != CODEC_ZSTD)
        return fw_fail(FW_ERR_INPUT,
                       "%s: column %s is compressed by %s, which is not read; Snappy, gzip, Zstandard and none are",
                       c->p->name, c->node->name, codec >= 0 && codec <= 7 ? codec_names[codec] : "an unknown codec");
    if (out_bytes == 0) return FW_OK;
    if (!believable(codec, out_bytes, bytes, n_bytes)) return damaged(c, "a page says a size that it does not have");
    if (out_bytes > *cap) {
        fw_free(*buffer); /* nothing in it is needed */
        *buffer = NULL;
        *cap = 0;
        FW_TRY(fw_calloc((void **)buffer, out_bytes, 1));
        *cap = out_bytes;
    }
    *out = *buffer;
    return unpack(c, *buffer, out_bytes, bytes, n_bytes);
}

static fw_status read_dictionary(fw_parquet_column *c, const page_header *h) {
    size_t cap = 0;
    const uint8_t *bytes;
    if (c->dictionary.value != NULL) return damaged(c, "a second dictionary");
    if (h->encoding != 0 && h->encoding != 2) return damaged(c, "a dictionary that is not PLAIN");
    if (h->value_n < 0 || h->value_n > h->unpacked_bytes * 8)
        return damaged(c, "a dictionary with more entries than bits");
    FW_TRY(
        get_bytes(c, &bytes, &c->dictionary_page, &cap, c->at, (size_t)h->packed_bytes, (size_t)h->unpacked_bytes, 1));
    FW_TRY(FW_NEW_ARRAY(c->dictionary.value, (size_t)h->value_n));
    fw_parquet_values values = {.type = c->node->type, .at = bytes, .end = bytes + h->unpacked_bytes};
    for (int64_t i = 0; i < h->value_n; i++)
        if (!fw_parquet_plain(&values, &c->dictionary.value[i]))
            return damaged(c, "a dictionary has fewer entries than it says");
    c->dictionary.n = (uint32_t)h->value_n;
    return FW_OK;
}

static int level_width(int max) {
    int width = 0;
    while (max >> width) width++;
    return width;
}

/* Levels of a v1 page: a length of four bytes before them. */
static int take_levels(fw_hybrid *h, const uint8_t **at, const uint8_t *end, int max) {
    fw_hybrid_init(h, *at, 0, 0);
    if (max == 0) return 1;
    if (end - *at < 4) return 0;
    const uint8_t *p = *at;
    uint32_t bytes = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    if (bytes > (size_t)(end - p) - 4) return 0;
    fw_hybrid_init(h, p + 4, bytes, level_width(max));
    *at = p + 4 + bytes;
    return 1;
}

static fw_status start_values(fw_parquet_column *c, const page_header *h, const uint8_t *bytes, const uint8_t *end) {
    const char *wrong = fw_parquet_values_start(&c->values, c->node->type, (int)h->encoding, bytes,
                                                (size_t)(end - bytes), &c->dictionary);
    if (wrong == fw_parquet_not_read) return not_read(c, h->encoding);
    if (wrong != NULL) return damaged(c, wrong);
    c->left -= h->value_n;
    c->page_left = h->value_n;
    return FW_OK;
}

static fw_status read_data(fw_parquet_column *c, const page_header *h) {
    const uint8_t *bytes;
    if ((c->node->rep > 0 && h->rep_encoding != LEVELS_RLE) || (c->node->def > 0 && h->def_encoding != LEVELS_RLE))
        return damaged(c, "levels in an encoding that is not read");
    FW_TRY(get_bytes(c, &bytes, &c->page, &c->page_cap, c->at, (size_t)h->packed_bytes, (size_t)h->unpacked_bytes, 1));
    const uint8_t *end = bytes + h->unpacked_bytes;
    if (!take_levels(&c->reps, &bytes, end, c->node->rep) || !take_levels(&c->defs, &bytes, end, c->node->def))
        return damaged(c, "the levels are longer than their page");
    return start_values(c, h, bytes, end);
}

static fw_status read_data_v2(fw_parquet_column *c, const page_header *h) {
    const uint8_t *bytes;
    if (h->rep_bytes < 0 || h->def_bytes < 0 || h->rep_bytes > h->packed_bytes ||
        h->def_bytes > h->packed_bytes - h->rep_bytes || h->rep_bytes + h->def_bytes > h->unpacked_bytes)
        return damaged(c, "the levels are longer than their page");
    const int64_t levels = h->rep_bytes + h->def_bytes;
    fw_hybrid_init(&c->reps, c->at, (size_t)h->rep_bytes, level_width(c->node->rep));
    fw_hybrid_init(&c->defs, c->at + h->rep_bytes, (size_t)h->def_bytes, level_width(c->node->def));
    FW_TRY(get_bytes(c, &bytes, &c->page, &c->page_cap, c->at + levels, (size_t)(h->packed_bytes - levels),
                     (size_t)(h->unpacked_bytes - levels), h->is_packed));
    return start_values(c, h, bytes, bytes + (h->unpacked_bytes - levels));
}

static fw_status next_page(fw_parquet_column *c) {
    page_header h;
    if (c->at == c->end) return damaged(c, "it has fewer values than the footer says");
    FW_TRY(read_header(c, &h));
    if (h.type == PAGE_DICTIONARY)
        FW_TRY(read_dictionary(c, &h));
    else if (h.type == PAGE_DATA || h.type == PAGE_DATA_V2) {
        if (h.value_n < 0 || h.value_n > c->left)
            return damaged(c, "a page has more values than are left of its column");
        FW_TRY(h.type == PAGE_DATA ? read_data(c, &h) : read_data_v2(c, &h));
    } else if (h.type != PAGE_INDEX)
        return damaged(c, "a page of an unknown kind");
    c->at += h.packed_bytes;
    return FW_OK;
}

fw_status fw_parquet_column_peek(fw_parquet_column *c) {
    if (c->peeked) return FW_OK;
    while (c->page_left == 0 && c->left > 0) FW_TRY(next_page(c));
    c->rep = 0;
    c->def = -1;
    if (c->page_left > 0) {
        uint32_t rep = 0, def = 0;
        if ((c->node->rep > 0 && !fw_hybrid_next(&c->reps, &rep)) ||
            (c->node->def > 0 && !fw_hybrid_next(&c->defs, &def)))
            return damaged(c, "a page has fewer levels than values");
        if (rep > (uint32_t)c->node->rep || def > (uint32_t)c->node->def)
            return damaged(c, "a level that the schema does not have");
        c->rep = (int)rep;
        c->def = (int)def;
    }
    c->peeked = 1;
    return FW_OK;
}

fw_status fw_parquet_column_take(fw_parquet_column *c, fw_parquet_value *value) {
    FW_TRY(fw_parquet_column_peek(c));
    if (c->def < 0) return damaged(c, "it ends inside a row");
    c->peeked = 0;
    c->row_n += c->rep == 0;
    c->page_left--;
    if (c->def < c->node->def) return FW_OK;
    const char *wrong;
    FW_TRY(fw_parquet_values_next(&c->values, value, &wrong));
    return wrong == NULL ? FW_OK : damaged(c, wrong);
}
