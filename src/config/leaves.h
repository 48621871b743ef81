/* A file of nested settings as a flat list: every value with its path, "zero_optimization.stage".
 *
 * For files of other programs, which nest and hold lists, where a recipe is flat. Steps of a path are joined by dots,
 * members of a list are numbered from 0 ("optimizer.params.betas.0"). Scalars keep the text they were written with; JSON's
 * true, false and numbers become texts. An empty list or map makes one leaf with the text "[]" or "{}". */
#ifndef FW_CONFIG_LEAVES_H
#define FW_CONFIG_LEAVES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

enum { FW_LEAF_PATH_BYTES = 256, FW_LEAF_MAX = 4096, FW_LEAF_DEPTH_MAX = 8 };

typedef struct fw_leaf {
    char *path, *text; /* owned; text is "" for null */
    int line;          /* 0: not known (JSON) */
    bool null;
} fw_leaf;

typedef struct fw_leaves {
    fw_leaf *leaf;
    size_t n, cap;
} fw_leaves;

void fw_leaves_fini(fw_leaves *l); /* takes a zeroed one */

/* Read a whole file's text; it must be a map. `where`: its name in messages. Errors: FW_ERR_OPTION with the line, also for
 * a key given twice, anchors, aliases, tags, more than FW_LEAF_MAX values, deeper than FW_LEAF_DEPTH_MAX; FW_ERR_NOMEM. */
fw_status fw_leaves_read_yaml(fw_leaves *l, const char *text, size_t text_bytes, const char *where);
fw_status fw_leaves_read_json(fw_leaves *l, const char *text, size_t text_bytes, const char *where);

/* For readers of YAML events. Add the node that begins with `first` (a scalar, or the start of a list or map, which is
 * read to its end) under `path`; `first` stays the caller's. */
fw_status fw_leaves_add_node(fw_leaves *l, yaml_parser_t *parser, const yaml_event_t *first, const char *path,
                             const char *where);

#endif
