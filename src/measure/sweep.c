#include "measure/sweep.h"

int64_t fw_sweep_next(const fw_sweep *s, int64_t bytes) {
    if (bytes == 0) return s->min_bytes;
    if (s->factor > 0) return bytes <= s->max_bytes / s->factor ? bytes * s->factor : 0;
    return bytes <= s->max_bytes - s->step_bytes ? bytes + s->step_bytes : 0;
}

fw_status fw_sweep_check(const fw_sweep *s) {
    int size_n = 0;
    for (int64_t bytes = 0; (bytes = fw_sweep_next(s, bytes)) > 0;)
        if (++size_n > FW_SWEEP_SIZES)
            return fw_fail(
                FW_ERR_OPTION,
                "from %lld to %lld bytes in steps of %lld are more than %d sizes; take a larger step (-i), or a "
                "factor (-f 2)",
                (long long)s->min_bytes, (long long)s->max_bytes, (long long)s->step_bytes, FW_SWEEP_SIZES);
    return FW_OK;
}
