/* adapter_config.json of a PEFT folder: what it says, checked, and as a request for the model; and the way back.
 *
 * Every key is looked at. Those of LoRA as finewire has it are read; those that change nothing for a model of one process
 * are passed over; any other that is switched on is refused by name, a key of a later peft too: an adapter that is only
 * nearly the one that was trained would give wrong answers without a word. Source: LoraConfig of huggingface/peft. */
#ifndef FW_STORE_PEFT_CONFIG_H
#define FW_STORE_PEFT_CONFIG_H

#include "base/json.h"
#include "model/adapter.h"

enum { FW_PEFT_TEXT_N = 6 };
typedef struct fw_peft_config {
    json_t *object;             /* as it was read */
    char *where;                /* for messages: its path */
    const char *base;           /* base_model_name_or_path, of the object; NULL: not said */
    fw_adapter_request request; /* its texts are those below */
    char *text[FW_PEFT_TEXT_N];
} fw_peft_config;

/* DIR/adapter_config.json. Errors (FW_ERR_INPUT): it is missing (and what the folder is instead, where that shows), another
 * kind of adapter than LoRA, a key or value that finewire does not have. */
fw_status fw_peft_config_load(fw_peft_config *out, const char *dir);
/* The same of a parsed object, which stays the caller's. */
fw_status fw_peft_config_parse(fw_peft_config *out, json_t *object, const char *where);
void fw_peft_config_fini(fw_peft_config *config); /* takes a zeroed one */

/* A failure of the model to do what the request says, FW_ERR_OPTION, is one of the file's: FW_ERR_INPUT, with its name. Any
 * other status is returned as it is. */
fw_status fw_peft_config_blame(fw_status status, const fw_peft_config *config);

/* What peft would write for a request and a base (NULL: not named). *out is the caller's. Errors: FW_ERR_OPTION for a text of
 * the request that cannot be read, FW_ERR_NOMEM. */
fw_status fw_peft_config_make(json_t **out, const fw_adapter_request *request, const char *base);

#endif
