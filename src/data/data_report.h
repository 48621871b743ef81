/* What became of the rows of a data set: counts, lengths, packing, and every row that takes no part with its reason. */
#ifndef FW_DATA_DATA_REPORT_H
#define FW_DATA_DATA_REPORT_H

#include "config/options.h"
#include "data/dataset.h"

#include <jansson.h>

/* Conversations by length: bin k holds those of `from` to `to` tokens; a bin ends where the next power of two begins. */
enum { FW_LENGTH_BINS_MAX = 32 };
typedef struct fw_length_bin {
    int64_t from, to, n;
} fw_length_bin;
/* Returns how many bins there are, from the shortest conversation's to the longest's. */
int fw_dataset_lengths(fw_length_bin bin[FW_LENGTH_BINS_MAX], const fw_dataset *d);

/* The longest conversation; NULL: there is none. */
const fw_sample *fw_dataset_longest(const fw_dataset *d);

/* Sequences of max_length tokens that the conversations are packed into, and how full they are, from 0 to 1. */
typedef struct fw_packing_report {
    int64_t sequence_n;
    double efficiency;
} fw_packing_report;
fw_status fw_dataset_packing(fw_packing_report *out, const fw_dataset *d, int64_t max_length,
                             fw_packing_strategy strategy);

/* The data set whose list of dropped rows this one has: itself, or what it is a selection of. */
const fw_dataset *fw_dataset_of_rows(const fw_dataset *d);

/* Everything above as an object; json_decref. Rows are those of the files; held_out: what was split from d, or NULL. problems: also the list of dropped rows. */
fw_status fw_dataset_report_json(json_t **out, const fw_dataset *d, const fw_dataset *held_out, int64_t max_length,
                                 fw_packing_strategy strategy, int problems);

/* One line of JSON for every dropped row: {"file", "line", "reason", "message"}. Removes the file when there is none. */
fw_status fw_dataset_write_dropped(const fw_dataset *d, const char *path);

#endif
