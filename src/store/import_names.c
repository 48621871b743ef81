/* Which GGUF tensor a Hugging Face parameter is. */
#include "store/import_parts.h"

#include "base/alloc.h"
#include "store/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The middle of "model.layers.N.<here>.weight" and of "blk.N.<here>.weight". */
static const char *const block_names[][2] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

static const char *const edge_names[][2] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

/* The name in the file; false when there is no rule for it. */
static bool gguf_name(char out[FW_PARAM_NAME_BYTES], const char *name) {
    for (size_t i = 0; i < sizeof edge_names / sizeof *edge_names; i++)
        if (strcmp(name, edge_names[i][0]) == 0) {
            snprintf(out, FW_PARAM_NAME_BYTES, "%s", edge_names[i][1]);
            return true;
        }
    int layer, used = 0;
    if (sscanf(name, "model.layers.%d.%n", &layer, &used) != 1 || used == 0) return false;
    const char *rest = name + used, *dot = strrchr(rest, '.');
    if (dot == NULL) return false;
    for (size_t i = 0; i < sizeof block_names / sizeof *block_names; i++)
        if (strlen(block_names[i][0]) == (size_t)(dot - rest) &&
            memcmp(rest, block_names[i][0], (size_t)(dot - rest)) == 0) {
            snprintf(out, FW_PARAM_NAME_BYTES, "blk.%d.%s%s", layer, block_names[i][1], dot);
            return true;
        }
    return false;
}

fw_status fw_import_find_tensor(const fw_gguf_tensor **out, const fw_gguf *file, const fw_param *param) {
    char name[FW_PARAM_NAME_BYTES];
    if (!gguf_name(name, param->name)) return fw_fail(FW_ERR_INTERNAL, "no GGUF name for %s", param->name);
    const fw_gguf_tensor *t = fw_gguf_find_tensor(file, name);
    if (t == NULL) return fw_fail(FW_ERR_INPUT, "%s: tensor %s is missing", file->path, name);
    int64_t shape[2] = {param->rows, param->cols};
    int rank = param->cols == 0 ? 1 : 2;
    if (t->rank != rank || t->shape[0] != shape[0] || (rank == 2 && t->shape[1] != shape[1])) {
        char found[200], want[64];
        fw_stored_shape_text(found, sizeof found, t->shape, t->rank);
        fw_stored_shape_text(want, sizeof want, shape, rank);
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s has shape %s; the sizes in the file's keys ask for %s", file->path,
                       name, found, want);
    }
    *out = t;
    return FW_OK;
}

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

fw_status fw_import_check_extra(const fw_gguf *file, const fw_param_table *table) {
    if (file->tensor_n <= (size_t)table->param_n && fw_gguf_find_tensor(file, "rope_freqs.weight") == NULL)
        return FW_OK; /* every parameter has its tensor (fw_import_find_tensor): there can be no other */
    char(*known)[FW_PARAM_NAME_BYTES];
    FW_TRY(fw_calloc((void **)&known, (size_t)table->param_n, sizeof *known));
    for (int32_t i = 0; i < table->param_n; i++) gguf_name(known[i], table->param[i].name);
    qsort(known, (size_t)table->param_n, sizeof *known, compare_names);
    fw_status status = FW_OK;
    for (size_t i = 0; i < file->tensor_n && status == FW_OK; i++) {
        const char *name = file->tensor[i].name;
        if (strcmp(name, "rope_freqs.weight") != 0 &&
            (strlen(name) >= FW_PARAM_NAME_BYTES ||
             bsearch(name, known, (size_t)table->param_n, sizeof *known, compare_names) == NULL))
            status =
                fw_fail(FW_ERR_INPUT, "%s: tensor %s is not part of a model of this architecture", file->path, name);
    }
    fw_free(known);
    return status;
}
