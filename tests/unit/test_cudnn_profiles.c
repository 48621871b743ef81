/* cuDNN itself, for GPUs that are not here: it makes plans for any GPU that a few lines of JSON describe. For each of them,
 * head size and group of heads, forward: there is a plan. Backward: where cuDNN can add up in one order (has_equal_bits)
 * there is a plan with equal bits; elsewhere there is none, the reason is that, and cuDNN knows the graph all the same. A
 * plan's workspace is within what the memory plan counts. Which engine it is depends on cuDNN's version and is printed, not
 * expected. For time, the widest heads are planned forward only on RTX 4090 (backward nothing is expected there) and on
 * H200 (of H100's architecture).
 *
 * Skipped where cuDNN is not installed. Making a plan loads kernels, for which cuDNN wants a driver: a stand-in without a
 * GPU (tests/support/standin) is loaded first. */
#include "support/fake_cudnn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>

#if defined(FW_HAS_CUDNN) && defined(FW_CUDNN_LIBRARY)

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Multiprocessors, memory, opt-in shared memory of a block, threads and blocks of a multiprocessor, second-level cache: of
 * the data sheets and the table of compute capabilities in the CUDA programming guide. */
typedef struct profile {
    const char *name;
    int sm, sm_n;
    long long memory_gib;
    int shared_bytes, thread_n, block_n, cache_mib;
} profile;

static const profile profiles[] = {
    {"A100", 80, 108, 80, 166912, 2048, 32, 40},    {"RTX 4090", 89, 128, 24, 101376, 1536, 24, 72},
    {"H100", 90, 132, 80, 232448, 2048, 32, 50},    {"H200", 90, 132, 141, 232448, 2048, 32, 50},
    {"B200", 100, 148, 180, 232448, 2048, 32, 126},
};
enum { PROFILE_N = sizeof profiles / sizeof *profiles };

static fw_cudnn api;

static fw_status open_profile(fw_cudnn_target *t, const profile *p) {
    char json[1024];
    snprintf(json, sizeof json,
             "{\"deviceName\":\"%s\",\"deviceVer\":%d,\"cudaDeviceId\":0,\"pciDeviceId\":0,\"driverVer\":13000,"
             "\"multiProcessorCount\":%d,\"totalGlobalMem\":%lld,\"maxSharedMemoryPerBlock\":49152,"
             "\"maxSharedMemoryPerBlockOptin\":%d,\"reservedSharedMemoryPerBlock\":1024,\"regsPerBlock\":65536,"
             "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,"
             "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"warpSize\":32,"
             "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":1800000,\"memClockRateKHz\":2600000,"
             "\"l2CacheSize\":%d}",
             p->name, 10 * p->sm, p->sm_n, p->memory_gib << 30, p->shared_bytes, p->block_n, p->thread_n,
             p->cache_mib << 20);
    return fw_cudnn_target_of_json(t, &api, json, p->sm);
}

/* 8 sequences of up to 4096 tokens. */
static fw_cudnn_attention shape_of(int64_t H, int64_t K, int64_t D, int backward) {
    const int64_t row = (H + 2 * K) * D;
    return (fw_cudnn_attention){.document_n = 8,
                                .longest_n = 4096,
                                .H = H,
                                .K = K,
                                .D = D,
                                .q_stride = row,
                                .k_stride = row,
                                .v_stride = row,
                                .dq_stride = backward ? row : 0,
                                .backward = backward};
}

static int has_equal_bits(int sm) {
    return (sm >= 100 && sm <= 103 && api.version >= 91800) || (sm == 90 && api.version >= 92500);
}

