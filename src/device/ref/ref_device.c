#include "base/alloc.h"
#include "device/device_kinds.h"
#include "device/ref/ref_ops.h"

#include <stdio.h>

enum { ALIGNMENT = 64 };

/* The block that came from the allocator is remembered in the bytes before the aligned one. */
static fw_status alloc_block(fw_device *d, void **out, size_t bytes, int lazy) {
    (void)d;
    (void)lazy; /* all of it is */
    const size_t extra = ALIGNMENT + sizeof(void *);
    if (bytes > SIZE_MAX - extra) return fw_fail(FW_ERR_NOMEM, "%zu bytes are more than an address can hold", bytes);
    char *block;
    FW_TRY(fw_calloc((void **)&block, 1, bytes + extra));
    char *aligned = block + sizeof(void *);
    aligned += (ALIGNMENT - (uintptr_t)aligned % ALIGNMENT) % ALIGNMENT;
    memcpy(aligned - sizeof(void *), &block, sizeof block);
    *out = aligned;
    return FW_OK;
}

static void free_block(fw_device *d, void *block, size_t bytes) {
    (void)d;
    (void)bytes;
    if (block == NULL) return;
    void *start;
    memcpy(&start, (char *)block - sizeof(void *), sizeof start);
    fw_free(start);
}

static fw_status reserve_scratch(fw_device *d, const fw_device_limits *limits, int dry, size_t *bytes) {
    (void)d;
    (void)limits;
    (void)dry;
    *bytes = 0; /* attention asks the host allocator for two heads' worth of numbers; the rest needs nothing */
    return FW_OK;
}

static void destroy_device(fw_device *d) { fw_free(d); }

static const fw_device_ops ref_ops = {
#define FW_OP(name, parameters, arguments) .name = fw_ref_##name,
#include "device/ops.def"
#undef FW_OP
    .alloc = alloc_block,
    .free = free_block,
    .reserve = reserve_scratch,
    .destroy = destroy_device,
};

fw_status fw_device_create_ref(fw_device **out, fw_threads *threads) {
    fw_device *d;
    FW_TRY(FW_NEW(d));
    d->ops = &ref_ops;
    d->name = "ref";
    d->on_host = 1;
    d->threads = threads;
    snprintf(d->description, sizeof d->description, "ref: scalar, fp64 arithmetic, 1 thread");
    *out = d;
    return FW_OK;
}
