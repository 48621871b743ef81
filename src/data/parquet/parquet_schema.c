/* The list of schema elements into a tree, with the levels of every field. */
#include "base/alloc.h"
#include "data/parquet/parquet_meta.h"
#include "data/parquet/thrift.h"
#include "text/utf8.h"

#include <string.h>

enum { DEPTH_MAX = 64 };

/* LogicalType is a union: the id of the field that is set. */
static int read_logical(fw_thrift *t) {
    fw_thrift_field field = {0};
    int id = 0;
    while (fw_thrift_next_field(t, &field)) {
        id = field.id;
        fw_thrift_skip(t, field.type);
    }
    return id;
}

static fw_status read_element(fw_parquet_node *node, fw_thrift *t) {
    enum { CONVERTED_MAP = 1, CONVERTED_MAP_KEY_VALUE = 2, CONVERTED_LIST = 3, LOGICAL_MAP = 2, LOGICAL_LIST = 3 };
    fw_thrift_field field = {0};
    int64_t type = -1, repetition = 0, children = 0, converted = -1;
    int logical = 0;
    const char *name = "";
    size_t name_bytes = 0;
    while (fw_thrift_next_field(t, &field)) switch (field.id) {
        case 1: type = fw_thrift_int(t, field.type); break;
        case 3: repetition = fw_thrift_int(t, field.type); break;
        case 4: name_bytes = fw_thrift_binary(t, field.type, &name); break;
        case 5: children = fw_thrift_int(t, field.type); break;
        case 6: converted = fw_thrift_int(t, field.type); break;
        case 10:
            fw_thrift_expect_struct(t, field.type);
            logical = read_logical(t);
            break;
        default: fw_thrift_skip(t, field.type);
        }
    if (children < 0 || children > 1 << 20 || repetition < 0 || repetition > 2 || type < -1 || type > FW_PARQUET_FIXED)
        t->broken = 1;
    if (children == 0 && type < 0) t->broken = 1; /* neither a leaf nor a group */
    if (t->broken) return FW_OK;
    *node = (fw_parquet_node){.type = children > 0 ? FW_PARQUET_GROUP : (fw_parquet_type)type,
                              .repetition = (int)repetition,
                              .child_n = (int)children,
                              .is_list = logical == LOGICAL_LIST || converted == CONVERTED_LIST,
                              .is_map = logical == LOGICAL_MAP || converted == CONVERTED_MAP ||
                                        converted == CONVERTED_MAP_KEY_VALUE};
    return fw_strndup(&node->name, name, name_bytes);
}

/* Sets levels, ends and leaves of node i's subtree. Returns 0 when the children do not add up. */
static int lay_out(fw_parquet *p, int i, int def, int rep, int depth) {
    fw_parquet_node *node = &p->node[i];
    if (depth > DEPTH_MAX) return 0;
    if (i > 0) {
        def += node->repetition != FW_PARQUET_REQUIRED;
        rep += node->repetition == FW_PARQUET_REPEATED;
    }
    node->def = def;
    node->rep = rep;
    node->leaf = p->leaf_n;
    if (node->type != FW_PARQUET_GROUP) p->leaf[p->leaf_n++] = i;
    int next = i + 1;
    for (int c = 0; c < node->child_n; c++) {
        if (next >= p->node_n || !lay_out(p, next, def, rep, depth + 1)) return 0;
        next = p->node[next].end;
    }
    node->end = next;
    node->leaf_end = p->leaf_n;
    return 1;
}

fw_status fw_parquet_read_schema(fw_parquet *p, fw_thrift *t, fw_thrift_type type) {
    fw_thrift_type element;
    size_t n = fw_thrift_list(t, type, &element);
    if (p->node != NULL || t->broken || n == 0 || n > 1 << 20) return fw_parquet_damaged(p, "the schema");
    FW_TRY(FW_NEW_ARRAY(p->node, n));
    FW_TRY(FW_NEW_ARRAY(p->leaf, n));
    for (size_t i = 0; i < n; i++) {
        fw_thrift_expect_struct(t, element);
        FW_TRY(read_element(&p->node[i], t));
        if (t->broken) return fw_parquet_damaged(p, "the schema");
        p->node_n++;
        const char *name = p->node[i].name;
        if (fw_utf8_find_invalid(name, strlen(name)) < strlen(name))
            return fw_parquet_damaged(p, "the name of a column is not UTF-8");
    }
    if (p->node[0].type != FW_PARQUET_GROUP || !lay_out(p, 0, 0, 0, 0) || p->node[0].end != p->node_n)
        return fw_parquet_damaged(p, "the tree of the schema");
    return FW_OK;
}
