#include "model/param_table.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

enum { PARAM_ALIGN = 16, PARAMS_IN_BLOCK_MAX = 16, PARAMS_IN_EDGE_MAX = 3 };

/* Builds one unit: parameters are appended at `end_n`. */
typedef struct builder {
    fw_param_table *table;
    int32_t unit;
    int64_t layer;
    int64_t end_n;
} builder;

static int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/* `joined`: starts right behind its neighbour, so that both are one matrix. cols = 0: a vector. */
static void append(builder *b, const char *suffix, int64_t rows, int64_t cols, bool joined, bool decay) {
    fw_param *p = &b->table->param[b->table->param_n++];
    int n = b->unit == 0 ? snprintf(p->name, sizeof p->name, "%s", suffix)
                         : snprintf(p->name, sizeof p->name, "model.layers.%lld.%s", (long long)b->layer, suffix);
    FW_ASSERT(n > 0 && n < FW_PARAM_NAME_BYTES);
    p->rows = rows;
    p->cols = cols;
    p->n = cols == 0 ? rows : rows * cols;
    p->unit = b->unit;
    p->offset_n = joined ? b->end_n : round_up(b->end_n, PARAM_ALIGN);
    p->trainable = true;
    p->decay = decay;
    b->end_n = p->offset_n + p->n;
    b->table->parameter_n += p->n;
}

static void finish_unit(builder *b) {
    fw_param_table *t = b->table;
    t->unit_size_n[b->unit] = round_up(b->end_n, FW_UNIT_ALIGN);
    t->unit_offset_n[b->unit] = t->total_n;
    t->total_n += t->unit_size_n[b->unit];
    t->unit_first[b->unit + 1] = t->param_n;
}

static void build_edge(fw_param_table *t, const fw_model_config *c) {
    builder b = {.table = t, .unit = 0};
    append(&b, "model.embed_tokens.weight", c->V, c->C, false, true);
    append(&b, "model.norm.weight", c->C, 0, false, false);
    if (!c->tied) append(&b, "lm_head.weight", c->V, c->C, false, true);
    finish_unit(&b);
}

static void build_block(fw_param_table *t, const fw_model_config *c, int64_t layer) {
    builder b = {.table = t, .unit = (int32_t)(1 + layer), .layer = layer};
    int64_t q = c->H * c->D, kv = c->K * c->D;
    append(&b, "input_layernorm.weight", c->C, 0, false, false);
    append(&b, "self_attn.q_proj.weight", q, c->C, false, true);
    append(&b, "self_attn.k_proj.weight", kv, c->C, true, true);
    append(&b, "self_attn.v_proj.weight", kv, c->C, true, true);
    if (c->qkv_bias) {
        append(&b, "self_attn.q_proj.bias", q, 0, false, false);
        append(&b, "self_attn.k_proj.bias", kv, 0, true, false);
        append(&b, "self_attn.v_proj.bias", kv, 0, true, false);
    }
    if (c->qk_norm) {
        append(&b, "self_attn.q_norm.weight", c->D, 0, false, false);
        append(&b, "self_attn.k_norm.weight", c->D, 0, false, false);
    }
    append(&b, "self_attn.o_proj.weight", c->C, q, false, true);
    if (c->output_bias) append(&b, "self_attn.o_proj.bias", c->C, 0, false, false);
    append(&b, "post_attention_layernorm.weight", c->C, 0, false, false);
    append(&b, "mlp.gate_proj.weight", c->F, c->C, false, true);
    append(&b, "mlp.up_proj.weight", c->F, c->C, true, true);
    if (c->mlp_bias) {
        append(&b, "mlp.gate_proj.bias", c->F, 0, false, false);
        append(&b, "mlp.up_proj.bias", c->F, 0, true, false);
    }
    append(&b, "mlp.down_proj.weight", c->C, c->F, false, true);
    if (c->mlp_bias) append(&b, "mlp.down_proj.bias", c->C, 0, false, false);
    finish_unit(&b);
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
    size_t units = (size_t)c->L + 1;
    FW_TRY_OR(FW_NEW_ARRAY(t->param, (size_t)c->L * PARAMS_IN_BLOCK_MAX + PARAMS_IN_EDGE_MAX), fail);
    FW_TRY_OR(FW_NEW_ARRAY(t->unit_size_n, units), fail);
    FW_TRY_OR(FW_NEW_ARRAY(t->unit_offset_n, units), fail);
    FW_TRY_OR(FW_NEW_ARRAY(t->unit_first, units + 1), fail);
    t->unit_n = (int32_t)units;
    build_edge(t, c);
    for (int64_t layer = 0; layer < c->L; layer++) build_block(t, c, layer);
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
