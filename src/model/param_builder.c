#include "model/param_builder.h"

#include "base/alloc.h"

enum { PARAM_ALIGN = 256 }; /* whole blocks of 8-bit optimizer state */

static int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

fw_status fw_param_builder_start(fw_param_builder *b, fw_param_table *t, int32_t unit_n, int64_t param_max) {
    *t = (fw_param_table){.unit_n = unit_n};
    *b = (fw_param_builder){.table = t, .cap = (int32_t)param_max};
    FW_TRY(FW_NEW_ARRAY(t->param, (size_t)param_max));
    FW_TRY(FW_NEW_ARRAY(t->unit_size_n, (size_t)unit_n));
    FW_TRY(FW_NEW_ARRAY(t->unit_offset_n, (size_t)unit_n));
    return FW_NEW_ARRAY(t->unit_first, (size_t)unit_n + 1);
}

void fw_param_builder_append(fw_param_builder *b, const fw_param *like) {
    fw_param_table *t = b->table;
    FW_ASSERT(t->param_n < b->cap);
    fw_param *p = &t->param[t->param_n++];
    *p = *like;
    p->n = p->cols == 0 ? p->rows : p->rows * p->cols;
    p->unit = b->unit;
    p->offset_n = p->joined ? b->end_n : round_up(b->end_n, PARAM_ALIGN);
    p->trainable = true;
    b->end_n = p->offset_n + p->n;
    t->parameter_n += p->n;
}

void fw_param_builder_end_unit(fw_param_builder *b) {
    fw_param_table *t = b->table;
    t->unit_size_n[b->unit] = round_up(b->end_n, FW_UNIT_ALIGN);
    t->unit_offset_n[b->unit] = t->total_n;
    t->total_n += t->unit_size_n[b->unit];
    t->unit_first[b->unit + 1] = t->param_n;
    b->unit++;
    b->end_n = 0;
}
