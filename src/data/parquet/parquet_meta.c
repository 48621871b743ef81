#include "data/parquet/parquet_meta.h"

#include "base/alloc.h"
#include "base/strbuf.h"
#include "data/parquet/thrift.h"
#include "data/shape.h"

#include <stdlib.h>
#include <string.h>

/* ENTRIES_PER_BYTE: a run may say millions of nulls in a few bytes, but a table that holds text has more bytes than
 * that. The bound makes time and memory follow the size of the file. */
enum { ENTRIES_PER_BYTE = 256, ENTRIES_FREE = 1 << 16 };

fw_status fw_parquet_damaged(const fw_parquet *p, const char *what) {
    return fw_fail(FW_ERR_INPUT, "%s: the Parquet file is damaged: %s", p->name, what);
}

static void read_column_meta(fw_parquet_chunk *chunk, fw_thrift *t) {
    fw_thrift_field field = {0};
    int64_t data_offset = -1, dictionary_offset = -1;
    chunk->codec = -1;
    while (fw_thrift_next_field(t, &field)) switch (field.id) {
        case 4: chunk->codec = (int)fw_thrift_int(t, field.type); break;
        case 5: chunk->value_n = fw_thrift_int(t, field.type); break;
        case 6: chunk->unpacked_bytes = fw_thrift_int(t, field.type); break;
        case 7: chunk->bytes = fw_thrift_int(t, field.type); break;
        case 9: data_offset = fw_thrift_int(t, field.type); break;
        case 11: dictionary_offset = fw_thrift_int(t, field.type); break;
        default: fw_thrift_skip(t, field.type);
        }
    /* Some writers put 0 for "no dictionary": the magic number stands there. */
    chunk->offset = dictionary_offset >= 4 && dictionary_offset < data_offset ? dictionary_offset : data_offset;
}

static void read_column(fw_parquet_chunk *chunk, fw_thrift *t, int *elsewhere) {
    fw_thrift_field field = {0};
    while (fw_thrift_next_field(t, &field)) {
        if (field.id == 3 && field.type == FW_THRIFT_STRUCT) {
            read_column_meta(chunk, t);
            continue;
        }
        if (field.id == 1 || field.id == 8 || field.id == 9) *elsewhere = field.id; /* another file, or encrypted */
        fw_thrift_skip(t, field.type);
    }
}

static fw_status read_group(fw_parquet *p, fw_parquet_group *group, fw_thrift *t) {
    fw_thrift_field field = {0};
    fw_thrift_type element;
    int elsewhere = 0;
    group->row_n = -1;
    while (fw_thrift_next_field(t, &field)) {
        if (field.id == 3) {
            group->row_n = fw_thrift_int(t, field.type);
        } else if (field.id == 1 && group->chunk == NULL) {
            size_t n = fw_thrift_list(t, field.type, &element);
            if (t->broken || n != (size_t)p->leaf_n)
                return fw_parquet_damaged(p, "a row group has not one chunk a column");
            FW_TRY(FW_NEW_ARRAY(group->chunk, n));
            for (size_t i = 0; i < n; i++) {
                fw_thrift_expect_struct(t, element);
                read_column(&group->chunk[i], t, &elsewhere);
            }
        } else
            fw_thrift_skip(t, field.type);
    }
    if (elsewhere)
        return fw_fail(FW_ERR_INPUT, "%s: its columns are %s, which is not read", p->name,
                       elsewhere == 1 ? "in other files" : "encrypted");
    if (group->chunk == NULL || group->row_n < 0) t->broken = 1;
    return FW_OK;
}

static fw_status read_groups(fw_parquet *p, fw_thrift *t, fw_thrift_type type) {
    fw_thrift_type element;
    size_t n = fw_thrift_list(t, type, &element);
    if (p->node_n == 0 || p->group != NULL || t->broken) return fw_parquet_damaged(p, "row groups before the schema");
    FW_TRY(FW_NEW_ARRAY(p->group, n));
    for (size_t i = 0; i < n; i++) {
        fw_thrift_expect_struct(t, element);
        p->group_n++;
        FW_TRY(read_group(p, &p->group[i], t));
        if (t->broken) return fw_parquet_damaged(p, "the list of row groups");
        p->group[i].first_row = p->row_n;
        if (__builtin_add_overflow(p->row_n, p->group[i].row_n, &p->row_n))
            return fw_parquet_damaged(p, "the numbers of rows");
    }
    return FW_OK;
}

