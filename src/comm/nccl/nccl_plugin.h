/* What libfinewire_nccl.so gives: NCCL communicators ("links"), the events that order collectives and operations on a
 * GPU, and memory that NCCL likes best. Nothing here knows of ranks' failures, queues or labels: that is nccl_transport.c,
 * which is tested with a stand-in for this table.
 *
 * Nothing here waits for other ranks. What NCCL cannot finish at once goes on in the background; `check` says so. One
 * thread at a time may use a link (the caller's lock), from any thread. Errors: FW_ERR_RANK with NCCL's words. */
#ifndef FW_COMM_NCCL_NCCL_PLUGIN_H
#define FW_COMM_NCCL_NCCL_PLUGIN_H

#include "base/dtype.h"
#include "device/gpu.h"
#include "device/plugin_host.h"

enum { FW_NCCL_ID_BYTES = 128, FW_NCCL_MARK_N = 64 };

typedef struct fw_nccl_gpu fw_nccl_gpu;   /* this process's GPU: streams and marks */
typedef struct fw_nccl_link fw_nccl_link; /* a communicator */

typedef enum fw_nccl_kind {
    FW_NCCL_ALL_REDUCE,
    FW_NCCL_REDUCE_SCATTER,
    FW_NCCL_ALL_GATHER,
    FW_NCCL_BROADCAST,
    FW_NCCL_ALL_TO_ALL
} fw_nccl_kind;

/* dtype: FW_F32 or FW_BF16; FW_U8 for broadcast. part: n / world elements, in place or not; n, apart from buffer, for
 * all_to_all. Sums only. */
typedef struct fw_nccl_call {
    fw_nccl_kind kind;
    fw_dtype dtype;
    int root;
    int64_t n;
    void *buffer, *part;
} fw_nccl_call;

typedef struct fw_nccl_plugin {
    fw_plugin_head head;
    int (*version)(void); /* of the library that is loaded: 22809 is 2.28.9 */

    fw_status (*open_gpu)(fw_nccl_gpu **out, const fw_gpu *gpu); /* gpu is borrowed */
    void (*close_gpu)(fw_nccl_gpu *g);                           /* after its links; takes NULL */
    int (*on_gpu)(const fw_nccl_gpu *g, const void *p);          /* memory that collectives can work on */
    /* Which of the GPUs that this process sees reach each other's memory directly: "all pairs", " 0-1 2-3",
     * "no pair", ... */
    void (*describe_peers)(const fw_nccl_gpu *g, char *text, size_t text_bytes);

    fw_status (*make_id)(unsigned char id[FW_NCCL_ID_BYTES]);
    /* Begin to join the other ranks; done when check says so. */
    fw_status (*open)(fw_nccl_link **out, fw_nccl_gpu *g, const unsigned char id[FW_NCCL_ID_BYTES], int rank,
                      int world);
    /* The ranks of `parent` with the same color become a link of their own, in the order of `key`. Collective; the parent
     * is busy first, then the link. */
    fw_status (*split)(fw_nccl_link **out, fw_nccl_link *parent, int color, int key);
    /* *busy: NCCL still works on the last call, which has to end before the next one. */
    fw_status (*check)(fw_nccl_link *link, int *busy);
    /* Kernels that wait for other ranks end; only `close` may follow. */
    void (*abort)(fw_nccl_link *link);
    /* orderly: all ranks close it now and all its work is done; what is still under way to others goes out first, for
     * some seconds at most. Takes NULL. */
    void (*close)(fw_nccl_link *link, int orderly);

    /* A collective on the comm stream, after all operations that were issued so far. */
    fw_status (*start)(fw_nccl_link *link, const fw_nccl_call *call);
    /* Mark m (0 .. FW_NCCL_MARK_N - 1) is passed when what is on the comm stream now is done. */
    fw_status (*mark)(fw_nccl_gpu *g, int m);
    fw_status (*passed)(fw_nccl_gpu *g, int m, int *yes);
    /* Operations issued from now on come after the mark. Does not block. */
    fw_status (*await)(fw_nccl_gpu *g, int m);

    /* Zeroed memory, 4096-byte aligned, and its registration with a link (a collective call; *handle is set by the time
     * the link is not busy any more, and stays NULL where NCCL has no use for it). Freed by release, after delist. */
    fw_status (*alloc)(fw_nccl_gpu *g, void **out, size_t bytes);
    void (*release)(fw_nccl_gpu *g, void *block);
    fw_status (*enlist)(fw_nccl_link *link, void *block, size_t bytes, void **handle);
    void (*delist)(fw_nccl_link *link, void *handle); /* takes NULL */
} fw_nccl_plugin;

#endif
