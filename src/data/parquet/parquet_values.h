/* The values of one data page, in any of the encodings that are read. */
#ifndef FW_DATA_PARQUET_VALUES_H
#define FW_DATA_PARQUET_VALUES_H

#include "base/strbuf.h"
#include "data/parquet/parquet_bits.h"
#include "data/parquet/parquet_meta.h"

/* One value: the field that its type has. text is valid until the next value is read. */
typedef struct fw_parquet_value {
    int64_t integer; /* also truth values */
    double real;
    const char *text;
    size_t text_bytes;
} fw_parquet_value;

/* Entries of a column's dictionary. */
typedef struct fw_parquet_dictionary {
    fw_parquet_value *value;
    uint32_t n;
} fw_parquet_dictionary;

typedef struct fw_parquet_values {
    fw_parquet_type type;
    int encoding;
    const uint8_t *at, *end;
    uint64_t index; /* of the next truth value, in bits */
    const fw_parquet_dictionary *dictionary;
    fw_hybrid hybrid;
    fw_deltas deltas;   /* integers, lengths, or lengths of suffixes */
    fw_deltas prefixes; /* DELTA_BYTE_ARRAY */
    fw_strbuf last;     /* the text before: a prefix of it comes again */
} fw_parquet_values;

/* What fw_parquet_values_start gives for an encoding that is not read, or not for values of that type. */
extern const char fw_parquet_not_read[];
/* bytes: of the page, after its levels; borrowed. Keeps `last`. NULL when good, else what is wrong. */
const char *fw_parquet_values_start(fw_parquet_values *v, fw_parquet_type type, int encoding, const uint8_t *bytes,
                                    size_t n_bytes, const fw_parquet_dictionary *dictionary);
/* *wrong: NULL, or what is wrong with the page. Errors: FW_ERR_NOMEM. */
fw_status fw_parquet_values_next(fw_parquet_values *v, fw_parquet_value *value, const char **wrong);
void fw_parquet_values_fini(fw_parquet_values *v);
/* One PLAIN value; 0: cut off. */
int fw_parquet_plain(fw_parquet_values *v, fw_parquet_value *value);

#endif
