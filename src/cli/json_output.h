/* --json: one object on the standard output. */
#ifndef FW_CLI_JSON_OUTPUT_H
#define FW_CLI_JSON_OUTPUT_H

#include "base/json.h"

/* Writes and releases `value`; NULL stands for memory that ran out. */
fw_status fw_cli_write_json(json_t *value);

#endif
