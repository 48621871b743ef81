/* Entries of columns put together to rows: the assembly of Dremel, driven by the schema.
 *
 * Whether an optional field is there, and whether a list goes on, is read off the levels of the first column below it;
 * the others must agree, which is checked when the row is complete. */
#include "base/alloc.h"
#include "data/parquet/parquet_column.h"
#include "text/utf8.h"

#include <math.h>
#include <string.h>

/* Bounds of one row: a dictionary can make terabytes of text from a few bytes. */
enum { ROW_ENTRIES_MAX = 1 << 20 };

struct fw_parquet_cursor {
    const fw_parquet *p;
    const fw_parquet_group *group; /* NULL: no columns are open */
    fw_parquet_column *column;     /* one a leaf; those not wanted stay zeroed */
    int64_t next;                  /* the row that comes next in this group, counted from its first */
    int64_t entry_n, text_bytes;   /* of the row being read */
    fw_row_place *place;
};

fw_status fw_parquet_cursor_create(fw_parquet_cursor **out, const fw_parquet *p) {
    *out = NULL;
    fw_parquet_cursor *c;
    FW_TRY(FW_NEW(c));
    c->p = p;
    fw_status status = FW_NEW_ARRAY(c->column, (size_t)p->leaf_n);
    if (status != FW_OK) {
        fw_free(c);
        return status;
    }
    *out = c;
    return FW_OK;
}

static void close_group(fw_parquet_cursor *c) {
    for (int leaf = 0; leaf < c->p->leaf_n; leaf++) fw_parquet_column_fini(&c->column[leaf]);
    c->group = NULL;
}

void fw_parquet_cursor_destroy(fw_parquet_cursor *c) {
    if (c == NULL) return;
    close_group(c);
    fw_free(c->column);
    fw_free(c);
}

static fw_status out_of_memory(const fw_parquet_cursor *c) {
    return fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", c->p->name);
}

/* The next entry of the first column below node i. */
static fw_status peek(fw_parquet_cursor *c, int i, fw_parquet_column **column) {
    *column = &c->column[c->p->node[i].leaf];
    return fw_parquet_column_peek(*column);
}

/* Take one entry of every column below: all of them say that it is not there. */
static fw_status pass_absent(fw_parquet_cursor *c, int i) {
    const fw_parquet_node *node = &c->p->node[i];
    for (int leaf = node->leaf; leaf < node->leaf_end; leaf++) {
        fw_parquet_value value;
        FW_TRY(fw_parquet_column_peek(&c->column[leaf]));
        if (c->column[leaf].def >= node->def)
            return fw_fail(FW_ERR_INPUT, "%s: the Parquet file is damaged: the columns below %s contradict each other",
                           c->p->name, node->name);
        FW_TRY(fw_parquet_column_take(&c->column[leaf], &value));
    }
    return FW_OK;
}

static fw_status count(fw_parquet_cursor *c, size_t text_bytes) {
    c->entry_n++;
    c->text_bytes += (int64_t)text_bytes;
    if (c->entry_n > ROW_ENTRIES_MAX || c->text_bytes > FW_ROW_BYTES_MAX)
        return fw_row_refuse(c->place, FW_DROP_CONTENT,
                             "the row has more than %d values or %d MiB of text; make several of it", ROW_ENTRIES_MAX,
                             FW_ROW_BYTES_MAX >> 20);
    return FW_OK;
}

/* *out = NULL for a number that JSON cannot say. */
static fw_status read_leaf(fw_parquet_cursor *c, int i, json_t **out) {
    const fw_parquet_node *node = &c->p->node[i];
    fw_parquet_value value = {.text = ""};
    FW_TRY(fw_parquet_column_take(&c->column[node->leaf], &value));
    FW_TRY(count(c, value.text_bytes));
    switch (node->type) {
    case FW_PARQUET_BOOLEAN: *out = json_boolean(value.integer); return FW_OK;
    case FW_PARQUET_INT32:
    case FW_PARQUET_INT64: *out = json_integer(value.integer); break;
    case FW_PARQUET_FLOAT:
    case FW_PARQUET_DOUBLE:
        if (!isfinite(value.real)) return FW_OK;
        *out = json_real(value.real);
        break;
    default:
        if (fw_utf8_find_invalid(value.text, value.text_bytes) < value.text_bytes)
            return fw_row_refuse(c->place, FW_DROP_JSON, "a text of column %s is not valid UTF-8", node->name);
        *out = json_stringn_nocheck(value.text, value.text_bytes);
    }
    return *out != NULL ? FW_OK : out_of_memory(c);
}

