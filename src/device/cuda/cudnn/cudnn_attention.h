/* Attention as cuDNN's graphs: what device/device.h promises of attention_forward and attention_backward with q_offset 0, in
 * bf16, with every packed document as a sequence of a ragged batch. Dao 2023 is the algorithm behind.
 *
 * Rows stay where they are: document i begins at row start[i], which is element start[i] * stride of a tensor whose rows
 * are `stride` elements apart (a ragged offset), and has length[i] rows; both lie in device memory (cuda_documents.cu),
 * with length 0 for the documents that a batch does not have. Within a document attention is causal. */
#ifndef FW_DEVICE_CUDA_CUDNN_CUDNN_ATTENTION_H
#define FW_DEVICE_CUDA_CUDNN_CUDNN_ATTENTION_H

#include "device/cuda/cudnn/cudnn_graph.h"

typedef struct fw_cudnn_attention {
    int64_t document_n, longest_n; /* at most so many documents in a batch, none longer than that */
    int64_t H, K, D;
    int64_t q_stride, k_stride, v_stride; /* elements from row to row */
    int64_t dq_stride;                    /* backward; dk and dv are compact there, K D from row to row */
    int backward;                         /* 0: forward, which writes o and lse */
    int whole_sums; /* backward: dq is one product, not a sum in fp32 memory that is rounded afterwards */
} fw_cudnn_attention;

/* Numbers of the tensors when the graph runs. Offsets: document_n + 1 int32 each, of rows that are one stride apart;
 * lengths: document_n int32. */
enum {
    FW_CUDNN_Q = 1,
    FW_CUDNN_K,
    FW_CUDNN_V,
    FW_CUDNN_O,
    FW_CUDNN_LSE,       /* fp32, [N, H] */
    FW_CUDNN_SCALE,     /* fp32, on the host */
    FW_CUDNN_MINUS,     /* fp32 -infinity, on the host */
    FW_CUDNN_LENGTHS_Q, /* the same memory serves both */
    FW_CUDNN_LENGTHS_KV,
    FW_CUDNN_OFFSETS_Q,   /* of q_stride */
    FW_CUDNN_OFFSETS_K,   /* of k_stride */
    FW_CUDNN_OFFSETS_V,   /* of v_stride */
    FW_CUDNN_OFFSETS_O,   /* of H D: o and its gradient */
    FW_CUDNN_OFFSETS_LSE, /* of H */
    FW_CUDNN_OFFSETS_DQ,  /* of dq_stride */
    FW_CUDNN_OFFSETS_DKV, /* of K D */
    FW_CUDNN_D_O,
    FW_CUDNN_DQ,
    FW_CUDNN_DK,       /* [N, K, D] */
    FW_CUDNN_DV,       /* [N, K, D] */
    FW_CUDNN_ONE,      /* fp32 1, on the host */
    FW_CUDNN_DELTA,    /* scratch, fp32 [N, H]: do . o */
    FW_CUDNN_DQ_SUM,   /* scratch, fp32, rows dq_stride apart; not with whole_sums */
    FW_CUDNN_DK_HEADS, /* scratch, rows H D apart, 4 bytes an element kept: dk of every query head; only for H > K */
    FW_CUDNN_DV_HEADS,
    FW_CUDNN_NUMBERS
};

/* Fills a graph made by fw_cudnn_graph_init and finishes it. */
fw_status fw_cudnn_attention_build(fw_cudnn_graph *g, const fw_cudnn_attention *a);

#endif
