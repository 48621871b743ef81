#include "mirror/mirror_work.h"

#include "base/host.h"

fw_status fw_mirror_work_check(const fw_mirror_work *w) {
    if (atomic_load(&w->given_up) || (w->is_wished != NULL && w->is_wished()))
        return fw_fail(FW_ERR_INTERRUPTED, "the copy was given up");
    if (w->end_ns != 0 && fw_host_now_ns() >= w->end_ns)
        return fw_fail(FW_ERR_IO, "it took longer than %g s (--mirror_timeout)", w->limit_s);
    return FW_OK;
}

void fw_mirror_work_begin(fw_mirror_work *w, double limit_s) {
    w->limit_s = limit_s;
    w->end_ns = limit_s > 0 ? fw_host_now_ns() + (uint64_t)(limit_s * 1e9) : 0;
    atomic_store(&w->done_bytes, 0);
    atomic_store(&w->total_bytes, 0);
}
