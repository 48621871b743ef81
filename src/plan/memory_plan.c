#include "plan/memory_plan.h"

#include <stdio.h>

const char *fw_plan_place_name(fw_plan_place place) {
    static const char *const names[] = {"device", "shared", "scratch", "host"};
    return names[place];
}

static size_t sum(size_t a, size_t b) {
    size_t all;
    return __builtin_add_overflow(a, b, &all) ? SIZE_MAX : all;
}

static void add_row(fw_memory_plan *plan, const char *what, fw_plan_place place, size_t offset_bytes, size_t bytes) {
    if (bytes == 0) return;
    FW_ASSERT(plan->row_n < FW_PLAN_ROWS_MAX);
    plan->row[plan->row_n].what = what;
    plan->row[plan->row_n].place = place;
    plan->row[plan->row_n].offset_bytes = offset_bytes;
    plan->row[plan->row_n].bytes = bytes;
    plan->row_n++;
}

void fw_memory_plan_make(fw_memory_plan *plan, const fw_arena *arena, size_t scratch_bytes, size_t host_bytes) {
    *plan = (fw_memory_plan){0};
    for (int i = 0; i < arena->block_n; i++) {
        const fw_arena_block *b = &arena->block[i];
        static const fw_plan_place places[] = {
            [FW_MEMORY_DEVICE] = FW_PLAN_DEVICE, [FW_MEMORY_SHARED] = FW_PLAN_SHARED, [FW_MEMORY_HOST] = FW_PLAN_HOST};
        add_row(plan, b->what, places[b->kind], b->offset_bytes, b->bytes);
    }
    add_row(plan, "scratch of operations", FW_PLAN_SCRATCH, 0, scratch_bytes);
    add_row(plan, "conversations as tokens", FW_PLAN_HOST, 0, host_bytes);
    add_row(plan, "program and libraries", FW_PLAN_HOST, 0, FW_PLAN_PROCESS_BYTES);
    plan->device_bytes = sum(arena->bytes[FW_MEMORY_DEVICE], scratch_bytes);
    plan->shared_bytes = arena->bytes[FW_MEMORY_SHARED];
    plan->away_bytes = arena->bytes[FW_MEMORY_HOST];
    plan->host_bytes = sum(sum(host_bytes, FW_PLAN_PROCESS_BYTES), plan->away_bytes);
    plan->total_bytes = sum(sum(plan->device_bytes, plan->shared_bytes), plan->host_bytes);
}

void fw_memory_plan_add_host(fw_memory_plan *plan, const char *what, size_t bytes) {
    add_row(plan, what, FW_PLAN_HOST, 0, bytes);
    plan->host_bytes = sum(plan->host_bytes, bytes);
    plan->total_bytes = sum(plan->total_bytes, bytes);
}

static bool fits_machine(const fw_memory_plan *plan, const fw_memory_budget *b) {
    uint64_t needed, of_rank = b->on_gpu ? plan->host_bytes : plan->total_bytes;
    return !__builtin_mul_overflow(of_rank, (uint64_t)b->ranks, &needed) && needed <= b->available_bytes;
}

size_t fw_memory_plan_needed(const fw_memory_plan *plan, const fw_memory_budget *b) {
    return b->on_gpu ? sum(plan->device_bytes, plan->shared_bytes) : plan->total_bytes;
}

uint64_t fw_memory_plan_limit(const fw_memory_budget *b) {
    uint64_t own = b->on_gpu ? b->gpu_bytes : b->available_bytes / (uint64_t)b->ranks;
    return b->device_bytes > 0 && b->device_bytes < own ? b->device_bytes : own;
}

static bool fits_device(const fw_memory_plan *plan, const fw_memory_budget *b) {
    return b->device_bytes == 0 || fw_memory_plan_needed(plan, b) <= b->device_bytes;
}

static bool fits_gpu(const fw_memory_plan *plan, const fw_memory_budget *b) {
    return !b->on_gpu || fw_memory_plan_needed(plan, b) <= b->gpu_bytes;
}

bool fw_memory_plan_fits(const fw_memory_plan *plan, const fw_memory_budget *budget) {
    return fits_machine(plan, budget) && fits_device(plan, budget) && fits_gpu(plan, budget);
}

const char *fw_plan_size(char *text, uint64_t bytes) {
    const bool large = bytes >= (uint64_t)1 << 30;
    snprintf(text, FW_PLAN_SIZE_BYTES, "%.2f %s", (double)bytes / (large ? 1073741824.0 : 1048576.0),
             large ? "GiB" : "MiB");
    return text;
}

fw_status fw_memory_plan_check(const fw_memory_plan *plan, const fw_memory_budget *budget, const char *advice) {
    if (fw_memory_plan_fits(plan, budget)) return FW_OK;
    int largest = 0;
    for (int i = 1; i < plan->row_n; i++)
        if (plan->row[i].bytes > plan->row[largest].bytes) largest = i;
    const bool own_limit = !fits_device(plan, budget);
    if (advice == NULL)
        advice = own_limit ? "allow more, or use a smaller --per_device_train_batch_size or --max_length"
                           : "use fewer --num_processes, a smaller --per_device_train_batch_size or --max_length";
    char rank[FW_PLAN_SIZE_BYTES], part[FW_PLAN_SIZE_BYTES], limit[FW_PLAN_SIZE_BYTES], all[FW_PLAN_SIZE_BYTES];
    fw_plan_size(rank, budget->on_gpu ? fw_memory_plan_needed(plan, budget) : plan->total_bytes);
    fw_plan_size(part, plan->row[largest].bytes);
    if (own_limit)
        return fw_fail(FW_ERR_FIT, "a rank needs %s and --device_memory allows %s; the largest part is %s with %s: %s",
                       rank, fw_plan_size(limit, budget->device_bytes), plan->row[largest].what, part, advice);
    if (!fits_gpu(plan, budget))
        return fw_fail(FW_ERR_FIT,
                       "a rank needs %s of its GPU and %s are free there; the largest part is %s with %s: %s", rank,
                       fw_plan_size(limit, budget->gpu_bytes), plan->row[largest].what, part, advice);
    fw_plan_size(limit, budget->available_bytes);
    uint64_t each = budget->on_gpu ? plan->host_bytes : plan->total_bytes, all_bytes;
    if (__builtin_mul_overflow(each, (uint64_t)budget->ranks, &all_bytes)) all_bytes = UINT64_MAX;
    fw_plan_size(all, all_bytes);
    if (budget->on_gpu)
        return fw_fail(FW_ERR_FIT,
                       "a rank needs %s of the host's memory beside its GPU, %d rank%s together %s, and %s are free on "
                       "this machine: use a smaller dataset or fewer --num_processes",
                       fw_plan_size(part, each), budget->ranks, budget->ranks == 1 ? "" : "s", all, limit);
    return fw_fail(FW_ERR_FIT,
                   "a rank needs %s, %d rank%s together %s, and %s are free on this machine; the largest part is %s "
                   "with %s: %s",
                   rank, budget->ranks, budget->ranks == 1 ? "" : "s", all, limit, plan->row[largest].what, part,
                   advice);
}
