/* Which of the compiled kernel variants this CPU runs. */
#include "device/cpu/cpu.h"

static int runs(const fw_cpu_kernels *kernels) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (kernels == &fw_cpu_kernels_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (kernels == &fw_cpu_kernels_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#endif
    (void)kernels;
    return 1;
}

static const fw_cpu_kernels *const variants[] = {
#if defined(__x86_64__)
    &fw_cpu_kernels_avx512,
    &fw_cpu_kernels_avx2,
#endif
    &fw_cpu_kernels_base,
};

const fw_cpu_kernels *fw_cpu_variant(const char *name) {
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if ((name == NULL || strcmp(variants[i]->name, name) == 0) && runs(variants[i])) return variants[i];
    return NULL;
}

const char *fw_cpu_variant_title(const fw_cpu_kernels *kernels) {
#if defined(__x86_64__)
    if (kernels == &fw_cpu_kernels_avx512) return "AVX-512";
    if (kernels == &fw_cpu_kernels_avx2) return "AVX2";
    return "SSE2";
#elif defined(__aarch64__)
    (void)kernels;
    return "NEON";
#else
    (void)kernels;
    return "portable";
#endif
}
