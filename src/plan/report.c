#include "plan/report.h"

#include "base/alloc.h"
#include "config/options_sharding.h"
#include "machine/machine.h"
#include "model/wrap_class.h"
#include "plan/job_input.h"
#include "plan/known_model.h"
#include "plan/solve.h"
#include "plan/what_if.h"

#include <stdio.h>

const fw_shard_strategy fw_plan_strategies[FW_PLAN_STRATEGY_N] = {FW_SHARD_DDP, FW_SHARD_ZERO1, FW_SHARD_ZERO2,
                                                                  FW_SHARD_ZERO3, FW_SHARD_HSDP};

static fw_status take_options(fw_plan_scenario *s, const fw_options *o) {
    s->method = o->method;
    s->batch = o->per_device_train_batch_size;
    s->length = o->max_length;
    s->recompute = o->gradient_checkpointing;
    s->recompute_every = o->gradient_checkpointing_every;
    s->chunk_rows = o->loss_chunk_size;
    s->device_memory = (uint64_t)o->device_memory;
    s->optim = o->optim;
    s->adapter_r = o->lora_r;
    s->packed = fw_plan_packed_options(o);
    const fw_model_config *config = &s->model->config;
    if (config->is_packed) { /* what is in 4 bits stays so beside an adapter */
        s->packed.kind = config->packed_kind;
        s->packed.nested = config->packed_nested;
        if (s->method == FW_METHOD_LORA) s->method = FW_METHOD_QLORA;
    }
    FW_TRY(fw_wrap_check_class(o->fsdp_transformer_layer_cls_to_wrap, s->model->config.architecture));
    if (s->batch * s->length > INT32_MAX)
        return fw_fail(FW_ERR_OPTION,
                       "%lld sequences of %lld tokens are %lld tokens at once; at most %d can be computed: lower "
                       "per_device_train_batch_size or max_length",
                       (long long)s->batch, (long long)s->length, (long long)(s->batch * s->length), INT32_MAX);
    fw_plan_input in = {.model = s->model};
    fw_plan_input_from_options(&in, o);
    s->shard = in.shard;
    s->strategy_said = !in.choose_strategy;
    s->strategy = in.shard.strategy;
    s->choose_sync = in.choose_sync;
    s->micro_n = in.micro_n;
    s->group_n = s->site.node_n;
    return o->shard_group_size > 0 ? fw_options_shard_group(&s->group_n, o, s->site.world, s->site.node_n) : FW_OK;
}

/* A user without a home has measured nothing, unless a file is named. */
static fw_status load_measured(fw_measured *out, const fw_options *o) {
    char *path = NULL;
    fw_status status = fw_measured_path(&path, o->measured);
    if (status != FW_OK) return o->measured == NULL && status == FW_ERR_OPTION ? FW_OK : status;
    status = fw_measured_load(out, path);
    fw_free(path);
    return status;
}

fw_status fw_plan_scenario_from_options(fw_plan_scenario *s, const fw_model *model, const fw_model *adapted,
                                        fw_options *o) {
    *s = (fw_plan_scenario){.model = model, .adapted = adapted};
    fw_measured measured = {0};
    fw_machine *machine = NULL;
    fw_status status = FW_OK;
    const bool cpu = o->device == FW_DEVICE_CPU || o->device == FW_DEVICE_REF;
    if (o->gpu == NULL) { /* this machine: what it has, and what was measured of it */
        FW_TRY_OR(load_measured(&measured, o), done);
        if (!cpu) FW_TRY_OR(fw_machine_read(&machine, NULL), done);
        if (o->device == FW_DEVICE_CUDA && machine->gpu_n == 0) {
            status = fw_fail(FW_ERR_OPTION, "device is cuda, and no NVIDIA GPU is seen here; name a card with --gpu");
            goto done;
        }
    }
    const fw_plan_site_wish wish = {.gpu = o->gpu,
                                    .link = o->link,
                                    .world = (int)o->gpus,
                                    .node_n = (int)o->gpus_per_node,
                                    .network_gbps = o->network_gbps,
                                    .cpu = cpu,
                                    .thread_n = (int)o->num_threads,
                                    .mpi = o->transport == FW_TRANSPORT_MPI,
                                    .t = model->t,
                                    .measurements = &measured,
                                    .machine = machine};
    FW_TRY_OR(fw_plan_site_make(&s->site, &wish), done);
    FW_TRY_OR(fw_options_resolve_batch(o, s->site.world), done);
    FW_TRY_OR(take_options(s, o), done);
done:
    fw_machine_destroy(machine);
    fw_measured_fini(&measured);
    return status;
}

static fw_status fill(fw_plan_table *t, const fw_plan_scenario *asked, fw_method method) {
    fw_plan_scenario s = *asked;
    s.method = t->method = method;
    for (int i = 0; i < FW_PLAN_STRATEGY_N; i++) FW_TRY(fw_plan_case_make(&t->row[i], &s, fw_plan_strategies[i]));
    return FW_OK;
}

static fw_status fill_tables(fw_plan_report *r) {
    const bool open = r->asked.method == FW_METHOD_AUTO;
    FW_TRY(fill(&r->table, &r->asked, open ? FW_METHOD_FULL : r->asked.method));
    if (!open) return FW_OK;
    FW_TRY(fill(&r->other[0], &r->asked, FW_METHOD_LORA));
    FW_TRY(fill(&r->other[1], &r->asked, FW_METHOD_QLORA));
    r->other_n = 2;
    return FW_OK;
}

