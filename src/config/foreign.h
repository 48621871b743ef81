/* Settings that people already have for other programs: accelerate's YAML, DeepSpeed's JSON, FSDP's map. Read as they are.
 *
 * Each kind of file has a table of what may stand in it (foreign_NAME.c): a value is an option of finewire under another
 * name, or must be one that is true here anyway, or has no meaning here. A name that is in no table is an error that says
 * the nearest one. Nothing is left out in silence that would change a run: what finewire does not do is refused by name.
 *
 * Precedence: default, these files, recipe, command line. What contradicts a value that stands in the same place as the
 * file's own name (recipe or command line) is an error, and so are two files that contradict each other. accelerate's
 * words give way to both, since there the training arguments win. */
#ifndef FW_CONFIG_FOREIGN_H
#define FW_CONFIG_FOREIGN_H

#include "config/leaves.h"
#include "config/options.h"

/* Read what config_file, deepspeed and fsdp_config name; called by fw_options_parse after the recipe. Errors:
 * FW_ERR_OPTION, FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_options_read_foreign(fw_options *o);

/* The same of leaves. `where`: the file's name; borrowed by the options. from: FW_FROM_RECIPE or FW_FROM_COMMAND_LINE,
 * where the file was named. */
fw_status fw_foreign_accelerate(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from);
fw_status fw_foreign_deepspeed(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from);
fw_status fw_foreign_checkpointing(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from);
fw_status fw_foreign_fsdp(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from);

/* ---- for the tables ---- */

typedef struct fw_foreign {
    fw_options *o;
    const fw_leaves *leaves;
    const char *where;     /* the file; lives as long as the options */
    const char *below;     /* of the leaves, those whose path begins so: "fsdp_config.", or "" */
    const char *prefix;    /* may stand before a name and means nothing: "fsdp_", or NULL */
    const char *what;      /* for messages: "accelerate" */
    fw_option_origin from; /* where the file was named */
    bool gives_way;        /* to everything that was given elsewhere */
} fw_foreign;

typedef struct fw_foreign_row {
    const char *path;    /* below `below`; ".*" at the end: everything from here on */
    const char *option;  /* its value is this option's, under the option's name or another spelling of it */
    const char *allowed; /* "false|none": others are refused with `remark`, unless `option` takes them */
    const char *remark;  /* why, and what to do */
    fw_status (*call)(fw_foreign *f, const fw_leaf *leaf); /* takes it, where neither of these is enough */
} fw_foreign_row;

/* Go through the leaves. null and "auto" (where DeepSpeed fills in what the training options say) count as not given.
 * A row without option, allowed and call has no meaning in finewire and changes nothing. */
fw_status fw_foreign_apply(fw_foreign *f, const fw_foreign_row *rows, size_t row_n);
/* The same as a row with `option` does. */
fw_status fw_foreign_set(fw_foreign *f, const fw_leaf *leaf, const char *option, const char *text);
/* FILE:LINE: PATH is VALUE; remark */
fw_status fw_foreign_refuse(const fw_foreign *f, const fw_leaf *leaf, const char *remark);
/* FSDP's map as a part of another file: the leaves below this path. */
fw_status fw_foreign_fsdp_below(const fw_foreign *f, const char *below);
/* The leaf with this path below `below`, or NULL. */
const fw_leaf *fw_foreign_find(const fw_foreign *f, const char *path);

#endif
