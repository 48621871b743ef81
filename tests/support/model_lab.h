/* One rank's training set-up around a tiny model and the documents of its reference file, for tests of whole models.
 *
 * The documents are read from tests/parity/reference/VARIANT.safetensors in file order, without shuffling: with micro
 * 4 and accumulation 2 in a world of one, step 0 of an epoch is the reference's window 0 and step 1 its window 1. */
#ifndef FW_TESTS_SUPPORT_MODEL_LAB_H
#define FW_TESTS_SUPPORT_MODEL_LAB_H

#include "plan/job_plan.h"
#include "store/packed_weights.h"
#include "train/step.h"

typedef struct fw_test_lab_options {
    const char *variant;
    const char *shape; /* a model of that name instead, with the documents of the variant: no reference belongs to it */
    const char *device;     /* "ref" or "cpu" */
    fw_device *made_device; /* another one, the lab's from then on; NULL: made by its name */
    fw_attention_choice attention;
    int thread_n; /* 0: no pool */
    fw_dtype t;
    fw_activation_mode mode;
    int64_t recompute_every;
    int64_t micro, accumulation;
    int64_t chunk_n;                /* rows of logits at a time; 0: all */
    int64_t sample_first, sample_n; /* which documents; 0, 0: all */
    const int32_t *lengths;         /* documents of so many tokens instead, sample_n of them, at most 64 each */
    fw_loss_weight (*weight)(int64_t sample, int32_t token); /* of each target, 0: it is none; NULL: all one */
    int64_t pack_length;                                     /* tokens of a packed bin; 0: no packing */
    fw_comm *comm;                                           /* borrowed; NULL: a world of one is made */
    bool shuffle;                      /* a random order every epoch, as in training; else file order */
    bool untie;                        /* give a tied model a head of its own, with the embedding's values */
    const fw_adapter_request *adapter; /* NULL: all of the model is trained */
    const fw_packed_options *packed;   /* the frozen weights in 4 bits; NULL: they are not */
    fw_shard_options shard;            /* t and training are set by the lab; zero is ddp */
} fw_test_lab_options;

typedef struct fw_test_lab {
    fw_test_lab_options options;
    fw_safetensors reference;
    fw_model_folder folder;
    fw_model model;
    fw_dataset *dataset;
    fw_batcher *batcher;
    fw_comm *comm;
    fw_threads *threads;
    fw_device *device;
    fw_job_plan plan;
    fw_packed_table packed; /* where options.packed asks for it */
    fw_packed_weights packed_weights;
    fw_shard *frozen; /* with an adapter */
    fw_shard *shard;
    fw_activations activations;
    float *flat; /* what fw_test_lab_state gave */
    fw_token_buffers tokens;
    fw_step step; /* max_grad_norm 0 and AdamW as the reference has it, but for the learning rate */
} fw_test_lab;

fw_status fw_test_lab_open(fw_test_lab *lab, const fw_test_lab_options *options);
void fw_test_lab_close(fw_test_lab *lab); /* takes a zeroed one */

/* Values of the reference file, in its mapped memory (4-byte types); *n may be NULL. NULL when there is no such name.
 */
const float *fw_test_lab_reference(const fw_test_lab *lab, const char *name, int64_t *n);

/* Gradient of one step's loss, with the weights left as they are: the step is run with a learning rate of 0 and
 * beta1 = 0, so that the first moment is the gradient. */
fw_status fw_test_lab_gradient(fw_test_lab *lab, int64_t step_in_epoch, fw_step_result *result);
/* The gradient of a parameter after that; of all units with their padding when name is NULL. */
const float *fw_test_lab_gradient_of(fw_test_lab *lab, const char *name, int64_t *n);
/* Master weights or moments of all units, [table.total_n] with padding 0, valid until the next call. Collective; NULL on
 * ranks other than 0. */
fw_status fw_test_lab_state(fw_test_lab *lab, fw_shard_array array, const float **flat);
/* |a - b| / |b|, of n elements. */
double fw_test_relative_l2(const float *a, const float *b, int64_t n);
/* The weights of the run back to those of the file, moments to zero. */
fw_status fw_test_lab_reset(fw_test_lab *lab);

/* Logits [tokens of the sample, V] of one document alone, to host memory; room for cap values. */
fw_status fw_test_lab_logits(fw_test_lab *lab, int64_t sample, float *logits, int64_t cap);
/* Losses of the targets of the micro-batch (step_in_epoch, micro_step), forward only, to host memory. */
fw_status fw_test_lab_losses(fw_test_lab *lab, int64_t step_in_epoch, int64_t micro_step, float *loss, int64_t cap,
                             int64_t *n);

#endif
