/* One size of one collective; private to the room. */
#ifndef FW_MEASURE_COLLECTIVE_INTERNAL_H
#define FW_MEASURE_COLLECTIVE_INTERNAL_H

#include "measure/collective.h"

typedef struct fw_collective_run {
    const fw_collective_bench *b;
    int world, me;
    fw_collective_shape shape;
} fw_collective_run;

/* Time and compare one way; collective. */
fw_status fw_collective_try(const fw_collective_run *u, bool in_place, fw_collective_timing *out);

#endif
