/* A CUDA driver without a GPU, for tests of libraries that only want to load their kernels: cuDNN does so when it makes a
 * plan. Loaded by its path, it is libcuda.so.1 for whoever asks for that name afterwards. It shows no GPU; modules and
 * kernels "load" and are never run. Everything else does nothing. */
#include <stddef.h>

enum { NO_GPU = 100, SOMETHING = 16 };

#define NOTHING(name)                                                                                                  \
    int name(void);                                                                                                    \
    int name(void) { return 0; }

NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxPopCurrent)
NOTHING(cuCtxPushCurrent)
NOTHING(cuDeviceGet)
NOTHING(cuFuncSetAttribute)
NOTHING(cuKernelGetAttribute)
NOTHING(cuKernelSetAttribute)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernelEx)
NOTHING(cuLibraryLoadFromFile)
NOTHING(cuLibraryUnload)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuLinkCreate)
NOTHING(cuLinkDestroy)
NOTHING(cuOccupancyMaxPotentialClusterSize)
NOTHING(cuStreamGetCtx)

int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    (void)flags;
    return NO_GPU;
}
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
int cuDeviceGetCount(int *n);
int cuDeviceGetCount(int *n) {
    *n = 0;
    return 0;
}
int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "there is no GPU";
    return 0;
}
int cuGetErrorName(int error, const char **text);
int cuGetErrorName(int error, const char **text) { return cuGetErrorString(error, text); }
int cuLibraryLoadData(void **library);
int cuLibraryLoadData(void **library) {
    *library = (void *)SOMETHING;
    return 0;
}
int cuLibraryGetKernel(void **kernel);
int cuLibraryGetKernel(void **kernel) {
    *kernel = (void *)SOMETHING;
    return 0;
}
int cuKernelGetFunction(void **function);
int cuKernelGetFunction(void **function) {
    *function = (void *)SOMETHING;
    return 0;
}
