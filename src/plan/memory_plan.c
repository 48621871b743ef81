#include "plan/memory_plan.h"

/* What the program itself, its libraries and small tables take in every rank: measured on x86-64 and rounded up. */
static const size_t process_bytes = (size_t)48 << 20;

static void add_row(fw_memory_plan *plan, const char *what, size_t bytes) {
    if (bytes == 0) return;
    FW_ASSERT(plan->row_n < FW_PLAN_ROWS_MAX);
    plan->row[plan->row_n].what = what;
    plan->row[plan->row_n].bytes = bytes;
    plan->row_n++;
    plan->total_bytes += bytes;
}

void fw_memory_plan_make(fw_memory_plan *plan, const fw_shard_bytes *state, const fw_activations *a,
                         size_t scratch_bytes, size_t tokens_bytes) {
    *plan = (fw_memory_plan){0};
    add_row(plan, "weights (fp32)", state->master);
    add_row(plan, "weights (bf16, units at work)", state->compute);
    add_row(plan, "gradients (fp32)", state->gradient);
    add_row(plan, "optimizer moments (fp32)", state->moments);
    add_row(plan, "activations kept for backward", a->kept_bytes);
    add_row(plan, "activations in passing", a->work_bytes);
    add_row(plan, "loss chunk", a->loss_bytes);
    add_row(plan, "device scratch", scratch_bytes);
    add_row(plan, "tokens", tokens_bytes);
    add_row(plan, "program and libraries", process_bytes);
}

static double gib(uint64_t bytes) { return (double)bytes / 1073741824.0; }

fw_status fw_memory_plan_check(const fw_memory_plan *plan, int ranks, uint64_t available_bytes) {
    uint64_t needed;
    if (!__builtin_mul_overflow((uint64_t)plan->total_bytes, (uint64_t)ranks, &needed) && needed <= available_bytes)
        return FW_OK;
    int largest = 0;
    for (int i = 1; i < plan->row_n; i++)
        if (plan->row[i].bytes > plan->row[largest].bytes) largest = i;
    return fw_fail(
        FW_ERR_FIT,
        "a rank needs %.2f GiB, %d rank%s together %.2f GiB, and %.2f GiB are free on this machine; the largest part "
        "is "
        "%s with %.2f GiB: use fewer --num_processes, a smaller --per_device_train_batch_size or --max_length",
        gib(plan->total_bytes), ranks, ranks == 1 ? "" : "s", (double)ranks * gib(plan->total_bytes),
        gib(available_bytes), plan->row[largest].what, gib(plan->row[largest].bytes));
}
