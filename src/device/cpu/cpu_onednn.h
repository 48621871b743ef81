/* Matrix products by oneDNN (C API of 2.x and 3.x), for CPUs whose bf16 units (AMX) it drives.
 *
 * oneDNN runs single-threaded inside each of our threads: its OpenMP is told so in every pool thread, and each
 * thread has its own stream and its own primitives, made on first use and kept. */
#ifndef FW_DEVICE_CPU_ONEDNN_H
#define FW_DEVICE_CPU_ONEDNN_H

#include "device/cpu/kernels/cpu_kernels.h"

typedef struct fw_onednn fw_onednn;

/* 1 when CPU, kernel and oneDNN can all use AMX bf16; asks the kernel for permission on first call. */
int fw_onednn_has_amx(void);
/* "2.6.3" */
const char *fw_onednn_version(void);

/* Errors: FW_ERR_NOMEM; FW_ERR_INTERNAL with oneDNN's status. */
fw_status fw_onednn_create(fw_onednn **out, fw_threads *threads);
void fw_onednn_destroy(fw_onednn *onednn);
/* The part m_first..m_last, n_first..n_last of g; called by thread number `thread` only. A failure is kept for
 * fw_onednn_status, called afterwards by the thread that started the others: FW_ERR_INTERNAL, with its message. */
void fw_onednn_gemm(fw_onednn *onednn, int thread, const fw_cpu_gemm_args *g, int64_t m_first, int64_t m_last,
                    int64_t n_first, int64_t n_last);
fw_status fw_onednn_status(fw_onednn *onednn);

#endif
