/* From what a user asked for (options) to data sets: sources found, tokenised through the cache, split and weighed. */
#ifndef FW_DATA_PREPARE_H
#define FW_DATA_PREPARE_H

#include "config/options.h"
#include "data/cache.h"

typedef struct fw_prepare {
    const fw_options *options;
    const char *name; /* dataset_name or eval_dataset */
    const fw_tokenizer *tokenizer;
    const fw_chat_template *chat;
    int64_t vocab_size;   /* 0: not checked */
    fw_threads *threads;  /* borrowed; NULL: one */
    int machine_thread_n; /* 0: as many as threads has */
    fw_cache_told *told;  /* data/cache.h */
    int (*stop)(void);    /* data/dataset.h */
    int all_tokens;       /* learn every token */
    int for_report;       /* rows that cannot be read are counted, a set without targets is none: nothing is an error */
} fw_prepare;

/* The data set of `name`; with held_out not NULL and val_size above 0 that part of it is put there, else NULL.
 * Weights count in *out only. Errors: FW_ERR_INPUT, FW_ERR_OPTION, FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_data_prepare(fw_dataset **out, fw_dataset **held_out, const fw_prepare *p);

/* What reading and tokenising follow from the options; its texts are borrowed from them. */
fw_dataset_options fw_data_options(const fw_prepare *p);

#endif