static const char *const type_names[] = {"BOOLEAN", "INT32",  "INT64",      "INT96",
                                         "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Two fields of one name in a struct: which of them is meant? Only those that are read count. */
static fw_status refuse_twins(const fw_parquet *p, int parent) {
    const char **names;
    size_t n = 0;
    fw_status status = FW_OK;
    FW_TRY(FW_NEW_ARRAY(names, (size_t)p->node[parent].child_n));
    for (int i = parent + 1; i < p->node[parent].end; i = p->node[i].end)
        if (p->wanted[i]) names[n++] = p->node[i].name;
    if (n > 1) qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n && status == FW_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = fw_fail(FW_ERR_INPUT, "%s: two %s are called %.100s; rename or remove one", p->name,
                             parent == 0 ? "columns" : "fields of a column", names[i]);
    fw_free(names);
    return status;
}

/* Mark the columns that are read, and refuse what they hold that is not. */
static fw_status choose_columns(fw_parquet *p, const char *text_field) {
    fw_strbuf names = {0};
    fw_status status = FW_OK;
    int wanted_n = 0;
    FW_TRY(FW_NEW_ARRAY(p->wanted, (size_t)p->node_n));
    for (int top = 1; top < p->node_n; top = p->node[top].end) {
        FW_TRY_OR(fw_strbuf_printf(&names, "%s%.60s", top > 1 ? ", " : "", p->node[top].name), done);
        if (!fw_shape_uses_key(p->node[top].name, text_field)) continue;
        wanted_n++;
        for (int i = top; i < p->node[top].end; i++) {
            fw_parquet_type type = p->node[i].type;
            p->wanted[i] = 1;
            if (type == FW_PARQUET_INT96 || type == FW_PARQUET_FIXED) {
                status = fw_fail(FW_ERR_INPUT, "%s: column %s.%s is of type %s, which is not read", p->name,
                                 p->node[top].name, p->node[i].name, type_names[type]);
                goto done;
            }
        }
    }
    if (wanted_n == 0)
        status =
            fw_fail(FW_ERR_INPUT,
                    "%s has no column that is read (messages, conversations, prompt and completion, instruction and "
                    "output, text); its columns are %.400s",
                    p->name, fw_strbuf_text(&names));
    for (int i = 0; i < p->node_n && status == FW_OK; i++)
        if ((i == 0 || p->wanted[i]) && p->node[i].child_n > 1) status = refuse_twins(p, i);
done:
    fw_strbuf_fini(&names);
    return status;
}

static fw_status check_chunk(const fw_parquet *p, const fw_parquet_group *group, int leaf) {
    const fw_parquet_chunk *chunk = &group->chunk[leaf];
    const fw_parquet_node *node = &p->node[p->leaf[leaf]];
    if (group->row_n == 0 && chunk->value_n == 0) return FW_OK; /* no page: writers put any offset there */
    if (chunk->offset < 4 || chunk->bytes < 0 || (uint64_t)chunk->offset > p->n_bytes ||
        (uint64_t)chunk->bytes > p->n_bytes - (uint64_t)chunk->offset)
        return fw_fail(FW_ERR_INPUT,
                       "%s: the Parquet file is damaged: column %s is said to be %lld bytes at %lld, but the "
                       "file has %zu",
                       p->name, node->name, (long long)chunk->bytes, (long long)chunk->offset, p->n_bytes);
    if (chunk->value_n < group->row_n || (node->rep == 0 && chunk->value_n != group->row_n))
        return fw_fail(FW_ERR_INPUT, "%s: the Parquet file is damaged: column %s has %lld values for %lld rows",
                       p->name, node->name, (long long)chunk->value_n, (long long)group->row_n);
    return FW_OK;
}

static fw_status check_groups(fw_parquet *p) {
    int64_t unpacked = 0;
    for (int64_t g = 0; g < p->group_n; g++) {
        uint64_t value_n = 0, bytes = 0;
        for (int leaf = 0; leaf < p->leaf_n; leaf++) {
            if (!p->wanted[p->leaf[leaf]]) continue;
            FW_TRY(check_chunk(p, &p->group[g], leaf));
            const fw_parquet_chunk *chunk = &p->group[g].chunk[leaf];
            bytes += (uint64_t)chunk->bytes;
            value_n += (uint64_t)chunk->value_n < UINT64_MAX - value_n ? (uint64_t)chunk->value_n : 0;
            int64_t more = chunk->unpacked_bytes > 0 && chunk->unpacked_bytes < 1ll << 50 ? chunk->unpacked_bytes : 0;
            unpacked += unpacked < 1ll << 60 ? more : 0;
        }
        if (value_n / ENTRIES_PER_BYTE > bytes + ENTRIES_FREE / ENTRIES_PER_BYTE)
            return fw_fail(FW_ERR_INPUT,
                           "%s: row group %lld is said to hold %llu values in %llu bytes: no table of text does",
                           p->name, (long long)g, (unsigned long long)value_n, (unsigned long long)bytes);
    }
    p->row_bytes = p->row_n > 0 ? unpacked / p->row_n + 1 : 1;
    return FW_OK;
}

fw_status fw_parquet_read_footer(fw_parquet *p) {
    const uint8_t *bytes = (const uint8_t *)p->bytes, *end = bytes + p->n_bytes;
    if (p->n_bytes < 12 || memcmp(p->bytes, "PAR1", 4) != 0)
        return fw_parquet_damaged(p, "it does not begin with PAR1");
    if (memcmp(end - 4, "PARE", 4) == 0) return fw_fail(FW_ERR_INPUT, "%s: its footer is encrypted", p->name);
    if (memcmp(end - 4, "PAR1", 4) != 0)
        return fw_parquet_damaged(p, "it does not end with PAR1: is the file cut off?");
    uint32_t footer_bytes = end[-8] | (uint32_t)end[-7] << 8 | (uint32_t)end[-6] << 16 | (uint32_t)end[-5] << 24;
    if (footer_bytes > p->n_bytes - 12) return fw_parquet_damaged(p, "the footer is said to be longer than the file");
    fw_thrift t = {.at = end - 8 - footer_bytes, .end = end - 8};
    fw_thrift_field field = {0};
    int64_t row_n = -1;
    while (fw_thrift_next_field(&t, &field)) switch (field.id) {
        case 2: FW_TRY(fw_parquet_read_schema(p, &t, field.type)); break;
        case 3: row_n = fw_thrift_int(&t, field.type); break;
        case 4: FW_TRY(read_groups(p, &t, field.type)); break;
        default: fw_thrift_skip(&t, field.type);
        }
    if (t.broken || p->node_n == 0) return fw_parquet_damaged(p, "the footer");
    if (row_n != p->row_n) return fw_parquet_damaged(p, "the row groups do not hold as many rows as the file says");
    return FW_OK;
}

fw_status fw_parquet_open(fw_parquet **out, const char *name, const char *bytes, size_t n_bytes,
                          const char *text_field) {
    *out = NULL;
    fw_parquet *p;
    fw_status status;
    FW_TRY(FW_NEW(p));
    FW_TRY_OR(fw_strdup(&p->name, name), failed);
    p->bytes = bytes;
    p->n_bytes = n_bytes;
    FW_TRY_OR(fw_parquet_read_footer(p), failed);
    FW_TRY_OR(choose_columns(p, text_field), failed);
    FW_TRY_OR(check_groups(p), failed);
    *out = p;
    return FW_OK;
failed:
    fw_parquet_close(p);
    return status;
}

void fw_parquet_close(fw_parquet *p) {
    if (p == NULL) return;
    for (int i = 0; i < p->node_n; i++) fw_free(p->node[i].name);
    for (int64_t g = 0; g < p->group_n; g++) fw_free(p->group[g].chunk);
    fw_free(p->node);
    fw_free(p->leaf);
    fw_free(p->wanted);
    fw_free(p->group);
    fw_free(p->name);
    fw_free(p);
}

int64_t fw_parquet_row_n(const fw_parquet *p) { return p->row_n; }
int64_t fw_parquet_row_bytes(const fw_parquet *p) { return p->row_bytes; }
