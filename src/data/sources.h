/* Which files: what a user writes behind --dataset_name.
 *
 *   SET[,SET...]   SET = PATH or PATH:WEIGHT
 *
 * A path is a file, a folder (the files of conversations in it and below, by their names; not its README, LICENSE and the
 * like: sources_folder.c) or a pattern of the shell ("data/part-*.jsonl"). A weight is how often the set's conversations are learnt in an epoch: 2 takes each twice, 0.5
 * half of them. Backslash before a comma or a colon makes it part of the path. */
#ifndef FW_DATA_SOURCES_H
#define FW_DATA_SOURCES_H

#include "base/status.h"

#include <stdint.h>

typedef struct fw_source_set {
    char *written; /* the set as it was written, without its weight */
    double weight;
    int32_t first, last; /* its files: path[first..last-1] */
} fw_source_set;

typedef struct fw_sources {
    fw_source_set *set;
    int32_t set_n;
    char **path; /* in the order of the sets; inside a set by name */
    int32_t path_n;
    char **aside; /* what of the folders is not read */
    int32_t aside_n;
    int64_t max_samples; /* rows to read of each set, from its first; 0: all. Set by the caller */
} fw_sources;

/* Errors: FW_ERR_INPUT (nothing is there, a folder without such files), FW_ERR_OPTION (a bad weight), FW_ERR_NOMEM. */
fw_status fw_sources_find(fw_sources *out, const char *text);
/* Log what is left aside in one line; nothing when nothing is. */
void fw_sources_say_aside(const fw_sources *sources);
void fw_sources_fini(fw_sources *sources); /* takes a zeroed one */

#endif