static fw_status answer(fw_plan_report *r) {
    fw_plan_scenario s = r->asked;
    fw_plan_recompute_all(&s);
    for (int k = -1; k < r->other_n; k++) {
        int *fewest = k < 0 ? r->fewest_devices : r->fewest_other[k];
        s.method = k < 0 ? r->table.method : r->other[k].method;
        for (int i = 0; i < FW_PLAN_STRATEGY_N; i++)
            FW_TRY(fw_plan_fewest_devices(&fewest[i], &s, fw_plan_strategies[i]));
    }
    FW_TRY(fw_plan_longest(&r->longest_length, &r->advice.scenario, r->advice.strategy));
    return fw_plan_largest_batch(&r->largest_batch, &r->advice.scenario, r->advice.strategy);
}

/* What each way to recompute keeps and computes again, all else as recommended. */
static fw_status compare_recompute(fw_plan_report *r) {
    static const fw_recompute ways[] = {FW_RECOMPUTE_OFF, FW_RECOMPUTE_SELECTIVE, FW_RECOMPUTE_ON};
    for (int i = 0; i < 3; i++) r->recompute[r->recompute_n++] = (fw_plan_recompute){.recompute = ways[i], .every = 1};
    if (r->asked.recompute != FW_RECOMPUTE_OFF && r->asked.recompute_every > 1)
        r->recompute[r->recompute_n++] =
            (fw_plan_recompute){.recompute = r->asked.recompute, .every = r->asked.recompute_every};
    for (int i = 0; i < r->recompute_n; i++) {
        fw_plan_scenario s = r->advice.scenario;
        s.recompute = r->recompute[i].recompute;
        s.recompute_every = r->recompute[i].every;
        FW_TRY(fw_plan_case_make(&r->recompute[i].one, &s, r->advice.strategy));
    }
    return FW_OK;
}

/* Weights in fp32 and what the optimizer keeps of them, to the byte; without the manifest and the files' headers. */
static uint64_t saved_bytes(const fw_param_table *trained, fw_optimizer optimizer) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < trained->param_n; i++) {
        const fw_param *p = &trained->param[i];
        fw_state_array array[FW_STATE_ARRAYS_MAX];
        const int n = fw_state_arrays(array, optimizer, p);
        bytes += (uint64_t)p->n * sizeof(float);
        for (int k = 0; k < n; k++) bytes += (uint64_t)fw_state_whole_n(&array[k], p) * fw_dtype_bytes(array[k].t);
    }
    return bytes;
}

static void count_saving(fw_plan_report *r, const fw_options *o) {
    const bool full = r->advice.method == FW_METHOD_FULL;
    const uint64_t world = (uint64_t)r->advice.scenario.site.world;
    r->checkpoint_bytes = saved_bytes(full ? &r->model.table : fw_model_trained(&r->adapted), fw_plan_optimizer(o));
    r->copy_bytes = (r->checkpoint_bytes + world - 1) / world;
    r->final_bytes = (full ? 2 : 4) * (uint64_t)r->advice.best.trained_n;
}

/* given: o before anything is worked out. */
static fw_status make(fw_plan_report *r, fw_options *o, const fw_options *given) {
    fw_model_config config;
    snprintf(r->name, sizeof r->name, "%s", o->model_name_or_path);
    FW_TRY(fw_known_model_config(&config, o->model_name_or_path));
    FW_TRY(fw_model_init(&r->model, &config, o->bf16 ? FW_BF16 : FW_F32));
    FW_TRY(fw_plan_adapted_model(&r->adapted, &config, r->model.t, o));
    FW_TRY(fw_plan_scenario_from_options(&r->asked, &r->model, &r->adapted, o));
    FW_TRY(fill_tables(r));
    FW_TRY(fw_plan_advise(&r->advice, &r->asked));
    FW_TRY(compare_recompute(r));
    count_saving(r, o);
    fw_plan_split_tensor(&r->tensor, &r->advice.scenario, &r->advice.best);
    fw_plan_split_pipeline(&r->pipeline, &r->advice.scenario, &r->advice.best);
    FW_TRY(answer(r));
    return o->what_if != NULL ? fw_plan_what_if(r, given) : FW_OK;
}

fw_status fw_plan_report_create(fw_plan_report **out, const fw_options *o) {
    fw_plan_report *r;
    fw_options own; /* some options follow from others, which are known here only */
    FW_TRY(FW_NEW(r));
    fw_status status = fw_options_copy(&own, o);
    if (status == FW_OK) status = make(r, &own, o);
    fw_options_fini(&own);
    if (status != FW_OK) {
        fw_plan_report_destroy(r);
        return status;
    }
    *out = r;
    return FW_OK;
}

void fw_plan_report_destroy(fw_plan_report *r) {
    if (r == NULL) return;
    fw_plan_site_fini(&r->asked.site);
    fw_model_fini(&r->model);
    fw_model_fini(&r->other_type);
    fw_model_fini(&r->adapted);
    for (int i = 0; i < FW_PLAN_CHANGES_MAX; i++) fw_model_fini(&r->change[i].adapted);
    fw_free(r->change_text);
    fw_free(r);
}
