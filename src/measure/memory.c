#include "measure/memory.h"

#include "base/alloc.h"
#include "measure/repeat.h"

#include <string.h>

enum { COPY_BYTES = 256 << 20, ADAMW_N = 16 << 20 };

typedef struct lab {
    fw_device *device;
    void *from, *to; /* COPY_BYTES each; AdamW's four arrays lie in them */
    void *host;      /* COPY_BYTES; GPUs only */
    void *source, *target;
} lab;

static void copy_part(void *context, int index, int thread_n) {
    const lab *l = context;
    int64_t first, last;
    fw_threads_split(&first, &last, COPY_BYTES, 4096, index, thread_n);
    memcpy((char *)l->target + first, (const char *)l->source + first, (size_t)(last - first));
}

/* On the host with all threads; a GPU's own copy is one cast of bytes that are taken for fp32 numbers. */
static fw_status copy(void *context) {
    lab *l = context;
    if (!l->device->on_host) return fw_cast(l->device, l->to, FW_F32, l->from, FW_F32, COPY_BYTES / 4);
    l->source = l->from;
    l->target = l->to;
    fw_threads_run(l->device->threads, copy_part, l);
    return FW_OK;
}

static fw_status to_device(void *context) {
    lab *l = context;
    return fw_copy(l->device, l->to, l->host, COPY_BYTES);
}

static fw_status to_host(void *context) {
    lab *l = context;
    return fw_copy(l->device, l->host, l->to, COPY_BYTES);
}

static fw_status adamw(void *context) {
    const lab *l = context;
    const fw_adamw_options options = {
        .learning_rate = 1e-5f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .grad_scale = 1, .step = 2};
    float *w = l->from, *v = l->to;
    return fw_adamw(l->device, w, w + ADAMW_N, v, v + ADAMW_N, w + 2 * ADAMW_N, ADAMW_N, &options, FW_BF16);
}

static fw_status settle(void *context) {
    const lab *l = context;
    char first[4];
    return fw_copy(l->device, first, l->to, sizeof first);
}

static fw_status take(lab *l) {
    FW_TRY(fw_device_alloc(l->device, &l->from, COPY_BYTES, "a buffer to copy from"));
    FW_TRY(fw_device_alloc(l->device, &l->to, COPY_BYTES, "a buffer to copy to"));
    if (l->device->on_host) return FW_OK;
    FW_TRY(fw_calloc(&l->host, COPY_BYTES, 1));
    memset(l->host, 0, COPY_BYTES); /* pages of its own, not the system's page of zeros */
    return FW_OK;
}

static fw_status measure(fw_comm *comm, lab *l, bool (*stop)(void),
                         void (*show)(void *context, const fw_memory_row *row), void *context) {
    static const struct {
        const char *what;
        fw_status (*work)(void *context);
        int64_t bytes;
        bool gpu_only;
    } all[] = {{"copy", copy, COPY_BYTES, false},
               {"adamw", adamw, (int64_t)FW_MEMORY_ADAMW_BYTES * ADAMW_N, false},
               {"host to device", to_device, COPY_BYTES, true},
               {"device to host", to_host, COPY_BYTES, true}};
    FW_TRY(fw_comm_agree(comm, take(l)));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].gpu_only && l->device->on_host) continue;
        fw_memory_row row = {.what = all[i].what,
                             .bytes = all[i].bytes,
                             .is_copy = all[i].work == copy,
                             .is_adamw = all[i].work == adamw};
        const fw_repeat repeat = {.comm = comm,
                                  .stop = stop,
                                  .work = all[i].work,
                                  .settle = l->device->on_host ? NULL : settle,
                                  .context = l};
        FW_TRY(fw_repeat_time(&repeat, &row.seconds));
        show(context, &row);
    }
    return FW_OK;
}

fw_status fw_memory_measure(fw_comm *comm, fw_device *device, bool (*stop)(void),
                            void (*show)(void *context, const fw_memory_row *row), void *context) {
    lab l = {.device = device};
    fw_status status = measure(comm, &l, stop, show, context);
    fw_device_free(device, l.from, COPY_BYTES);
    fw_device_free(device, l.to, COPY_BYTES);
    fw_free(l.host);
    return status;
}
