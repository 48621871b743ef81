/* A model's weights with an adapter added in, read parameter by parameter: what an export writes.
 *
 *   W + s B A                                     LoRA, in fp32, from the weights as the base stores them
 *   m / |W + s B A|_row * (W + s B A)             DoRA
 *   the adapter's own                             what it trained as a whole
 *
 * One rounding, to the type that is written. */
#ifndef FW_STORE_MERGE_H
#define FW_STORE_MERGE_H

#include "base/threads.h"
#include "model/adapter.h"
#include "store/export.h"
#include "store/peft_folder.h"

typedef struct fw_merge {
    /* Borrowed; set by the caller, the rest zero. */
    const fw_adapter *adapter;
    const fw_param_table *base;    /* all parameters of the base */
    const fw_param_table *trained; /* of the adapter */
    const fw_peft_folder *folder;  /* checked against `trained` */
    fw_param_reader read_base;
    void *base_context;
    fw_threads *threads; /* may be NULL */
    /* The parameter at hand. */
    const fw_param *at;
    const fw_stored_tensor *whole; /* taken from the adapter as it is */
    int64_t r;                     /* 0: there is no adapter on it */
    float scale;
    float *A_rI, *B_Or, *factor_O; /* factor_O: m / norm, with DoRA */
    float *rows;                   /* of the base, while norms are found */
} fw_merge;

/* A fw_param_reader over `base`, or over the table of the same model with a head of its own where the adapter trains a tied one
 * apart (fw_adapter.tied_head). Errors: those of read_base, FW_ERR_NOMEM, and FW_ERR_INPUT for a DoRA row of norm 0
 * and for numbers that are not finite, of the base, the adapter or both together: they are named. */
fw_status fw_merge_read(void *merge, const fw_param *param, int64_t first_n, int64_t n, float *out);
void fw_merge_fini(fw_merge *merge);

#endif
