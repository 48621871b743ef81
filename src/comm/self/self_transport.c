/* Transport "self": a world of one rank. Sums are what is there already; parts are the whole. */
#include "base/alloc.h"
#include "comm/comm_internal.h"

#include <string.h>

enum { ALIGN = 64 };

/* Buffers of fw_comm_alloc, to free them with the group. */
typedef struct self_block {
    struct self_block *next;
} self_block;

static fw_status alloc(fw_comm *c, void **out, size_t bytes, const char *what) {
    self_block *block;
    *out = NULL;
    if (bytes > SIZE_MAX - sizeof *block - ALIGN ||
        fw_calloc((void **)&block, 1, sizeof *block + ALIGN + bytes) != FW_OK)
        return fw_fail(FW_ERR_NOMEM, "%s: could not get %zu bytes", what, bytes);
    block->next = c->state;
    c->state = block;
    *out = (void *)(((uintptr_t)(block + 1) + ALIGN - 1) / ALIGN * ALIGN);
    return FW_OK;
}

static fw_status run(fw_comm *c, const fw_comm_op *op) {
    (void)c;
    size_t bytes = (size_t)op->n * fw_dtype_bytes(op->dtype);
    if (bytes == 0 || op->part == op->buffer) return FW_OK;
    if (op->kind == FW_COMM_REDUCE_SCATTER) memcpy(op->part, op->buffer, bytes);
    if (op->kind == FW_COMM_ALL_GATHER) memcpy(op->buffer, op->part, bytes);
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
