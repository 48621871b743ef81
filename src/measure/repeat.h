/* Time of one call of something that may be done again and again. */
#ifndef FW_MEASURE_REPEAT_H
#define FW_MEASURE_REPEAT_H

#include "comm/comm.h"

#include <stdbool.h>

typedef struct fw_repeat {
    fw_comm *comm;
    bool (*stop)(void);                 /* may be NULL */
    fw_status (*work)(void *context);   /* once; on a GPU it only begins */
    fw_status (*settle)(void *context); /* all that was begun is done; NULL: it always is */
    void *context;
} fw_repeat;

/* The median over several rounds, each of the slowest rank, after one that does not count. A round is as many calls as
 * take some 20 ms; rounds go on for about half a second. Collective. Errors: FW_ERR_INTERRUPTED, those of work. */
fw_status fw_repeat_time(const fw_repeat *r, double *seconds);

#endif
