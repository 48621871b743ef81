/* libfinewire_nccl.so: the table of comm/nccl/nccl_plugin.h on NCCL and the CUDA runtime. C17. */
#include "comm/nccl/nccl_plugin.h"

#include "base/alloc.h"
#include "device/cuda/host/plugin_base.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

_Static_assert(FW_NCCL_ID_BYTES == NCCL_UNIQUE_ID_BYTES, "the id of NCCL has another size");

struct fw_nccl_gpu {
    const fw_gpu *gpu;
    cudaStream_t compute, comm;
    cudaEvent_t issued; /* operations so far */
    cudaEvent_t mark[FW_NCCL_MARK_N];
};

struct fw_nccl_link {
    fw_nccl_gpu *gpu;
    ncclComm_t comm; /* NCCL may set it after the call that makes it */
    int aborted;
};

static fw_status aborted(void) { return fw_fail(FW_ERR_RANK, "nccl: the communicator was aborted"); }

static fw_status cuda_status(const char *what, cudaError_t error) {
    if (error == cudaSuccess) return FW_OK;
    fw_status status = error == cudaErrorMemoryAllocation ? FW_ERR_FIT : FW_ERR_RANK;
    return fw_fail(status, "nccl: %s: %s (error %d)", what, cudaGetErrorString(error), (int)error);
}

/* NCCL keeps the reason of the last error of this process as a text. */
static fw_status nccl_status(const char *what, ncclResult_t result, ncclComm_t comm) {
    if (result == ncclSuccess || result == ncclInProgress) return FW_OK;
    const char *reason = ncclGetLastError(comm);
    return fw_fail(FW_ERR_RANK, "nccl: %s: %s%s%.400s; NCCL_DEBUG=INFO in the environment tells more", what,
                   ncclGetErrorString(result), reason != NULL && reason[0] != 0 ? ": " : "",
                   reason != NULL ? reason : "");
}

static int version(void) {
    int number = 0;
    ncclGetVersion(&number);
    return number;
}

/* ---- this process's GPU ---- */

static void close_gpu(fw_nccl_gpu *g) {
    if (g == NULL) return;
    for (int i = 0; i < FW_NCCL_MARK_N; i++)
        if (g->mark[i] != NULL) cudaEventDestroy(g->mark[i]);
    if (g->issued != NULL) cudaEventDestroy(g->issued);
    fw_free(g);
}

static fw_status open_gpu(fw_nccl_gpu **out, const fw_gpu *gpu) {
    fw_nccl_gpu *g;
    *out = NULL;
    FW_TRY(FW_NEW(g));
    g->gpu = gpu;
    g->compute = (cudaStream_t)gpu->compute_stream;
    g->comm = (cudaStream_t)gpu->comm_stream;
    cudaError_t error = cudaSetDevice(gpu->index);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&g->issued, cudaEventDisableTiming);
    for (int i = 0; i < FW_NCCL_MARK_N && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&g->mark[i], cudaEventDisableTiming);
    if (error != cudaSuccess) close_gpu(g);
    FW_TRY(cuda_status("events", error));
    *out = g;
    return FW_OK;
}

static int on_gpu(const fw_nccl_gpu *g, const void *p) {
    struct cudaPointerAttributes about;
    (void)g;
    if (cudaPointerGetAttributes(&about, p) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return about.type == cudaMemoryTypeDevice;
}

static void describe_peers(const fw_nccl_gpu *g, char *text, size_t text_bytes) {
    const int n = g->gpu->gpu_n;
    int pair_n = 0, direct_n = 0;
    size_t used = 0;
    text[0] = 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            int yes = 0;
            pair_n++;
            if (cudaDeviceCanAccessPeer(&yes, a, b) != cudaSuccess || !yes) continue;
            direct_n++;
            if (used < text_bytes) used += (size_t)snprintf(text + used, text_bytes - used, " %d-%d", a, b);
        }
    if (direct_n == pair_n) snprintf(text, text_bytes, pair_n == 0 ? "only one GPU is visible to a rank" : "all pairs");
    if (direct_n == 0 && pair_n > 0) snprintf(text, text_bytes, "no pair");
}

/* ---- links ---- */

static fw_status make_id(unsigned char id[FW_NCCL_ID_BYTES]) {
    ncclUniqueId made;
    FW_TRY(nccl_status("making the id of the job", ncclGetUniqueId(&made), NULL));
    memcpy(id, made.internal, FW_NCCL_ID_BYTES);
    return FW_OK;
}

