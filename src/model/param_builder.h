/* Filling a table of parameters: units in order, and in each its parameters in order. */
#ifndef FW_MODEL_PARAM_BUILDER_H
#define FW_MODEL_PARAM_BUILDER_H

#include "model/param_table.h"

typedef struct fw_param_builder {
    fw_param_table *table;
    int32_t unit, cap;
    int64_t end_n; /* of the unit so far */
} fw_param_builder;

/* Room for unit_n units and param_max parameters. The table needs fini whatever the result. Error: FW_ERR_NOMEM. */
fw_status fw_param_builder_start(fw_param_builder *b, fw_param_table *table, int32_t unit_n, int64_t param_max);
/* The next parameter of the unit at hand, as `like` describes it (name, kind, base, rows, cols, decay, joined); what
 * follows from its place is filled in. */
void fw_param_builder_append(fw_param_builder *b, const fw_param *like);
/* The unit at hand is complete; one without parameters has size 0. */
void fw_param_builder_end_unit(fw_param_builder *b);

#endif
