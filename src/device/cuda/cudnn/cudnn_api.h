/* cuDNN's backend API, found at run time: neither the program nor its plugin needs the library to start. Headers only at
 * build time. Nothing in this folder but cudnn_run.c touches a GPU, so graphs, the choice of an engine and workspaces are
 * tested without one. */
#ifndef FW_DEVICE_CUDA_CUDNN_CUDNN_API_H
#define FW_DEVICE_CUDA_CUDNN_CUDNN_API_H

#include "base/status.h"

#include <cudnn_graph.h>
#include <stddef.h>

/* Each X(name) is cudnnNAME. */
#define FW_CUDNN_FUNCTIONS(X)                                                                                          \
    X(GetVersion)                                                                                                      \
    X(GetErrorString)                                                                                                  \
    X(GetLastErrorString)                                                                                              \
    X(Create)                                                                                                          \
    X(Destroy)                                                                                                         \
    X(SetStream)                                                                                                       \
    X(BackendCreateDescriptor)                                                                                         \
    X(BackendDestroyDescriptor)                                                                                        \
    X(BackendSetAttribute)                                                                                             \
    X(BackendGetAttribute)                                                                                             \
    X(BackendFinalize)                                                                                                 \
    X(BackendExecute)

typedef struct fw_cudnn {
    size_t version; /* 91900 is 9.19.0 */
#define X(name) __typeof__(&cudnn##name) name;
    FW_CUDNN_FUNCTIONS(X)
#undef X
} fw_cudnn;

/* The library: the file that FINEWIRE_CUDNN names, else libcudnn.so.9 where the loader finds it. It stays loaded until
 * the process ends. Errors: FW_ERR_OPTION: not there (the loader's own words), without a function of the list, or older
 * than FW_CUDNN_OLDEST. */
enum { FW_CUDNN_OLDEST = 91800 };
fw_status fw_cudnn_open(fw_cudnn *out);
/* The status of an answer, with cuDNN's own words about it; FW_OK for success. */
fw_status fw_cudnn_status(const fw_cudnn *api, const char *what, cudnnStatus_t answer);

#endif
