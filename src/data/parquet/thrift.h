/* Thrift's compact protocol, as far as Parquet's headers need it (thrift-compact-protocol.md of Apache Thrift).
 *
 * A reader walks over bytes from outside: it never leaves them, and once something is wrong it stays wrong and gives
 * zeros, so that callers check once, at the end. */
#ifndef FW_DATA_THRIFT_H
#define FW_DATA_THRIFT_H

#include <stddef.h>
#include <stdint.h>

typedef enum fw_thrift_type {
    FW_THRIFT_STOP = 0,
    FW_THRIFT_TRUE = 1, /* of a field: its value is in the type */
    FW_THRIFT_FALSE = 2,
    FW_THRIFT_BYTE = 3,
    FW_THRIFT_I16 = 4,
    FW_THRIFT_I32 = 5,
    FW_THRIFT_I64 = 6,
    FW_THRIFT_DOUBLE = 7,
    FW_THRIFT_BINARY = 8,
    FW_THRIFT_LIST = 9,
    FW_THRIFT_SET = 10,
    FW_THRIFT_MAP = 11,
    FW_THRIFT_STRUCT = 12
} fw_thrift_type;

typedef struct fw_thrift {
    const uint8_t *at, *end;
    int broken; /* cut off, or not of this protocol */
    int depth;
} fw_thrift;

/* One field of a struct. id must start at 0 for each struct. */
typedef struct fw_thrift_field {
    int16_t id;
    fw_thrift_type type;
} fw_thrift_field;

/* The next field; 0 at the end of the struct, or when broken. */
int fw_thrift_next_field(fw_thrift *t, fw_thrift_field *field);
/* The value of a field; one of another type breaks the reader. */
int64_t fw_thrift_int(fw_thrift *t, fw_thrift_type type);
int fw_thrift_bool(fw_thrift *t, fw_thrift_type type);
/* *bytes is borrowed. */
size_t fw_thrift_binary(fw_thrift *t, fw_thrift_type type, const char **bytes);
/* How many elements the list has: never more than bytes are left. *element is their type. */
size_t fw_thrift_list(fw_thrift *t, fw_thrift_type type, fw_thrift_type *element);
/* A struct as a field or an element: breaks when it is something else. Ends with the last field read. */
void fw_thrift_expect_struct(fw_thrift *t, fw_thrift_type type);
void fw_thrift_skip(fw_thrift *t, fw_thrift_type type);

#endif
