#include "device/device.h"

#include "base/log.h"
#include "device/cuda_loader.h"
#include "device/device_kinds.h"

#include <stdio.h>
#include <string.h>

/* cuda where it can be used; else cpu, which says why. A plugin that was named and is not there is a mistake. */
static fw_status create_auto(fw_device **out, fw_threads *threads, const fw_device_place *place) {
    const fw_cuda_plugin *plugin;
    char reason[FW_CUDA_REASON_BYTES];
    char path[4096];
    const fw_status found = fw_cuda_find(&plugin, reason);
    if (found == FW_OK) return plugin->create(out, threads, place);
    const fw_plugin_place *cuda = &fw_cuda_plugin_place;
    if (fw_plugin_is_named(cuda->variable) && !fw_plugin_find(cuda->name, cuda->variable, path, sizeof path))
        return fw_fail_context(found, "%s: ", cuda->variable);
    FW_TRY(fw_device_create_cpu(out, threads));
    char *text = (*out)->description;
    size_t used = strlen(text);
    snprintf(text + used, sizeof(*out)->description - used, " (auto: %s)", reason);
    return FW_OK;
}

fw_status fw_device_create_at(fw_device **out, const char *name, fw_threads *threads, const fw_device_place *place) {
    static const fw_device_place alone = {.local_rank = 0, .local_world = 1};
    if (place == NULL) place = &alone;
    *out = NULL;
    fw_device *d = NULL;
    if (strcmp(name, "ref") == 0)
        FW_TRY(fw_device_create_ref(&d, threads));
    else if (strcmp(name, "cpu") == 0)
        FW_TRY(fw_device_create_cpu(&d, threads));
    else if (strcmp(name, "cuda") == 0)
        FW_TRY(fw_device_create_cuda(&d, threads, place));
    else if (strcmp(name, "auto") == 0)
        FW_TRY(create_auto(&d, threads, place));
    else
        return fw_fail(FW_ERR_OPTION, "--device %s is not known; choose cuda, cpu, ref or auto", name);
    fw_status status = fw_device_check_complete(d);
    if (status != FW_OK) {
        fw_device_destroy(d);
        return status;
    }
    *out = d;
    return FW_OK;
}

fw_status fw_device_create(fw_device **out, const char *name, fw_threads *threads) {
    return fw_device_create_at(out, name, threads, NULL);
}

fw_status fw_device_memory(fw_device *d, uint64_t *free_bytes, uint64_t *total_bytes) {
    if (d->ops->memory == NULL) return fw_fail(FW_ERR_INTERNAL, "device %s has no memory of its own", d->name);
    return d->ops->memory(d, free_bytes, total_bytes);
}

void fw_device_destroy(fw_device *d) {
    if (d != NULL) d->ops->destroy(d);
}

fw_status fw_device_check_frozen(const fw_device *d, const char *what, size_t bytes) {
    if (d->frozen == FW_FROZEN_STRICT)
        return fw_fail(FW_ERR_FIT, "%s asks for %zu bytes after the plan was frozen: the memory plan misses it", what,
                       bytes);
    if (d->frozen == FW_FROZEN_WARN)
        fw_log_warning("%s takes %zu bytes that the memory plan misses; the run goes on, please report it", what,
                       bytes);
    return FW_OK;
}

static fw_status take(fw_device *d, void **out, size_t bytes, const char *what, int lazy) {
    *out = NULL;
    FW_TRY(fw_device_check_frozen(d, what, bytes));
    fw_status status = d->ops->alloc(d, out, bytes, lazy);
    if (status != FW_OK) return fw_fail_context(status, "%s (%zu bytes): ", what, bytes);
    d->allocated_bytes += bytes;
    if (d->allocated_bytes > d->peak_bytes) d->peak_bytes = d->allocated_bytes;
    return FW_OK;
}

fw_status fw_device_alloc(fw_device *d, void **out, size_t bytes, const char *what) {
    return take(d, out, bytes, what, 0);
}

fw_status fw_device_alloc_lazy(fw_device *d, void **out, size_t bytes, const char *what) {
    return take(d, out, bytes, what, 1);
}

void fw_device_take_pages(fw_device *d, void *block, size_t bytes) {
    if (d->ops->take_pages != NULL) d->ops->take_pages(d, block, bytes);
}

void fw_device_free(fw_device *d, void *block, size_t bytes) {
    if (block == NULL) return;
    d->ops->free(d, block, bytes);
    d->allocated_bytes -= bytes;
}

static fw_status reserve(fw_device *d, const fw_device_limits *limits, int dry, size_t *bytes) {
    FW_TRY(d->ops->reserve(d, limits, dry, bytes));
    if (limits->attention.choice == FW_ATTENTION_CUDNN && d->attention[0] == 0)
        return fw_fail(FW_ERR_OPTION, "--attn_implementation cudnn is for NVIDIA GPUs, and the device is %s", d->name);
    return FW_OK;
}

fw_status fw_device_reserve(fw_device *d, const fw_device_limits *limits) {
    size_t bytes = 0;
    FW_TRY(reserve(d, limits, 0, &bytes));
    d->allocated_bytes += bytes;
    if (d->allocated_bytes > d->peak_bytes) d->peak_bytes = d->allocated_bytes;
    return FW_OK;
}

fw_status fw_device_scratch_bytes(fw_device *d, const fw_device_limits *limits, size_t *bytes) {
    return reserve(d, limits, 1, bytes);
}

void fw_device_freeze(fw_device *d, fw_freeze how) { d->frozen = how; }

fw_status fw_device_check_complete(const fw_device *d) {
#define FW_OP(op, parameters, arguments)                                                                               \
    if (d->ops->op == NULL) return fw_fail(FW_ERR_INTERNAL, "device %s lacks the operation %s", d->name, #op);
#include "device/ops.def"
#undef FW_OP
    return FW_OK;
}
