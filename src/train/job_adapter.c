#include "train/job_adapter.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "plan/job_input.h"

#include <stdio.h>
#include <string.h>

static bool trains(const fw_options *o) {
    return o->command == FW_COMMAND_TRAIN || o->command == FW_COMMAND_BENCH_STEP;
}

fw_status fw_job_open_folders(fw_job *job, const fw_options *o) {
    const char *dir = o->adapter != NULL ? o->adapter : o->adapter_name_or_path, *model = o->model_name_or_path;
    if (dir != NULL) {
        FW_TRY(fw_peft_folder_open(&job->peft, dir));
        job->has_peft = true;
    }
    if (model == NULL && job->has_peft) model = job->peft.config.base;
    if (model == NULL)
        return fw_fail(FW_ERR_OPTION, "%s does not name its base; give it: --model PATH", job->peft.config.where);
    if (o->model_name_or_path == NULL && !fw_dir_exists(model))
        return fw_fail(FW_ERR_OPTION, "%s names the base %s, which is no folder here; give one: --model PATH",
                       job->peft.config.where, model);
    return fw_strdup(&job->model_dir, model);
}

/* What was read is written again, but for the base: it may lie elsewhere now. */
static fw_status describe(json_t **out, const fw_job *job, const fw_adapter_request *request) {
    if (!job->has_peft) return fw_peft_config_make(out, request, job->model_dir);
    *out = json_deep_copy(job->peft.config.object);
    json_t *base = json_string(job->model_dir);
    if (*out != NULL && json_object_set_new(*out, "base_model_name_or_path", base) == 0) return FW_OK;
    return fw_fail(FW_ERR_NOMEM, "out of memory while describing an adapter");
}

fw_status fw_job_init_model(fw_job *job, const fw_model_config *config, const fw_options *o) {
    const fw_dtype t = o->bf16 ? FW_BF16 : FW_F32;
    job->seed = (uint64_t)o->seed;
    if (!job->has_peft && !o->use_peft) return fw_model_init(&job->model, config, t);
    fw_adapter_request request = job->has_peft ? job->peft.config.request : fw_plan_adapter_request(o);
    if (!trains(o)) request.dropout = 0;
    fw_status status = fw_model_init_adapted(&job->model, config, t, &request);
    FW_TRY(job->has_peft ? fw_peft_config_blame(status, &job->peft.config) : status);
    if (job->model.adapter.passed[0] != 0 && fw_comm_rank(job->comm) == 0)
        fw_log_warning("%s: %s is no module of the model that it would act on, and has no effect",
                       job->peft.config.where, job->model.adapter.passed);
    FW_TRY(describe(&job->adapter_config, job, &request));
    return job->has_peft ? fw_peft_folder_check(&job->peft, &job->model.trained, job->model_dir) : FW_OK;
}

fw_status fw_job_check_base(const fw_job *job) {
    const char *was = job->has_peft ? fw_peft_folder_base_hash(&job->peft) : NULL;
    char is[32];
    snprintf(is, sizeof is, "%016llx", (unsigned long long)job->weights_hash);
    if (was == NULL || strcmp(was, is) == 0) return FW_OK;
    return fw_fail(
        FW_ERR_INPUT,
        "%s was trained on other weights than those of %s (their hash was %.16s and is %s); give the base that it "
        "was trained on%s%s",
        job->peft.weights.dir, job->model_dir, was, is, job->peft.config.base == NULL ? "" : ": it names ",
        job->peft.config.base == NULL ? "" : job->peft.config.base);
}

/* ---- 4 bits */

static const char *const quantizations[][2] = {
    [FW_QUANT_NF4] = {"nf4", "nf4 nested"}, [FW_QUANT_FP4] = {"fp4", "fp4 nested"}};

const char *fw_job_quantization(const fw_job *job) {
    return job->is_packed ? quantizations[job->packed.options.kind][job->packed.options.nested] : NULL;
}

bool fw_job_packs(fw_packed_options *how, const fw_job *job, const fw_options *o) {
    const char *was = job->has_peft ? fw_peft_folder_base_quantization(&job->peft) : NULL;
    *how = fw_plan_packed_options(o);
    if (o->load_in_4bit || trains(o) || was == NULL || fw_options_given(o, FW_OPTION_load_in_4bit))
        return o->load_in_4bit;
    for (int kind = 0; kind < FW_QUANT_KIND_N; kind++)
        for (int nested = 0; nested < 2; nested++) {
            if (strcmp(quantizations[kind][nested], was) != 0) continue;
            how->kind = (fw_quant_kind)kind;
            how->nested = nested == 1;
            return true;
        }
    return false;
}
