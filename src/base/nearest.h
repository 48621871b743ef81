/* Which known name did somebody mean? Names are compared by optimal string alignment: insertions, deletions,
 * substitutions and swaps of neighbours count one each (Damerau 1964). A known name that begins with or holds
 * the given one counts as near, too: "batch_size" finds "per_device_train_batch_size". */
#ifndef FW_BASE_NEAREST_H
#define FW_BASE_NEAREST_H

typedef struct fw_nearest {
    const char *name;
    const char *best; /* NULL while none is near */
    int distance;
} fw_nearest;

/* Borrows `name` and the candidates. */
void fw_nearest_start(fw_nearest *n, const char *name);
void fw_nearest_offer(fw_nearest *n, const char *candidate);

#endif
