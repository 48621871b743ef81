/* Texts that name modules of a model, as PEFT's options have them: lists, maps with a number each, regular expressions. */
#ifndef FW_MODEL_MODULE_NAMES_H
#define FW_MODEL_MODULE_NAMES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_module_names {
    char **name;
    double *value; /* of a map; 1 in a list */
    int n;
} fw_module_names;

enum { FW_MODULE_NAMES_MAX = 4096 };

/* "q_proj,v_proj", "q_proj v_proj" or ["q_proj", "v_proj"]; a number in a JSON list counts by its text. NULL or empty: none.
 * `option`: its name in messages. Errors: FW_ERR_OPTION, FW_ERR_NOMEM. */
fw_status fw_module_names_read_list(fw_module_names *out, const char *text, const char *option);
/* {"q_proj": 8, "up_proj": 4} or "q_proj=8,up_proj=4". */
fw_status fw_module_names_read_map(fw_module_names *out, const char *text, const char *option);
void fw_module_names_fini(fw_module_names *names); /* takes a zeroed one */

/* Has the text signs that no module's name has? Then it is one regular expression. */
bool fw_module_is_pattern(const char *text);

/* `path` ends with `name`, at its start or behind a dot: "q_proj" and "self_attn.q_proj" of "model.layers.0.self_attn.q_proj". */
bool fw_module_has_name(const char *path, const char *name);

/* *matches = pattern is all of the path or, with `behind_dots`, all of what follows the start or one of its dots. Patterns are
 * PCRE2's, which have what Python's have. Errors: FW_ERR_OPTION for one that cannot be read, FW_ERR_NOMEM. */
fw_status fw_module_matches(bool *matches, const char *path, const char *pattern, bool behind_dots, const char *option);

#endif