/* No call waits for other ranks. Where every pair of GPUs has direct access, gathers may be done by the copy engines
 * and cost no multiprocessors; elsewhere NCCL takes its usual way. */
static ncclConfig_t config_of_links(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    return config;
}

static fw_status open_link(fw_nccl_link **out, fw_nccl_gpu *g, const unsigned char id[FW_NCCL_ID_BYTES], int rank,
                           int world) {
    fw_nccl_link *link;
    *out = NULL;
    FW_TRY(FW_NEW(link));
    link->gpu = g;
    ncclUniqueId meant;
    memcpy(meant.internal, id, FW_NCCL_ID_BYTES);
    ncclConfig_t config = config_of_links();
    ncclResult_t result = ncclCommInitRankConfig(&link->comm, world, meant, rank, &config);
    fw_status status = nccl_status("joining the other ranks", result, NULL);
    if (status != FW_OK) {
        if (link->comm != NULL) ncclCommAbort(link->comm);
        fw_free(link);
        return status;
    }
    *out = link;
    return FW_OK;
}

static fw_status split(fw_nccl_link **out, fw_nccl_link *parent, int color, int key) {
    fw_nccl_link *link;
    *out = NULL;
    if (parent->aborted) return aborted();
    FW_TRY(FW_NEW(link));
    link->gpu = parent->gpu;
    ncclConfig_t config = config_of_links();
    ncclResult_t result = ncclCommSplit(parent->comm, color, key, &link->comm, &config);
    fw_status status = nccl_status("making a group", result, parent->comm);
    if (status != FW_OK) {
        fw_free(link);
        return status;
    }
    *out = link;
    return FW_OK;
}

static fw_status check(fw_nccl_link *link, int *busy) {
    *busy = 0;
    if (link->aborted) return aborted();
    ncclResult_t state = ncclSuccess;
    FW_TRY(nccl_status("asking for errors", ncclCommGetAsyncError(link->comm, &state), link->comm));
    *busy = state == ncclInProgress;
    return nccl_status("in the background", state, link->comm);
}

static void abort_link(fw_nccl_link *link) {
    if (!link->aborted && link->comm != NULL) ncclCommAbort(link->comm);
    link->aborted = 1;
}

static void close_link(fw_nccl_link *link, int orderly) {
    if (link == NULL) return;
    if (orderly && !link->aborted && link->comm != NULL) {
        ncclResult_t state = ncclCommFinalize(link->comm);
        for (int i = 0; i < 5000 && (state == ncclInProgress || state == ncclSuccess); i++) {
            if (ncclCommGetAsyncError(link->comm, &state) != ncclSuccess || state != ncclInProgress) break;
            nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        }
        if (state == ncclSuccess && ncclCommDestroy(link->comm) == ncclSuccess) link->aborted = 1;
    }
    abort_link(link);
    fw_free(link);
}

static ncclDataType_t type_of(fw_dtype t) {
    return t == FW_F32 ? ncclFloat32 : t == FW_BF16 ? ncclBfloat16 : ncclUint8;
}

