/* Tables that say which field of a structure stands under which key of a snapshot's JSON; private to the room. One table
 * serves writing, reading (with bounds), and setting everything to unknown. */
#ifndef FW_MACHINE_FIELDS_H
#define FW_MACHINE_FIELDS_H

#include "machine/machine.h"

typedef enum fw_field_kind {
    FW_FIELD_TEXT,   /* char[bytes] */
    FW_FIELD_INT,    /* int; -1 unknown */
    FW_FIELD_INT64,  /* int64_t; -1 unknown */
    FW_FIELD_LIMIT,  /* int64_t; FW_MACHINE_UNLIMITED is written "unlimited" */
    FW_FIELD_DOUBLE, /* -1 unknown */
    FW_FIELD_BOOL,   /* unknown is false */
    FW_FIELD_CHAR,   /* a text of one character; 0 unknown */
    FW_FIELD_WORD,   /* int: which of the words; unknown is `min` */
    FW_FIELD_BITS    /* unsigned: bit i is word i; a text of words with blanks between */
} fw_field_kind;

typedef struct fw_field {
    const char *key; /* NULL ends a table */
    fw_field_kind kind;
    size_t offset, bytes;
    int64_t min, max;         /* numbers: bounds, besides unknown */
    const char *const *words; /* ends with NULL */
} fw_field;

extern const fw_field fw_machine_fields[], fw_machine_driver_fields[], fw_machine_cpu_fields[], fw_machine_gpu_fields[],
    fw_machine_process_fields[], fw_machine_numa_fields[], fw_machine_bridge_fields[], fw_machine_nic_fields[],
    fw_machine_host_fields[];

/* Everything unknown. */
void fw_fields_clear(void *object, const fw_field *fields);
/* A new object with what is known. Errors: FW_ERR_NOMEM. */
fw_status fw_fields_write(json_t **out, const void *object, const fw_field *fields);
/* From a JSON object; missing keys are unknown. extra: keys that the caller reads itself, ends with NULL; NULL: none.
 * Errors: FW_ERR_INPUT naming where, key and value, also of a key that is in neither. */
fw_status fw_fields_read(void *object, const json_t *from, const fw_field *fields, const char *const *extra,
                         const char *where);

/* A snapshot with everything unknown. Errors: FW_ERR_NOMEM. */
fw_status fw_machine_create(fw_machine **out);

#endif
