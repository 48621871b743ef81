#include "device/cuda/cudnn/cudnn_plan.h"

#include <string.h>

/* ---- the GPU */

static fw_status make_target(fw_cudnn_target *t, const fw_cudnn *api, int sm, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t n, const void *value) {
    *t = (fw_cudnn_target){.api = api, .sm = sm};
    cudnnStatus_t answer = api->BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &t->properties);
    if (answer == CUDNN_STATUS_SUCCESS) answer = api->BackendSetAttribute(t->properties, name, type, n, value);
    if (answer == CUDNN_STATUS_SUCCESS) answer = api->BackendFinalize(t->properties);
    const fw_status status = fw_cudnn_status(api, "the GPU's properties", answer);
    if (status != FW_OK) fw_cudnn_target_fini(t);
    return status;
}

fw_status fw_cudnn_target_of_gpu(fw_cudnn_target *t, const fw_cudnn *api, int index, int sm) {
    const int32_t device = index;
    return make_target(t, api, sm, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &device);
}

fw_status fw_cudnn_target_of_json(fw_cudnn_target *t, const fw_cudnn *api, const char *json, int sm) {
    return make_target(t, api, sm, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(json),
                       json);
}

void fw_cudnn_target_fini(fw_cudnn_target *t) {
    if (t->properties != NULL) t->api->BackendDestroyDescriptor(t->properties);
    *t = (fw_cudnn_target){0};
}

/* ---- engines of backward that give equal bits */

enum { KNOBS_MAX = 6 };

typedef struct fixed_engine {
    int sm_first, sm_last;
    size_t version_first, version_last;
    int whole_sums;
    int64_t engine;
    int knob_n;
    struct {
        cudnnBackendKnobType_t type;
        int64_t value;
    } knob[KNOBS_MAX];
} fixed_engine;

static const fixed_engine fixed_engines[] = {
    {.sm_first = 90,
     .sm_last = 90,
     .version_first = 92500,
     .version_last = 99999,
     .whole_sums = 0,
     .engine = 6,
     .knob_n = 6,
     .knob = {{CUDNN_KNOB_TYPE_TILE_M, 2},
              {CUDNN_KNOB_TYPE_TILE_N, 1},
              {CUDNN_KNOB_TYPE_KERNEL_CFG, 2},
              {CUDNN_KNOB_TYPE_STREAM_K, 0},
              {CUDNN_KNOB_TYPE_TILE_CGA_M, 0},
              {CUDNN_KNOB_TYPE_STAGES, 4}}},
    {.sm_first = 100,
     .sm_last = 103,
     .version_first = 91800,
     .version_last = 92299,
     .whole_sums = 1,
     .engine = 5,
     .knob_n = 2,
     .knob = {{CUDNN_KNOB_TYPE_KERNEL_CFG, 31}, {CUDNN_KNOB_TYPE_STAGES, 2}}},
    {.sm_first = 100,
     .sm_last = 103,
     .version_first = 92300,
     .version_last = 99999,
     .whole_sums = 1,
     .engine = 5,
     .knob_n = 6,
     .knob = {{CUDNN_KNOB_TYPE_TILE_M, 3},
              {CUDNN_KNOB_TYPE_TILE_N, 2},
              {CUDNN_KNOB_TYPE_KERNEL_CFG, 2},
              {CUDNN_KNOB_TYPE_STREAM_K, 0},
              {CUDNN_KNOB_TYPE_TILE_CGA_M, 0},
              {CUDNN_KNOB_TYPE_STAGES, 2}}},
};

static const fixed_engine *find_fixed(const fw_cudnn_target *t) {
    const size_t version = t->api->version;
    for (size_t i = 0; i < sizeof fixed_engines / sizeof *fixed_engines; i++) {
        const fixed_engine *e = &fixed_engines[i];
        if (t->sm >= e->sm_first && t->sm <= e->sm_last && version >= e->version_first && version <= e->version_last)
            return e;
    }
    return NULL;
}

static fw_status no_fixed_engine(const fw_cudnn_target *t) {
    for (size_t i = 0; i < sizeof fixed_engines / sizeof *fixed_engines; i++)
        if (t->sm >= fixed_engines[i].sm_first && t->sm <= fixed_engines[i].sm_last)
            return fw_fail(FW_ERR_OPTION, "equal bits on sm_%d need cuDNN %zu.%zu", t->sm,
                           fixed_engines[i].version_first / 10000, fixed_engines[i].version_first / 100 % 100);
    return fw_fail(FW_ERR_OPTION, "cuDNN has no engine with equal bits for packed documents on sm_%d", t->sm);
}

/* ---- from a configuration to a plan */

size_t fw_cudnn_workspace_most(const fw_cudnn_attention *a) {
    return ((size_t)1 << 20) + (size_t)(a->document_n * a->longest_n * a->H);
}

