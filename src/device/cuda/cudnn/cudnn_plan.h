/* From a graph to something that runs: which engine, is it supported, how much workspace. */
#ifndef FW_DEVICE_CUDA_CUDNN_CUDNN_PLAN_H
#define FW_DEVICE_CUDA_CUDNN_CUDNN_PLAN_H

#include "device/cuda/cudnn/cudnn_attention.h"

/* The GPU that plans are for: one of this machine, or any that cuDNN's own JSON describes. */
typedef struct fw_cudnn_target {
    const fw_cudnn *api;
    fw_cudnn_descriptor properties;
    int sm; /* 90: architecture 9.0 */
} fw_cudnn_target;
fw_status fw_cudnn_target_of_gpu(fw_cudnn_target *t, const fw_cudnn *api, int index, int sm);
fw_status fw_cudnn_target_of_json(fw_cudnn_target *t, const fw_cudnn *api, const char *json, int sm);
void fw_cudnn_target_fini(fw_cudnn_target *t);

typedef struct fw_cudnn_plan {
    fw_cudnn_attention attention;
    fw_cudnn_graph graph;
    fw_cudnn_descriptor executable;
    int64_t engine;
    size_t workspace_bytes;
} fw_cudnn_plan;

/* The plan that cuDNN's heuristic ranks first among those that give equal bits for equal calls and whose workspace is linear
 * in the rows. Backward, engines add up dq in any order unless told otherwise, and cuDNN has no attribute for telling: what
 * does, by architecture and version, is a table here, after what NVIDIA's public front end asks for:
 *
 *   sm_90          9.25 and later   sums of dq in order, in fp32 memory
 *   sm_100, 103    9.18 and later   dq as whole products
 *
 * Takes about a second. p->attention.whole_sums is set by this. Errors: FW_ERR_OPTION with the reason when there is no such
 * plan, FW_ERR_NOMEM. After an error there is nothing to fini. */
fw_status fw_cudnn_plan_make(fw_cudnn_plan *p, const fw_cudnn_target *t, const fw_cudnn_attention *a);
void fw_cudnn_plan_fini(fw_cudnn_plan *p);
/* The bound that workspaces are held to: bytes. */
size_t fw_cudnn_workspace_most(const fw_cudnn_attention *a);

#endif