static fw_status read_field(fw_parquet_cursor *c, int i, json_t **out);
static fw_status read_present(fw_parquet_cursor *c, int i, json_t **out);

/* All occurrences of the repeated field r. element: it itself, or its only child. */
static fw_status read_repeated(fw_parquet_cursor *c, int r, int element, json_t **out) {
    const fw_parquet_node *node = &c->p->node[r];
    fw_parquet_column *column;
    *out = json_array();
    if (*out == NULL) return out_of_memory(c);
    FW_TRY(peek(c, r, &column));
    if (column->def < node->def) return pass_absent(c, r);
    do {
        json_t *value = NULL;
        FW_TRY(count(c, 0));
        fw_status status = element == r ? read_present(c, r, &value) : read_field(c, element, &value);
        if (status == FW_OK && json_array_append_new(*out, value != NULL ? value : json_null()) != 0)
            return out_of_memory(c);
        if (status != FW_OK) {
            json_decref(value);
            return status;
        }
        FW_TRY(fw_parquet_column_peek(column));
    } while (column->rep == node->rep);
    return FW_OK;
}

/* The three written forms of a list: with an element in a group of its own, or the repeated field as the element. */
static fw_status read_list(fw_parquet_cursor *c, int i, json_t **out) {
    const fw_parquet_node *node = &c->p->node[i], *repeated = node + 1;
    char old_name[256];
    size_t n = strlen(node->name);
    old_name[0] = 0;
    if (n + 7 < sizeof old_name) {
        memcpy(old_name, node->name, n);
        memcpy(old_name + n, "_tuple", 7);
    }
    const int itself = repeated->type != FW_PARQUET_GROUP || repeated->child_n != 1 ||
                       strcmp(repeated->name, "array") == 0 || strcmp(repeated->name, old_name) == 0;
    return read_repeated(c, i + 1, itself ? i + 1 : i + 2, out);
}

static fw_status set_member(fw_parquet_cursor *c, json_t *object, const char *key, json_t *value) {
    if (value == NULL) return FW_OK; /* null: left out */
    return json_object_set_new(object, key, value) == 0 ? FW_OK : out_of_memory(c);
}

static fw_status read_struct(fw_parquet_cursor *c, int i, json_t **out) {
    const fw_parquet_node *node = &c->p->node[i];
    *out = json_object();
    if (*out == NULL) return out_of_memory(c);
    FW_TRY(count(c, 0));
    for (int child = i + 1; child < node->end; child = c->p->node[child].end) {
        if (!c->p->wanted[child]) continue;
        json_t *value = NULL;
        fw_status status = read_field(c, child, &value);
        if (status != FW_OK) {
            json_decref(value);
            return status;
        }
        FW_TRY(set_member(c, *out, c->p->node[child].name, value));
    }
    return FW_OK;
}

/* A list of pairs into an object; keys that are not text are refused where the table is opened. */
static fw_status read_map(fw_parquet_cursor *c, int i, json_t **out) {
    json_t *pairs = NULL, *pair;
    size_t n;
    fw_status status;
    *out = json_object();
    if (*out == NULL) return out_of_memory(c);
    FW_TRY_OR(read_repeated(c, i + 1, i + 1, &pairs), done);
    const char *key_name = c->p->node[i + 2].name, *value_name = c->p->node[c->p->node[i + 2].end].name;
    json_array_foreach(pairs, n, pair) {
        const char *key = json_string_value(json_object_get(pair, key_name));
        json_t *value = json_object_get(pair, value_name);
        if (key != NULL && value != NULL && json_object_set(*out, key, value) != 0) {
            status = out_of_memory(c);
            goto done;
        }
    }
done:
    json_decref(pairs);
    return status;
}

/* Annotations that do not fit the tree are ignored: the group is read as it stands. */
static int is_list(const fw_parquet *p, int i) {
    return p->node[i].is_list && p->node[i].child_n == 1 && p->node[i + 1].repetition == FW_PARQUET_REPEATED;
}

