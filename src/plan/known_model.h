/* Which model: a folder, its config.json, or the name of a model whose shape is known here (known_model.def). */
#ifndef FW_PLAN_KNOWN_MODEL_H
#define FW_PLAN_KNOWN_MODEL_H

#include "model/model_config.h"

/* Errors: FW_ERR_OPTION with the nearest known name when `text` is neither a path nor a name; FW_ERR_INPUT for what is in
 * the file. */
fw_status fw_known_model_config(fw_model_config *out, const char *text);
/* The shape of a name, with or without the owner before the slash, whatever the case and the ending (-Instruct); false
 * when unknown. */
bool fw_known_model_find(fw_model_config *out, const char *name);
/* The i-th name; NULL after the last. */
const char *fw_known_model_name(int i);

#endif
