#include "model/model.h"

#include "base/alloc.h"

#include <stddef.h>
#include <string.h>

/* ---- where things lie: every parameter of the tables is put into its place */

static void place_linear(fw_linear_place *l, const fw_param *p, bool is_bias, bool trained) {
    switch (p->kind) {
    case FW_PARAM_LORA_A: l->a = p->offset_n; return;
    case FW_PARAM_LORA_B: l->b = p->offset_n; return;
    case FW_PARAM_MAGNITUDE: l->magnitude = p->offset_n; return;
    case FW_PARAM_BASE:
    case FW_PARAM_TIED_HEAD: *(is_bias ? &l->bias : &l->weight) = (fw_place){p->offset_n, trained};
    }
}

static void place_in_block(fw_block_places *b, const fw_param *p, const char *name, bool trained) {
    static const struct {
        const char *suffix;
        size_t offset;
    } norms[] = {{".input_layernorm.weight", offsetof(fw_block_places, input_norm)},
                 {".self_attn.q_norm.weight", offsetof(fw_block_places, q_norm)},
                 {".self_attn.k_norm.weight", offsetof(fw_block_places, k_norm)},
                 {".post_attention_layernorm.weight", offsetof(fw_block_places, post_norm)}};
    const fw_linear linear = fw_linear_of_name(name);
    if (linear < FW_LINEAR_N) {
        place_linear(&b->linear[linear], p, strcmp(strrchr(name, '.'), ".bias") == 0, trained);
        return;
    }
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++)
        if (strstr(name, norms[i].suffix) != NULL)
            *(fw_place *)(void *)((char *)b + norms[i].offset) = (fw_place){p->offset_n, trained};
}

/* Frozen parameters come first, so that a trained copy takes the place of its original. The head of a tied model stays at
 * the embedding that is not trained, if there is one. */
static void place_in_edge(fw_model *m, const fw_param *p, const char *name, bool trained) {
    const fw_place place = {p->offset_n, trained};
    if (p->kind == FW_PARAM_TIED_HEAD || strcmp(name, "lm_head.weight") == 0)
        m->edge.head = place;
    else if (strcmp(name, "model.norm.weight") == 0)
        m->edge.final_norm = place;
    else {
        m->edge.embedding = place;
        if (m->edge.head.at_n < 0) m->edge.head = place;
    }
}

static void place_all(fw_model *m, const fw_param_table *t, bool trained) {
    for (int32_t i = 0; i < t->param_n; i++) {
        const fw_param *p = &t->param[i];
        const char *name = m->table.param[p->base].name;
        if (p->unit == 0)
            place_in_edge(m, p, name, trained);
        else
            place_in_block(&m->block[p->unit - 1], p, name, trained);
    }
}

static void start_places(fw_model *m) {
    const fw_place none = {.at_n = -1};
    m->edge = (fw_edge_places){none, none, none};
    for (int64_t l = 0; l < m->config.L; l++) {
        fw_block_places *b = &m->block[l];
        *b = (fw_block_places){.input_norm = none, .q_norm = none, .k_norm = none, .post_norm = none};
        for (int i = 0; i < FW_LINEAR_N; i++) {
            fw_linear_place *p = &b->linear[i];
            *p = (fw_linear_place){.weight = none, .bias = none, .a = -1, .b = -1, .magnitude = -1};
            fw_linear_shape(&m->config, (fw_linear)i, &p->O, &p->I);
            if (!m->adapted) continue;
            p->r = fw_adapter_linear(&m->adapter, l, (fw_linear)i)->r;
            p->scale = fw_adapter_linear(&m->adapter, l, (fw_linear)i)->scale;
        }
    }
}

/* ---- how far down backward goes */

static fw_block_part later(fw_block_part a, fw_block_part b) { return a > b ? a : b; }

static fw_block_part trained_norm(fw_place norm, fw_block_part part) {
    return norm.trained && norm.at_n >= 0 ? part : FW_BLOCK_NONE;
}

/* The last part that backward meets of those with something to train. */
static fw_block_part last_trained(const fw_block_places *b) {
    static const fw_block_part part[FW_LINEAR_N] = {
        [FW_LINEAR_Q] = FW_BLOCK_QKV,    [FW_LINEAR_K] = FW_BLOCK_QKV,        [FW_LINEAR_V] = FW_BLOCK_QKV,
        [FW_LINEAR_O] = FW_BLOCK_O,      [FW_LINEAR_GATE] = FW_BLOCK_GATE_UP, [FW_LINEAR_UP] = FW_BLOCK_GATE_UP,
        [FW_LINEAR_DOWN] = FW_BLOCK_DOWN};
    fw_block_part last =
        later(trained_norm(b->input_norm, FW_BLOCK_INPUT_NORM), trained_norm(b->post_norm, FW_BLOCK_POST_NORM));
    last = later(last, later(trained_norm(b->q_norm, FW_BLOCK_QKV), trained_norm(b->k_norm, FW_BLOCK_QKV)));
    for (int i = 0; i < FW_LINEAR_N; i++) {
        const fw_linear_place *l = &b->linear[i];
        if (l->r > 0 || l->weight.trained || (l->bias.trained && l->bias.at_n >= 0)) last = later(last, part[i]);
    }
    return last;
}

static void find_reach(fw_model *m) {
    bool below = m->edge.embedding.trained;
    for (int64_t l = 0; l < m->config.L; l++) {
        m->block[l].reach = below ? FW_BLOCK_BELOW : last_trained(&m->block[l]);
        below = below || m->block[l].reach > FW_BLOCK_NONE;
    }
}

fw_status fw_model_init_adapted(fw_model *m, const fw_model_config *config, fw_dtype t,
                                const fw_adapter_request *adapter) {
    *m = (fw_model){.config = *config, .t = t, .adapted = adapter != NULL};
    fw_status status;
    FW_TRY_OR(fw_param_table_init(&m->table, config), fail);
    FW_TRY_OR(FW_NEW_ARRAY(m->block, (size_t)config->L), fail);
    if (m->adapted) {
        FW_TRY_OR(fw_adapter_resolve(&m->adapter, adapter, config, &m->table), fail);
        FW_TRY_OR(fw_adapter_tables(&m->adapter, &m->table, &m->frozen, &m->trained), fail);
    }
    start_places(m);
    if (m->adapted) place_all(m, &m->frozen, false);
    place_all(m, fw_model_trained(m), true);
    find_reach(m);
    return FW_OK;
fail:
    fw_model_fini(m);
    return status;
}

fw_status fw_model_init(fw_model *m, const fw_model_config *config, fw_dtype t) {
    return fw_model_init_adapted(m, config, t, NULL);
}

void fw_model_fini(fw_model *m) {
    fw_param_table_fini(&m->table);
    fw_param_table_fini(&m->frozen);
    fw_param_table_fini(&m->trained);
    fw_adapter_fini(&m->adapter);
    fw_free(m->block);
    *m = (fw_model){0};
}
