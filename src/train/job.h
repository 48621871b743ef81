/* What train, eval and generate have in common: this rank's place, its share of the machine, the model folder, its
 * tokenizer and its weights. Opened in stages, so that what is wrong is said before anything large is taken. */
#ifndef FW_TRAIN_JOB_H
#define FW_TRAIN_JOB_H

#include "config/options.h"
#include "data/batcher.h"
#include "data/prepare.h"
#include "plan/job_plan.h"
#include "store/model_folder.h"
#include "store/packed_weights.h"
#include "store/peft_folder.h"
#include "text/chat.h"
#include "train/step.h"

typedef struct fw_job {
    fw_comm *comm;
    fw_threads *threads;
    fw_device *device;
    fw_device *update_device; /* updates offloaded state in memory of the host, where the device has its own; or NULL */
    int cpu_first, cpu_n, thread_n; /* this rank's part of the machine's CPUs */
    int local_rank, machine_cpu_n;
    char *model_dir;
    fw_model_folder folder;
    fw_model model;
    bool is_packed; /* the frozen weights are in 4 bits, and the next two say how */
    fw_packed_table packed;
    fw_packed_weights packed_weights;
    fw_tokenizer *tokenizer;
    fw_chat_template chat;
    fw_peft_folder peft; /* the adapter that it begins with, or is run with; has_peft: there is one */
    bool has_peft;
    json_t *adapter_config; /* what adapter_config.json of the adapter says; NULL: the model has none */
    uint64_t seed;          /* of what an adapter begins with and of dropout */
    uint64_t weights_hash;  /* which base this is: fw_model_folder_hash, of all ranks; 0 unless asked for */
    /* after fw_job_allocate */
    fw_job_plan plan;
    fw_shard *frozen; /* NULL without an adapter */
    fw_shard *shard;  /* what is trained, or all of the model */
    fw_activations activations;
    fw_token_buffers tokens;
} fw_job;

typedef struct fw_job_needs {
    bool chat;         /* the chat template is loaded; base models have none, which is told when one is needed */
    bool weights_hash; /* hash the weights while the tokenizer is read; a PEFT folder must be of them */
    bool any_base;     /* or of others */
} fw_job_needs;
/* The first stage alone: place among the ranks, threads, device. The rest stays zeroed. Collective. */
fw_status fw_job_open_place(fw_job *job, const fw_options *options);
/* Place, threads, device; config, tokenizer, template, weight headers checked; all ranks agree. Collective. */
fw_status fw_job_open(fw_job *job, const fw_options *options, fw_job_needs needs);
/* Weights, gradients, activations: planned (strategy and all), compared with what the machine has, taken. The weights are
 * still to be loaded, from the model folder or a checkpoint. After it the device is frozen. host_bytes: of the dataset, copy_bytes: of save_async.h, for the plan. Collective. */
fw_status fw_job_allocate(fw_job *job, const fw_options *options, const fw_activation_options *activations,
                          bool training, size_t host_bytes, size_t copy_bytes);
/* The weights of the model folder, each rank what it owns of them. Collective. */
fw_status fw_job_load_weights(fw_job *job);
void fw_job_close(fw_job *job); /* takes a zeroed one */

/* Option attn_implementation, as the device knows it. */
fw_attention_choice fw_job_attention(const fw_options *options);
/* The conversations of dataset_name or eval_dataset as tokens of this model; held_out: fw_data_prepare. Collective. */
fw_status fw_job_load_dataset(fw_job *job, const fw_options *options, const char *name, bool all_tokens,
                              fw_dataset **out, fw_dataset **held_out);
size_t fw_job_dataset_bytes(const fw_dataset *dataset); /* takes NULL */
fw_units fw_job_units(const fw_job *job);
fw_step fw_job_step(fw_job *job);
/* What the plan says is taken in one piece of each kind of memory, scratch included, and what was. */
uint64_t fw_job_planned_bytes(const fw_job *job);
uint64_t fw_job_taken_bytes(const fw_job *job);
/* The most memory this rank ever held. Pages of other ranks' shared memory that it has worked on are resident here too,
 * but they are in the machine once: they are not counted. */
uint64_t fw_job_peak_bytes(const fw_job *job);

#endif
