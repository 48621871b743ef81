#include "model/param_table.h"

#include "base/alloc.h"
#include "model/param_builder.h"

#include <stdio.h>
#include <string.h>

enum { PARAMS_IN_BLOCK_MAX = 16, PARAMS_IN_EDGE_MAX = 3 };

/* cols = 0: a vector. */
static void append(fw_param_builder *b, const char *suffix, int64_t rows, int64_t cols, bool joined, bool decay) {
    fw_param p = {.base = b->table->param_n, .rows = rows, .cols = cols, .joined = joined, .decay = decay};
    int n = b->unit == 0 ? snprintf(p.name, sizeof p.name, "%s", suffix)
                         : snprintf(p.name, sizeof p.name, "model.layers.%d.%s", b->unit - 1, suffix);
    FW_ASSERT(n > 0 && n < FW_PARAM_NAME_BYTES);
    fw_param_builder_append(b, &p);
}

static void build_edge(fw_param_builder *b, const fw_model_config *c) {
    append(b, "model.embed_tokens.weight", c->V, c->C, false, true);
    append(b, "model.norm.weight", c->C, 0, false, false);
    if (!c->tied) append(b, "lm_head.weight", c->V, c->C, false, true);
    fw_param_builder_end_unit(b);
}

static void build_block(fw_param_builder *b, const fw_model_config *c) {
    int64_t q = c->H * c->D, kv = c->K * c->D;
    append(b, "input_layernorm.weight", c->C, 0, false, false);
    append(b, "self_attn.q_proj.weight", q, c->C, false, true);
    append(b, "self_attn.k_proj.weight", kv, c->C, true, true);
    append(b, "self_attn.v_proj.weight", kv, c->C, true, true);
    if (c->qkv_bias) {
        append(b, "self_attn.q_proj.bias", q, 0, false, false);
        append(b, "self_attn.k_proj.bias", kv, 0, true, false);
        append(b, "self_attn.v_proj.bias", kv, 0, true, false);
    }
    if (c->qk_norm) {
        append(b, "self_attn.q_norm.weight", c->D, 0, false, false);
        append(b, "self_attn.k_norm.weight", c->D, 0, false, false);
    }
    append(b, "self_attn.o_proj.weight", c->C, q, false, true);
    if (c->output_bias) append(b, "self_attn.o_proj.bias", c->C, 0, false, false);
    append(b, "post_attention_layernorm.weight", c->C, 0, false, false);
    append(b, "mlp.gate_proj.weight", c->F, c->C, false, true);
    append(b, "mlp.up_proj.weight", c->F, c->C, true, true);
    if (c->mlp_bias) {
        append(b, "mlp.gate_proj.bias", c->F, 0, false, false);
        append(b, "mlp.up_proj.bias", c->F, 0, true, false);
    }
    append(b, "mlp.down_proj.weight", c->C, c->F, false, true);
    if (c->mlp_bias) append(b, "mlp.down_proj.bias", c->C, 0, false, false);
    fw_param_builder_end_unit(b);
}

/* The sizes are bounded one by one when config.json is read; their product must still fit into int64 bytes. */
static fw_status check_total(const fw_model_config *c) {
    double block = (double)c->C * (double)(2 * (c->H + c->K) * c->D + 3 * c->F);
    double total = (double)c->L * block + 2.0 * (double)c->V * (double)c->C;
    if (total > 1e14)
        return fw_fail(FW_ERR_INPUT, "config.json describes a model of %.3g parameters: beyond any that exists", total);
    return FW_OK;
}

fw_status fw_param_table_init(fw_param_table *t, const fw_model_config *c) {
    *t = (fw_param_table){0};
    FW_TRY(check_total(c));
    fw_status status;
    fw_param_builder b;
    FW_TRY_OR(fw_param_builder_start(&b, t, (int32_t)c->L + 1, c->L * PARAMS_IN_BLOCK_MAX + PARAMS_IN_EDGE_MAX), fail);
    build_edge(&b, c);
    for (int64_t layer = 0; layer < c->L; layer++) build_block(&b, c);
    return FW_OK;
fail:
    fw_param_table_fini(t);
    return status;
}

void fw_param_table_fini(fw_param_table *t) {
    fw_free(t->param);
    fw_free(t->unit_size_n);
    fw_free(t->unit_offset_n);
    fw_free(t->unit_first);
    *t = (fw_param_table){0};
}

const fw_param *fw_param_table_find(const fw_param_table *t, const char *name) {
    for (int32_t i = 0; i < t->param_n; i++)
        if (strcmp(t->param[i].name, name) == 0) return &t->param[i];
    return NULL;
}
