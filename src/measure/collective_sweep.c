/* All sizes of one collective. */
#include "measure/collective_internal.h"

#include "base/alloc.h"

fw_status fw_collective_take_buffers(fw_collective_bench *b) {
    const size_t bytes = (size_t)b->sweep.max_bytes;
    FW_TRY(fw_comm_alloc(b->comm, &b->send, bytes, "the buffer to send from (-e)"));
    FW_TRY(fw_comm_alloc(b->comm, &b->receive, bytes, "the buffer to receive in (-e)"));
    if (!b->device->on_host) return fw_comm_agree(b->comm, fw_calloc(&b->host, bytes, 1));
    fw_device_take_pages(b->device, b->send, bytes);
    fw_device_take_pages(b->device, b->receive, bytes);
    return FW_OK;
}

void fw_collective_free_buffers(fw_collective_bench *b) {
    fw_free(b->host);
    b->host = NULL;
}

fw_status fw_collective_measure(const fw_collective_bench *b, void (*show)(void *context, const fw_collective_row *row),
                                void *context) {
    fw_collective_run u = {.b = b, .world = fw_comm_world(b->comm), .me = fw_comm_rank(b->comm)};
    int64_t before_bytes = 0;
    for (int64_t asked = 0; (asked = fw_sweep_next(&b->sweep, asked)) > 0;) {
        fw_collective_row row = {.shape = fw_collective_shape_of(b->what, asked, b->dtype, u.world)};
        if (row.shape.bytes == 0) continue;            /* too small to be cut into parts */
        if (row.shape.bytes == before_bytes) continue; /* rounded, it is the size that was just measured */
        before_bytes = row.shape.bytes;
        u.shape = row.shape;
        FW_TRY(fw_collective_try(&u, false, &row.out_of_place));
        FW_TRY(fw_collective_try(&u, true, &row.in_place));
        show(context, &row);
    }
    return FW_OK;
}
