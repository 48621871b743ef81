/* Transport "self": a world of one rank. Sums are what is there already; parts are the whole. Memory is the device's where
 * the host cannot reach that. */
#include "base/alloc.h"
#include "comm/comm_internal.h"
#include "device/device.h"

#include <string.h>

enum { ALIGN = 64 };

/* Buffers of fw_comm_alloc, to free them with the group. */
typedef struct self_block {
    struct self_block *next;
    void *on_device; /* NULL: the buffer follows */
    size_t bytes;
} self_block;

/* NULL: memory of the host. */
static fw_device *device_of(const fw_comm *c) {
    fw_device *d = c->job->device;
    return d == NULL || d->on_host ? NULL : d;
}

static fw_status alloc_on_device(fw_comm *c, void **out, size_t bytes, const char *what) {
    self_block *block;
    FW_TRY(FW_NEW(block));
    /* Past the device's own count: it is this room's memory (fw_comm_allocated_bytes). */
    fw_status status = device_of(c)->ops->alloc(device_of(c), &block->on_device, bytes, 0);
    if (status != FW_OK) {
        fw_free(block);
        return fw_fail_context(status, "%s (%zu bytes): ", what, bytes);
    }
    block->bytes = bytes;
    block->next = c->state;
    c->state = block;
    *out = block->on_device;
    return FW_OK;
}

static fw_status alloc(fw_comm *c, void **out, size_t bytes, const char *what) {
    self_block *block;
    *out = NULL;
    if (device_of(c) != NULL) return alloc_on_device(c, out, bytes, what);
    if (bytes > SIZE_MAX - sizeof *block - ALIGN ||
        fw_calloc((void **)&block, 1, sizeof *block + ALIGN + bytes) != FW_OK)
        return fw_fail(FW_ERR_NOMEM, "%s: could not get %zu bytes", what, bytes);
    block->next = c->state;
    c->state = block;
    *out = (void *)(((uintptr_t)(block + 1) + ALIGN - 1) / ALIGN * ALIGN);
    return FW_OK;
}

static fw_status run(fw_comm *c, const fw_comm_op *op) {
    const size_t bytes = fw_comm_op_bytes(op);
    if (bytes == 0 || op->part == op->buffer) return FW_OK;
    const int scatters = op->kind == FW_COMM_REDUCE_SCATTER || op->kind == FW_COMM_ALL_TO_ALL;
    void *to = scatters ? op->part : op->kind == FW_COMM_ALL_GATHER ? op->buffer : NULL;
    const void *from = scatters ? op->buffer : op->part;
    if (to == NULL) return FW_OK;
    if (device_of(c) != NULL) return fw_copy(device_of(c), to, from, bytes);
    memcpy(to, from, bytes);
    return FW_OK;
}

static fw_status exchange(fw_comm *c, void *all, const void *mine, size_t bytes, const char *call) {
    (void)call;
    if (fw_failure_is_set(&c->job->failure)) return fw_comm_report_failure(c);
    if (bytes > 0) memmove(all, mine, bytes);
    return FW_OK;
}

static void set_host_work(fw_comm *c, const char *what) {
    (void)c;
    (void)what;
}

static fw_status open_group(fw_comm *parent, fw_comm *group) {
    (void)parent;
    return fw_comm_open_self(group);
}

static void wake(fw_comm *c) { (void)c; }

static void destroy(fw_comm *c) {
    for (self_block *block = c->state, *next; block != NULL; block = next) {
        next = block->next;
        if (block->on_device != NULL) device_of(c)->ops->free(device_of(c), block->on_device, block->bytes);
        fw_free(block);
    }
    c->state = NULL;
}

static const fw_transport transport = {.name = "self",
                                       .runs_inline = 1,
                                       .alloc = alloc,
                                       .run = run,
                                       .exchange = exchange,
                                       .set_host_work = set_host_work,
                                       .open_group = open_group,
                                       .wake = wake,
                                       .destroy = destroy};

fw_status fw_comm_open_self(fw_comm *c) {
    c->transport = &transport;
    return FW_OK;
}
