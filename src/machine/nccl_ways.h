/* Which way NCCL's data goes between two GPUs of a host, as far as it can be known from outside: by the rules of NCCL
 * 2.28 (graph/paths.cc, and its guide's environment variables), from the links, what the driver says of peer access, the
 * CPU, and the settings. NCCL itself says it only in its log (NCCL_DEBUG=INFO). */
#ifndef FW_MACHINE_NCCL_WAYS_H
#define FW_MACHINE_NCCL_WAYS_H

#include "base/strbuf.h"
#include "machine/machine.h"

typedef enum fw_nccl_way {
    FW_WAY_UNKNOWN,
    FW_WAY_NVLINK,
    FW_WAY_PCIE,   /* peer access over PCIe */
    FW_WAY_SHM,    /* through memory of the host */
    FW_WAY_NETWORK /* through the network, even on one host */
} fw_nccl_way;

/* Between GPUs a and b of m (positions in m->gpu; -1: not among them). Equal ones: two ranks that share a GPU, which NCCL
 * takes only as ranks of different hosts. */
fw_nccl_way fw_nccl_way_between(const fw_machine *m, int a, int b);

/* "NVLink (NV18): all pairs" or "PCIe (PIX): 0-1 2-3; shared memory: 0-2 0-3 1-2 1-3": ranks with the same way together.
 * gpu[r]: the GPU of rank r, as above. Appends to *out. Errors: FW_ERR_NOMEM. */
fw_status fw_nccl_ways_text(fw_strbuf *out, const fw_machine *m, const int *gpu, int rank_n);

#endif
