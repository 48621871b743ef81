/* A stand-in for cuDNN: takes graphs as the real one does, and where it runs one it computes attention on the host, from
 * nothing but what the graph's tensors say (shapes, strides, ragged offsets) and the pointers it is given. Whatever memory
 * the graph calls scratch is overwritten. Only where cuDNN's headers are (FW_HAS_CUDNN). */
#ifndef FW_TESTS_SUPPORT_FAKE_CUDNN_H
#define FW_TESTS_SUPPORT_FAKE_CUDNN_H

#ifdef FW_HAS_CUDNN
#include "device/cuda/cudnn/cudnn_library.h"

enum { FW_FAKE_CUDNN_WORKSPACE_BYTES = 4096 };

/* What fw_fake_cudnn_open makes. */
typedef struct fw_fake_cudnn {
    size_t version;
    int refuses;            /* no engine supports anything */
    size_t workspace_bytes; /* 0: FW_FAKE_CUDNN_WORKSPACE_BYTES */
    int run_n;              /* counts executions */
    int descriptor_n;       /* alive now */
} fw_fake_cudnn;
extern fw_fake_cudnn fw_fake_cudnn_state;

/* Instead of fw_cudnn_open and this machine's GPU. */
fw_status fw_fake_cudnn_open(fw_cudnn *api, fw_cudnn_target *target, int gpu, int sm);

#endif
#endif
