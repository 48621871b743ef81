/* What one rank will take, row by row, before anything is taken. The rows are the blocks of the arena that the run then
 * allocates, so the plan and the allocation cannot differ; what lies outside the arena is listed with it. Allocates
 * nothing. */
#ifndef FW_PLAN_MEMORY_PLAN_H
#define FW_PLAN_MEMORY_PLAN_H

#include "device/arena.h"

#include <stdbool.h>

enum { FW_PLAN_ROWS_MAX = FW_ARENA_BLOCK_MAX + 5 };

/* The row "program and libraries": what the program itself, its libraries, the tokenizer and small tables take in every
 * rank, measured on x86-64 and rounded up. It is the constant of what a plan promises: once a step has been as long as
 * the longest there is, a rank's resident memory is at most 5 % above the plan's total, and at most 5 % and these bytes
 * below it. (Memory planned for a batch that has not come yet is not resident.) */
enum { FW_PLAN_PROCESS_BYTES = 48 << 20 };

typedef enum fw_plan_place { FW_PLAN_DEVICE, FW_PLAN_SHARED, FW_PLAN_SCRATCH, FW_PLAN_HOST } fw_plan_place;
const char *fw_plan_place_name(fw_plan_place place);

typedef struct fw_memory_plan {
    struct {
        const char *what; /* "weights (fp32)" */
        fw_plan_place place;
        size_t offset_bytes; /* in the arena of that place; 0 outside it */
        size_t bytes;
    } row[FW_PLAN_ROWS_MAX];
    int row_n;
    size_t device_bytes; /* the device's peak in the run, to the byte: arena and scratch */
    size_t shared_bytes; /* this rank's part of the memory that collectives work on */
    size_t away_bytes;   /* offloaded state in memory of the host, and room for what comes from a file: of the arena */
    size_t host_bytes;   /* what the host holds whatever computes: these, conversations, the program */
    size_t total_bytes;  /* of one rank, with what the host holds */
} fw_memory_plan;

/* "1.25 GiB", "63.40 MiB": for messages. Writes to text (FW_PLAN_SIZE_BYTES) and returns it. */
enum { FW_PLAN_SIZE_BYTES = 32 };
const char *fw_plan_size(char *text, uint64_t bytes);

/* scratch_bytes: of the device, for the largest shapes. host_bytes: the dataset and other host memory of the rank. */
void fw_memory_plan_make(fw_memory_plan *out, const fw_arena *arena, size_t scratch_bytes, size_t host_bytes);
/* One more row of the host's. */
void fw_memory_plan_add_host(fw_memory_plan *plan, const char *what, size_t bytes);

/* What there is for the ranks of one machine. */
typedef struct fw_memory_budget {
    int ranks;                /* on this machine */
    uint64_t available_bytes; /* of the machine, shared by all of them */
    uint64_t device_bytes;    /* a rank may take this much of its device; 0: no limit of its own */
    bool on_gpu;              /* device and shared memory are a GPU's, not the machine's: */
    uint64_t gpu_bytes;       /* what a rank's GPU has for it */
} fw_memory_budget;
/* What a rank needs where it computes, and what it may have there. */
size_t fw_memory_plan_needed(const fw_memory_plan *plan, const fw_memory_budget *budget);
uint64_t fw_memory_plan_limit(const fw_memory_budget *budget);
bool fw_memory_plan_fits(const fw_memory_plan *plan, const fw_memory_budget *budget);
/* Error: FW_ERR_FIT with both figures, the largest row and what would help; `advice` (may be NULL) is put in its place
 * when there is better. */
fw_status fw_memory_plan_check(const fw_memory_plan *plan, const fw_memory_budget *budget, const char *advice);

#endif
