/* The adapter of a job: asked for by options, or read from a PEFT folder. */
#ifndef FW_TRAIN_JOB_ADAPTER_H
#define FW_TRAIN_JOB_ADAPTER_H

#include "train/job.h"

/* Opens the folder that --adapter or --adapter_name_or_path names, if one is named, and fills job->model_dir: the model that is
 * named, else the base that the folder names. Errors: those of fw_peft_folder_open; FW_ERR_OPTION when no model is found. */
fw_status fw_job_open_folders(fw_job *job, const fw_options *options);
/* Fills job->model, frozen but for the adapter if there is one, and job->adapter_config. The folder is checked against it. */
fw_status fw_job_init_model(fw_job *job, const fw_model_config *config, const fw_options *options);
/* The base is the one that the folder was trained on, where the folder says which: needs job->weights_hash.
 * Errors: FW_ERR_INPUT naming both. */
fw_status fw_job_check_base(const fw_job *job);

/* Are the frozen weights to be packed in 4 bits, and how: as --load_in_4bit says; where it says nothing and nothing is trained,
 * as the folder says that they were when its adapter was. */
bool fw_job_packs(fw_packed_options *how, const fw_job *job, const fw_options *options);
/* "nf4", "nf4 nested", ...: of frozen weights in 4 bits; NULL: they are not. */
const char *fw_job_quantization(const fw_job *job);

#endif
