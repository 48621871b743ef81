#include "train/merge_run.h"

#include "base/alloc.h"
#include "base/file.h"
#include "store/merge.h"
#include "train/forward.h"
#include "train/job_adapter.h"

#include <math.h>
#include <string.h>

/* Prose, figures and code, so that many rows of the weights have a part in it. */
static const char TEXT[] =
    "The river runs past 14 mills and two old bridges before it reaches the sea. \"Who opened the sluice?\" asked the "
    "keeper; nobody answered, for the night of 3 March 1897 was loud with rain.\n\n"
    "def area(width, height):\n    if width < 0 or height < 0:\n        raise ValueError('sides')\n"
    "    return width * height\n\n"
    "| item | price |\n|------|-------|\n| tea  | 2.50  |\n| salt | 0.75  |\n\n"
    "Wer früh aufsteht, sieht den Nebel über den Wiesen. Le soleil se lève derrière la colline. "
    "1 + 2 + 3 + ... + n = n(n + 1)/2, so the sum of the first hundred numbers is 5050. Answer in one word: yes or no?";

/* ---- writing */

static fw_status read_base(void *context, const fw_param *p, int64_t first_n, int64_t n, float *out) {
    fw_job *job = context;
    const fw_param *frozen = job->is_packed ? fw_param_table_find(&job->model.frozen, p->name) : NULL;
    if (frozen != NULL) /* what the adapter was trained beside */
        return fw_packed_read_numbers(&job->packed_weights, (int32_t)(frozen - job->model.frozen.param), first_n, n,
                                      out);
    return fw_model_folder_read(&job->folder, &job->model.table, p->unit, p->offset_n + first_n, n, out);
}

/* A tied model of which one side was trained apart is tied no longer. */
static bool must_untie(const fw_model *m) {
    return m->config.tied && (m->adapter.tied_head || m->adapter.whole[0]); /* parameter 0 is the embedding */
}

static fw_status write_merged(fw_job *job, const fw_options *o) {
    static const fw_dtype dtypes[] = {[FW_EXPORT_BF16] = FW_BF16, [FW_EXPORT_FP32] = FW_F32, [FW_EXPORT_FP16] = FW_F16};
    const fw_export_options options = {
        .dtype = dtypes[o->dtype], .max_shard_bytes = (uint64_t)o->max_shard_size, .untie = must_untie(&job->model)};
    fw_model_config config = job->model.config;
    fw_param_table table;
    fw_merge merge = {.adapter = &job->model.adapter,
                      .base = &job->model.table,
                      .trained = &job->model.trained,
                      .folder = &job->peft,
                      .read_base = read_base,
                      .base_context = job,
                      .threads = job->threads};
    if (options.untie) config.tied = false;
    FW_TRY(fw_param_table_init(&table, &config));
    fw_status status = fw_export_model(o->output, job->model_dir, &table, &options, fw_merge_read, &merge);
    fw_merge_fini(&merge);
    fw_param_table_fini(&table);
    return status;
}

static void count(fw_merge_result *r, const fw_param_table *trained) {
    for (int32_t i = 0; i < trained->param_n; i++) {
        const fw_param_kind kind = trained->param[i].kind;
        r->adapted_n += kind == FW_PARAM_LORA_A;
        r->whole_n += kind == FW_PARAM_BASE || kind == FW_PARAM_TIED_HEAD;
    }
}

/* ---- comparing */

typedef struct probe {
    int64_t n, V;
    int32_t *id;
    float *logits[2]; /* [n, V]: base and adapter, merged */
} probe;

static fw_status choose_tokens(probe *p, const fw_job *job, int64_t token_n) {
    fw_encoder *encoder = NULL;
    fw_ids ids = {0};
    fw_status status;
    p->V = job->model.config.V;
    FW_TRY_OR(fw_encoder_create(&encoder, job->tokenizer), done);
    FW_TRY_OR(fw_tokenizer_encode(encoder, &ids, TEXT, sizeof TEXT - 1, FW_ENCODE_ADD_SPECIAL), done);
    if (token_n > job->model.config.max_position) token_n = job->model.config.max_position;
    FW_TRY_OR(FW_NEW_ARRAY(p->id, ids.n), done);
    for (size_t i = 0; i < ids.n && p->n < token_n; i++)
        if (ids.id[i] < p->V) p->id[p->n++] = ids.id[i];
    for (int k = 0; k < 2; k++) FW_TRY_OR(FW_NEW_ARRAY(p->logits[k], (size_t)(p->n * p->V)), done);
done:
    fw_encoder_destroy(encoder);
    fw_ids_fini(&ids);
    return status;
}

