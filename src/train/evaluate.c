#include "train/evaluate.h"

#include "base/host.h"
#include "base/plural.h"
#include "plan/job_input.h"
#include "train/job.h"

#include <math.h>

/* Sums are the same on all ranks. */
static fw_status check_finite(const fw_loss_sum *sum, const fw_options *o) {
    if (sum->not_finite == 0) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "the loss of %lld of %lld target%s is not a finite number: weights of %s are damaged",
                   (long long)sum->not_finite, (long long)sum->target_n, fw_plural(sum->target_n),
                   o->adapter == NULL ? o->model_name_or_path : o->adapter);
}

static fw_status run(fw_job *job, const fw_options *o, fw_dataset **dataset, fw_batcher **batcher,
                     fw_evaluate_result *r) {
    FW_TRY(fw_job_open(job, o, (fw_job_needs){.chat = true}));
    r->rank = fw_comm_rank(job->comm);
    r->world = fw_comm_world(job->comm);
    FW_TRY(fw_job_load_dataset(job, o, o->dataset_name, false, dataset, NULL));
    fw_batcher_options options = {.micro = o->per_device_eval_batch_size,
                                  .accumulation = 1,
                                  .world = r->world,
                                  .max_length = o->max_length,
                                  .packing = o->packing,
                                  .packing_strategy = o->packing_strategy};
    FW_TRY(fw_comm_agree(job->comm, fw_batcher_create(batcher, *dataset, &options)));
    int64_t N = fw_batcher_max_tokens(*batcher);
    fw_activation_options a = {.mode = FW_ACTIVATIONS_FORWARD,
                               .N_max = N,
                               .n_max = N,
                               .chunk_n = fw_plan_chunk_rows(o->loss_chunk_size, &job->model, N),
                               .P = (*dataset)->stats.longest_n,
                               .document_n = fw_batcher_max_documents(*batcher),
                               .longest_n = (*dataset)->stats.longest_n,
                               .attention = fw_job_attention(o)};
    FW_TRY(fw_job_allocate(job, o, &a, false, fw_job_dataset_bytes(*dataset), 0));
    FW_TRY(fw_job_load_weights(job));

    fw_step step = fw_job_step(job);
    fw_loss_sum sum;
    uint64_t start_ns = fw_host_now_ns();
    FW_TRY(fw_step_evaluate(&step, *batcher, &sum));
    FW_TRY(fw_comm_agree(job->comm, check_finite(&sum, o)));
    r->seconds = (double)(fw_host_now_ns() - start_ns) * 1e-9;
    r->loss = fw_loss_mean(&sum);
    r->perplexity = exp(r->loss);
    r->target_n = sum.target_n;
    r->sample_n = (*dataset)->sample_n;
    r->dropped_n = (*dataset)->stats.conversation_n - r->sample_n;
    r->token_n = (*dataset)->stats.token_n;
    r->tokens_per_s = (double)r->token_n / r->seconds;
    int64_t peak = (int64_t)fw_job_peak_bytes(job);
    FW_TRY(fw_comm_max_i64(job->comm, &peak, 1));
    r->peak_bytes = (uint64_t)peak;
    return FW_OK;
}

fw_status fw_evaluate_run(const fw_options *o, fw_evaluate_result *r, bool *reports) {
    fw_job job = {0};
    fw_dataset *dataset = NULL;
    fw_batcher *batcher = NULL;
    *r = (fw_evaluate_result){0};
    fw_status status = run(&job, o, &dataset, &batcher, r);
    if (status != FW_OK) fw_comm_abort(job.comm, status);
    if (reports != NULL) *reports = fw_comm_reports_failure(job.comm);
    fw_batcher_destroy(batcher);
    fw_dataset_destroy(dataset);
    fw_job_close(&job);
    return status;
}