static void check_plan(const fw_cudnn_target *t, const profile *p, const fw_cudnn_attention *a) {
    char text[120];
    snprintf(text, sizeof text, "%s, %lld and %lld heads of %lld, %s", p->name, (long long)a->H, (long long)a->K,
             (long long)a->D, a->backward ? "backward" : "forward");
    fw_cudnn_plan plan;
    if (fw_cudnn_plan_make(&plan, t, a) != FW_OK) {
        /* Without an order of sums there must be no plan, and the message says what there would be one with. */
        if (!a->backward || has_equal_bits(p->sm)) fail_msg("%s: %s", text, fw_trail_message());
        assert_non_null(strstr(fw_trail_message(), "equal bits"));
        return;
    }
    print_message("%s: engine %lld, %.2f MiB\n", text, (long long)plan.engine, (double)plan.workspace_bytes / 1048576);
    if (a->backward && !has_equal_bits(p->sm)) fail_msg("%s: a plan without equal bits", text);
    assert_true(plan.engine >= 0);
    assert_true(plan.workspace_bytes <= fw_cudnn_workspace_most(a));
    assert_true(plan.workspace_bytes < 1u << 20); /* what plan/gpu_scratch.c counts; accumulators are ours */
    fw_cudnn_plan_fini(&plan);
}

/* The backward graph is one that cuDNN knows on every one of these GPUs, whether it has equal bits there or not. */
static void check_known(const fw_cudnn_target *t, const fw_cudnn_attention *a) {
    fw_cudnn_graph g;
    fw_cudnn_graph_init(&g, &api);
    assert_int_equal(fw_cudnn_attention_build(&g, a), FW_OK);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0;
    fw_cudnn_descriptor heuristic = fw_cudnn_make(&g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    fw_cudnn_set_descriptor(&g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g.all);
    fw_cudnn_set_descriptor(&g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, t->properties);
    fw_cudnn_set(&g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    fw_cudnn_finalize(&g, heuristic, "the heuristic");
    if (g.status != FW_OK) fail_msg("%s", fw_trail_message());
    assert_int_equal(
        api.BackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n, NULL),
        CUDNN_STATUS_SUCCESS);
    assert_true(n > 0);
    fw_cudnn_graph_fini(&g);
}

static void test_profile(void **state) {
    static const struct { int64_t H, K, D; } shapes[] = {{14, 2, 64}, {16, 16, 96}, {28, 4, 128}};
    const profile *p = *state;
    fw_cudnn_target target;
    if (open_profile(&target, p) != FW_OK) fail_msg("%s", fw_trail_message());
    const int is_short = p->memory_gib != 80 && p->sm != 100; /* a plan takes half a second to one and a half */
    for (int i = 0; i < 3; i++)
        for (int backward = 0; backward < (i == 2 && is_short ? 1 : 2); backward++) {
            const fw_cudnn_attention a = shape_of(shapes[i].H, shapes[i].K, shapes[i].D, backward);
            check_plan(&target, p, &a);
            if (backward) check_known(&target, &a);
        }
    fw_cudnn_target_fini(&target);
}

/* A head size that cuDNN does not take, and a description that is none: a message, no crash. */
static void test_refused(void **state) {
    (void)state;
    fw_cudnn_target target;
    fw_cudnn_plan plan;
    assert_int_equal(open_profile(&target, &profiles[2]), FW_OK);
    const fw_cudnn_attention a = shape_of(4, 4, 12, 0);
    assert_int_equal(fw_cudnn_plan_make(&plan, &target, &a), FW_ERR_OPTION);
    fw_cudnn_target_fini(&target);
    assert_int_not_equal(fw_cudnn_target_of_json(&target, &api, "none", 90), FW_OK);
    assert_null(target.properties);
}

int main(void) {
    struct CMUnitTest tests[PROFILE_N + 1];
    for (int i = 0; i < PROFILE_N; i++)
        tests[i] = (struct CMUnitTest){
            .name = profiles[i].name, .test_func = test_profile, .initial_state = (void *)(uintptr_t)&profiles[i]};
    tests[PROFILE_N] = (struct CMUnitTest)cmocka_unit_test(test_refused);
    if (dlopen(FW_STANDIN_CUDA_DRIVER, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    setenv("FINEWIRE_CUDNN", FW_CUDNN_LIBRARY, 0);
    if (fw_cudnn_open(&api) != FW_OK) {
        printf("skipped: %s\n", fw_trail_message());
        return 77;
    }
    print_message("cuDNN %zu\n", api.version);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without cuDNN's headers\n");
    return 77;
}

#endif
