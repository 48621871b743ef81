/* What a device on a GPU tells those who put work beside its own: the transport between GPUs (comm/nccl). */
#ifndef FW_DEVICE_GPU_H
#define FW_DEVICE_GPU_H

#include <stdint.h>

typedef struct fw_gpu {
    int index;            /* among the GPUs this process sees */
    int gpu_n;            /* how many it sees */
    char name[64];        /* "NVIDIA H200" */
    char id[40];          /* the same for every process that uses this GPU, another for every other GPU */
    char pci_id[24];      /* "0000:17:00.0": NVML knows it by this */
    void *compute_stream; /* cudaStream_t: operations are issued here */
    void *comm_stream;    /* cudaStream_t of higher priority: collectives */
} fw_gpu;

#endif
