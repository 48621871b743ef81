/* The lines of a run's start about its adapter: what is trained, and what is packed in 4 bits beside it. */
#ifndef FW_CLI_SHOW_ADAPTER_H
#define FW_CLI_SHOW_ADAPTER_H

#include "train/job.h"

/* Errors: FW_ERR_NOMEM. Writes nothing for a model without an adapter. */
fw_status fw_cli_show_adapter(const fw_job *job);

#endif