static int is_map(const fw_parquet *p, int i) {
    return p->node[i].is_map && p->node[i].child_n == 1 && p->node[i + 1].repetition == FW_PARQUET_REPEATED &&
           p->node[i + 1].child_n == 2 && p->node[i + 2].type == FW_PARQUET_BYTE_ARRAY &&
           p->node[i + 2].repetition != FW_PARQUET_REPEATED;
}

/* A field that is there. */
static fw_status read_present(fw_parquet_cursor *c, int i, json_t **out) {
    if (c->p->node[i].type != FW_PARQUET_GROUP) return read_leaf(c, i, out);
    if (is_list(c->p, i)) return read_list(c, i, out);
    if (is_map(c->p, i)) return read_map(c, i, out);
    return read_struct(c, i, out);
}

/* *out = NULL: the field is null. On failure *out is the caller's to release. */
static fw_status read_field(fw_parquet_cursor *c, int i, json_t **out) {
    const fw_parquet_node *node = &c->p->node[i];
    if (node->repetition == FW_PARQUET_REPEATED) return read_repeated(c, i, i, out);
    if (node->repetition == FW_PARQUET_OPTIONAL) {
        fw_parquet_column *column;
        FW_TRY(peek(c, i, &column));
        if (column->def < node->def) return pass_absent(c, i);
    }
    return read_present(c, i, out);
}

/* All columns must have come to the end of the row together. */
static fw_status end_row(fw_parquet_cursor *c) {
    for (int leaf = 0; leaf < c->p->leaf_n; leaf++) {
        if (c->column[leaf].p == NULL) continue;
        FW_TRY(fw_parquet_column_peek(&c->column[leaf]));
        if (c->column[leaf].rep != 0)
            return fw_fail(FW_ERR_INPUT,
                           "%s: the Parquet file is damaged: the columns of row %lld contradict each other", c->p->name,
                           (long long)(c->group->first_row + c->next + 1));
    }
    c->next++;
    return FW_OK;
}

/* Take what is left of the row: all of it when it is passed over, the rest when it is refused in the middle. */
static fw_status pass_row(fw_parquet_cursor *c) {
    for (int leaf = 0; leaf < c->p->leaf_n; leaf++) {
        fw_parquet_column *column = &c->column[leaf];
        if (column->p == NULL) continue;
        for (;;) {
            fw_parquet_value value;
            FW_TRY(fw_parquet_column_peek(column));
            if (column->row_n > c->next && column->rep == 0) break;
            FW_TRY(fw_parquet_column_take(column, &value));
        }
    }
    c->next++;
    return FW_OK;
}

static const fw_parquet_group *find_group(const fw_parquet *p, int64_t index) {
    int64_t low = 0, high = p->group_n;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (p->group[middle].first_row <= index)
            low = middle;
        else
            high = middle;
    }
    return &p->group[low];
}

static fw_status go_to(fw_parquet_cursor *c, int64_t index) {
    const fw_parquet_group *group = find_group(c->p, index);
    if (c->group != group || index - group->first_row < c->next) {
        close_group(c);
        c->group = group;
        c->next = 0;
        for (int leaf = 0; leaf < c->p->leaf_n; leaf++)
            if (c->p->wanted[c->p->leaf[leaf]]) fw_parquet_column_init(&c->column[leaf], c->p, group, leaf);
    }
    while (c->next < index - group->first_row) FW_TRY(pass_row(c));
    return FW_OK;
}

fw_status fw_parquet_cursor_get(fw_parquet_cursor *c, int64_t index, json_t **row, fw_row_place *place) {
    *row = NULL;
    c->place = place;
    c->entry_n = c->text_bytes = 0;
    fw_status status;
    FW_TRY_OR(go_to(c, index), failed);
    FW_TRY_OR(read_struct(c, 0, row), failed);
    FW_TRY_OR(end_row(c), failed);
    return FW_OK;
failed:
    json_decref(*row);
    *row = NULL;
    if (place->reason == FW_DROP_REASON_N || status != FW_ERR_INPUT) {
        close_group(c); /* somewhere in a row: what comes next is found anew */
        return status;
    }
    fw_trail refusal;
    fw_trail_copy(&refusal);
    if (pass_row(c) != FW_OK) close_group(c);
    fw_trail_restore(&refusal);
    return status;
}
