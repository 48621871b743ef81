/* What the footer of a Parquet file says: the schema, and where the columns of each row group stand. */
#ifndef FW_DATA_PARQUET_META_H
#define FW_DATA_PARQUET_META_H

#include "data/parquet/parquet.h"
#include "data/parquet/thrift.h"

typedef enum fw_parquet_type {
    FW_PARQUET_BOOLEAN,
    FW_PARQUET_INT32,
    FW_PARQUET_INT64,
    FW_PARQUET_INT96,
    FW_PARQUET_FLOAT,
    FW_PARQUET_DOUBLE,
    FW_PARQUET_BYTE_ARRAY,
    FW_PARQUET_FIXED,
    FW_PARQUET_GROUP = -1
} fw_parquet_type;

enum { FW_PARQUET_REQUIRED, FW_PARQUET_OPTIONAL, FW_PARQUET_REPEATED };

/* A field of the schema. Nodes stand in one array, a group before its children: node i's subtree is i..end-1. */
typedef struct fw_parquet_node {
    char *name;
    fw_parquet_type type;
    int repetition;
    int is_list, is_map; /* how the group is annotated */
    int child_n;         /* as the file says, when the tree has been checked */
    int end;
    int def, rep;       /* definition and repetition level of the field when it is there */
    int leaf, leaf_end; /* the leaves below: columns leaf..leaf_end-1 */
} fw_parquet_node;

/* One column of one row group. */
typedef struct fw_parquet_chunk {
    int codec;
    int64_t value_n; /* entries, nulls included */
    int64_t offset, bytes;
    int64_t unpacked_bytes;
} fw_parquet_chunk;

typedef struct fw_parquet_group {
    int64_t first_row, row_n;
    fw_parquet_chunk *chunk; /* one a leaf */
} fw_parquet_group;

struct fw_parquet {
    char *name; /* of the file */
    const char *bytes;
    size_t n_bytes;
    fw_parquet_node *node; /* node 0 is the root: a row */
    int node_n;
    int *leaf; /* the nodes that are leaves */
    int leaf_n;
    uint8_t *wanted; /* one a node below the root: some shape reads the column it belongs to */
    fw_parquet_group *group;
    int64_t group_n, row_n, row_bytes;
};

/* Fill schema and groups from the footer. */
fw_status fw_parquet_read_footer(fw_parquet *p);
/* From the list of schema elements in the footer: data/parquet/parquet_schema.c. */
fw_status fw_parquet_read_schema(fw_parquet *p, fw_thrift *t, fw_thrift_type type);
/* "x.parquet: the footer is damaged: WHAT". */
fw_status fw_parquet_damaged(const fw_parquet *p, const char *what);

#endif