/* Every pair of ranks sends and receives a part; one call to NCCL, so that none waits for another. */
static ncclResult_t all_to_all(const fw_nccl_call *call, fw_nccl_link *link, int world, size_t part_n) {
    const size_t part_bytes = part_n * fw_dtype_bytes(call->dtype);
    const ncclDataType_t t = type_of(call->dtype);
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < world && result == ncclSuccess; r++) {
        result =
            ncclSend((const char *)call->buffer + (size_t)r * part_bytes, part_n, t, r, link->comm, link->gpu->comm);
        if (result == ncclSuccess || result == ncclInProgress)
            result = ncclRecv((char *)call->part + (size_t)r * part_bytes, part_n, t, r, link->comm, link->gpu->comm);
        if (result == ncclInProgress) result = ncclSuccess;
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

static fw_status start(fw_nccl_link *link, const fw_nccl_call *call) {
    static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"};
    fw_nccl_gpu *g = link->gpu;
    if (link->aborted) return aborted();
    FW_TRY(cuda_status("order", cudaEventRecord(g->issued, g->compute)));
    FW_TRY(cuda_status("order", cudaStreamWaitEvent(g->comm, g->issued, 0)));
    int world = 1;
    FW_TRY(nccl_status("asking for the size", ncclCommCount(link->comm, &world), link->comm));
    const size_t n = (size_t)call->n, part_n = n / (size_t)world;
    const ncclDataType_t t = type_of(call->dtype);
    ncclResult_t result = ncclInvalidArgument;
    switch (call->kind) {
    case FW_NCCL_ALL_REDUCE:
        result = ncclAllReduce(call->buffer, call->buffer, n, t, ncclSum, link->comm, g->comm);
        break;
    case FW_NCCL_REDUCE_SCATTER:
        result = ncclReduceScatter(call->buffer, call->part, part_n, t, ncclSum, link->comm, g->comm);
        break;
    case FW_NCCL_ALL_GATHER: result = ncclAllGather(call->part, call->buffer, part_n, t, link->comm, g->comm); break;
    case FW_NCCL_BROADCAST:
        result = ncclBroadcast(call->buffer, call->buffer, n, t, call->root, link->comm, g->comm);
        break;
    case FW_NCCL_ALL_TO_ALL: result = all_to_all(call, link, world, part_n); break;
    }
    return nccl_status(names[call->kind], result, link->comm);
}

static fw_status set_mark(fw_nccl_gpu *g, int m) { return cuda_status("mark", cudaEventRecord(g->mark[m], g->comm)); }

static fw_status passed(fw_nccl_gpu *g, int m, int *yes) {
    /* The watchdog's thread asks too: without this it would be on GPU 0, and make a context there. */
    FW_TRY(cuda_status("GPU of this thread", cudaSetDevice(g->gpu->index)));
    cudaError_t error = cudaEventQuery(g->mark[m]);
    *yes = error == cudaSuccess;
    return error == cudaErrorNotReady ? FW_OK : cuda_status("a collective", error);
}

static fw_status await_mark(fw_nccl_gpu *g, int m) {
    return cuda_status("order", cudaStreamWaitEvent(g->compute, g->mark[m], 0));
}

/* ---- memory ---- */

static fw_status alloc(fw_nccl_gpu *g, void **out, size_t bytes) {
    *out = NULL;
    if (bytes == 0) bytes = 1;
    FW_TRY(nccl_status("memory for collectives", ncclMemAlloc(out, bytes), NULL));
    cudaError_t error = cudaMemsetAsync(*out, 0, bytes, g->compute);
    if (error == cudaSuccess) return FW_OK;
    ncclMemFree(*out);
    *out = NULL;
    return cuda_status("clearing memory", error);
}

static void release(fw_nccl_gpu *g, void *block) {
    if (block == NULL) return;
    cudaStreamSynchronize(g->compute);
    cudaStreamSynchronize(g->comm);
    ncclMemFree(block);
}

static fw_status enlist(fw_nccl_link *link, void *block, size_t bytes, void **handle) {
    *handle = NULL;
    if (link->aborted) return aborted();
    return nccl_status(
        "registering memory",
        ncclCommWindowRegister(link->comm, block, bytes, (ncclWindow_t *)handle, NCCL_WIN_COLL_SYMMETRIC), link->comm);
}

static void delist(fw_nccl_link *link, void *handle) {
    if (handle != NULL && !link->aborted) ncclCommWindowDeregister(link->comm, (ncclWindow_t)handle);
}

FW_PLUGIN_EXPORT const fw_plugin_head *finewire_nccl_plugin(const fw_plugin_host *host);

const fw_plugin_head *finewire_nccl_plugin(const fw_plugin_host *host) {
    static const fw_nccl_plugin plugin = {.head = {FW_PLUGIN_ABI, FW_PLUGIN_BUILD},
                                          .version = version,
                                          .open_gpu = open_gpu,
                                          .close_gpu = close_gpu,
                                          .on_gpu = on_gpu,
                                          .describe_peers = describe_peers,
                                          .make_id = make_id,
                                          .open = open_link,
                                          .split = split,
                                          .check = check,
                                          .abort = abort_link,
                                          .close = close_link,
                                          .start = start,
                                          .mark = set_mark,
                                          .passed = passed,
                                          .await = await_mark,
                                          .alloc = alloc,
                                          .release = release,
                                          .enlist = enlist,
                                          .delist = delist};
    fw_plugin_base_set(host);
    return &plugin.head;
}