static fw_status compute(fw_job *job, const fw_options *o, const probe *p, float *out) {
    const size_t bytes = (size_t)(p->n * p->V) * sizeof(float);
    const fw_activation_options a = {
        .mode = FW_ACTIVATIONS_FORWARD, .N_max = p->n, .n_max = p->n, .chunk_n = 1, .P = p->n};
    const fw_forward_cache nothing = {0};
    float *logits = NULL;
    fw_status status;
    FW_TRY(fw_device_alloc(job->device, (void **)&logits, bytes, "logits"));
    FW_TRY_OR(fw_job_allocate(job, o, &a, false, bytes, 0), done);
    FW_TRY_OR(fw_job_load_weights(job), done);
    FW_TRY_OR(fw_forward(job, p->id, p->n, &nothing, p->n, logits), done);
    FW_TRY_OR(fw_copy(job->device, out, logits, bytes), done);
done:
    fw_device_free(job->device, logits, bytes);
    return status;
}

static int64_t likeliest(const float *row, int64_t V) {
    int64_t best = 0;
    for (int64_t v = 1; v < V; v++)
        if (row[v] > row[best]) best = v;
    return best;
}

static void compare(fw_merge_result *r, const probe *p) {
    r->token_n = p->n;
    for (int64_t i = 0; i < p->n * p->V; i++) {
        const double a = (double)p->logits[0][i], d = fabs(a - (double)p->logits[1][i]);
        if (!(d <= r->difference)) r->difference = d; /* a NaN stays */
        r->largest = fmax(r->largest, fabs(a));
    }
    for (int64_t i = 0; i < p->n; i++)
        r->same_n += likeliest(p->logits[0] + i * p->V, p->V) == likeliest(p->logits[1] + i * p->V, p->V);
}

static fw_status compute_merged(const fw_options *o, const probe *p) {
    fw_job job = {0};
    fw_status status;
    FW_TRY_OR(fw_job_open(&job, o, (fw_job_needs){0}), done);
    FW_TRY_OR(compute(&job, o, p, p->logits[1]), done);
done:
    fw_job_close(&job);
    return status;
}

/* ---- all of it */

/* Options for the model that was written. */
static fw_status options_of_merged(fw_options *out, const fw_options *o) {
    FW_TRY(fw_options_copy(out, o));
    fw_free(out->adapter);
    fw_free(out->model_name_or_path);
    out->adapter = out->model_name_or_path = NULL;
    return fw_strdup(&out->model_name_or_path, o->output);
}

static fw_status merge(const fw_options *o, fw_merge_result *r, probe *p) {
    fw_job job = {0};
    fw_status status;
    if (fw_dir_same(o->output, o->adapter))
        return fw_fail(FW_ERR_OPTION, "%s is the folder of the adapter that is read; choose another one to write to",
                       o->output);
    FW_TRY_OR(fw_job_open(&job, o, (fw_job_needs){.weights_hash = true, .any_base = o->force}), done);
    FW_TRY_OR(fw_strdup(&r->base, job.model_dir), done);
    r->base_hash = job.weights_hash;
    r->base_quantization = fw_job_quantization(&job);
    count(r, &job.model.trained);
    FW_TRY_OR(write_merged(&job, o), done);
    if (o->check_tokens == 0) goto done;
    FW_TRY_OR(choose_tokens(p, &job, o->check_tokens), done);
    if (p->n > 0) FW_TRY_OR(compute(&job, o, p, p->logits[0]), done);
done:
    fw_job_close(&job);
    return status;
}

fw_status fw_merge_run(const fw_options *asked, fw_merge_result *r) {
    fw_options base = {0}, merged = {0};
    probe p = {0};
    fw_status status;
    *r = (fw_merge_result){0};
    FW_TRY_OR(fw_options_copy(&base, asked), done);
    base.bf16 = false; /* so that what differs is the rounding of the merged weights */
    FW_TRY_OR(merge(&base, r, &p), done);
    if (p.n == 0) goto done;
    FW_TRY_OR(options_of_merged(&merged, &base), done);
    FW_TRY_OR(compute_merged(&merged, &p), done);
    compare(r, &p);
done:
    /* Written it is; a machine that is too small to run both models in fp32 only cannot compare them. */
    if (status == FW_ERR_FIT && r->base != NULL) status = fw_strdup(&r->why_not_compared, fw_trail_message());
    for (int k = 0; k < 2; k++) fw_free(p.logits[k]);
    fw_free(p.id);
    fw_options_fini(&merged);
    fw_options_fini(&base);
    return status;
}

void fw_merge_result_fini(fw_merge_result *r) {
    fw_free(r->base);
    fw_free(r->why_not_compared);
    *r = (fw_merge_result){0};
}