static fw_status try_configuration(fw_cudnn_plan *p, const fw_cudnn_target *t, fw_cudnn_descriptor configuration) {
    fw_cudnn_graph *g = &p->graph;
    fw_cudnn_descriptor plan = fw_cudnn_make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    fw_cudnn_set_descriptor(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, t->properties);
    fw_cudnn_set_descriptor(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    fw_cudnn_finalize(g, plan, "the plan");
    FW_TRY(g->status);
    int64_t bytes = 0, n;
    const size_t most = fw_cudnn_workspace_most(&p->attention);
    FW_TRY(fw_cudnn_status(
        t->api, "the plan's workspace",
        t->api->BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes)));
    if (bytes < 0 || (size_t)bytes > most)
        return fw_fail(FW_ERR_OPTION, "engine %lld of cuDNN asks for %lld bytes of workspace; at most %zu are allowed",
                       (long long)p->engine, (long long)bytes, most);
    p->executable = plan;
    p->workspace_bytes = (size_t)bytes;
    return FW_OK;
}

static fw_status try_fixed(fw_cudnn_plan *p, const fw_cudnn_target *t, const fixed_engine *e) {
    fw_cudnn_graph *g = &p->graph;
    fw_cudnn_descriptor knob[KNOBS_MAX];
    for (int i = 0; i < e->knob_n; i++) {
        knob[i] = fw_cudnn_make(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        fw_cudnn_set(g, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &e->knob[i].type);
        fw_cudnn_set(g, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &e->knob[i].value);
        fw_cudnn_finalize(g, knob[i], "a knob");
    }
    fw_cudnn_descriptor engine = fw_cudnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    fw_cudnn_set_descriptor(g, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g->all);
    fw_cudnn_set_descriptor(g, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, t->properties);
    fw_cudnn_set(g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &e->engine);
    fw_cudnn_finalize(g, engine, "the engine");
    fw_cudnn_descriptor configuration = fw_cudnn_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    fw_cudnn_set_descriptor(g, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    fw_cudnn_set(g, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, e->knob_n, knob);
    fw_cudnn_finalize(g, configuration, "the engine's configuration");
    FW_TRY(g->status);
    p->engine = e->engine;
    return try_configuration(p, t, configuration);
}

/* Which engine a configuration of the heuristic is for, and whether it says that equal calls may give other bits. */
static cudnnStatus_t look_at(const fw_cudnn *api, fw_cudnn_graph *g, fw_cudnn_descriptor configuration,
                             int64_t *engine_number, int *varies) {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n;
    fw_cudnn_descriptor engine = fw_cudnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (engine == NULL) return CUDNN_STATUS_INTERNAL_ERROR;
    cudnnStatus_t answer = api->BackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine);
    if (answer == CUDNN_STATUS_SUCCESS)
        answer =
            api->BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, engine_number);
    if (answer == CUDNN_STATUS_SUCCESS)
        answer = api->BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, note);
    *varies = 0;
    for (int64_t i = 0; answer == CUDNN_STATUS_SUCCESS && i < n; i++)
        if (note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) *varies = 1;
    return answer;
}

static fw_status try_heuristic(fw_cudnn_plan *p, const fw_cudnn_target *t) {
    enum { TRIES = 8 };
    fw_cudnn_graph *g = &p->graph;
    fw_cudnn_descriptor found[TRIES], heuristic = fw_cudnn_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    fw_cudnn_set_descriptor(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->all);
    fw_cudnn_set_descriptor(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, t->properties);
    fw_cudnn_set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    fw_cudnn_finalize(g, heuristic, "the heuristic");
    for (int i = 0; i < TRIES; i++) found[i] = fw_cudnn_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    FW_TRY(g->status);
    int64_t n = 0;
    FW_TRY(fw_cudnn_status(t->api, "the heuristic",
                           t->api->BackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, TRIES, &n, found)));
    fw_status status = fw_fail(FW_ERR_OPTION, "cuDNN %zu.%zu has no engine for this on sm_%d", t->api->version / 10000,
                               t->api->version / 100 % 100, t->sm);
    for (int64_t i = 0; i < n && status != FW_OK; i++) {
        int varies;
        g->status = FW_OK;
        if (look_at(t->api, g, found[i], &p->engine, &varies) != CUDNN_STATUS_SUCCESS || varies) continue;
        status = try_configuration(p, t, found[i]);
    }
    return status;
}

static fw_status build(fw_cudnn_plan *p, const fw_cudnn_target *t, const fixed_engine *fixed) {
    FW_TRY(fw_cudnn_attention_build(&p->graph, &p->attention));
    return fixed != NULL ? try_fixed(p, t, fixed) : try_heuristic(p, t);
}

fw_status fw_cudnn_plan_make(fw_cudnn_plan *p, const fw_cudnn_target *t, const fw_cudnn_attention *a) {
    const fixed_engine *fixed = a->backward ? find_fixed(t) : NULL;
    if (a->backward && fixed == NULL) return no_fixed_engine(t);
    *p = (fw_cudnn_plan){.attention = *a};
    p->attention.whole_sums = fixed != NULL && fixed->whole_sums;
    fw_cudnn_graph_init(&p->graph, t->api);
    const fw_status status = build(p, t, fixed);
    if (status != FW_OK) fw_cudnn_plan_fini(p);
    return status;
}

void fw_cudnn_plan_fini(fw_cudnn_plan *p) {
    if (p->graph.api != NULL) fw_cudnn_graph_fini(&p->graph);
    *p = (fw_cudnn_plan){0};
}
