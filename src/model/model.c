#include "model/model.h"

#include <stdio.h>

/* Offset of a parameter of block 0, or -1. */
static int64_t find_in_block(const fw_param_table *table, const char *suffix) {
    char name[FW_PARAM_NAME_BYTES];
    snprintf(name, sizeof name, "model.layers.0.%s", suffix);
    const fw_param *p = fw_param_table_find(table, name);
    return p == NULL ? -1 : p->offset_n;
}

fw_status fw_model_init(fw_model *m, const fw_model_config *config, fw_dtype t) {
    *m = (fw_model){.config = *config, .t = t};
    FW_TRY(fw_param_table_init(&m->table, config));
    const fw_param_table *table = &m->table;
    m->block = (fw_block_offsets){
        .input_norm = find_in_block(table, "input_layernorm.weight"),
        .qkv = find_in_block(table, "self_attn.q_proj.weight"),
        .qkv_bias = find_in_block(table, "self_attn.q_proj.bias"),
        .q_norm = find_in_block(table, "self_attn.q_norm.weight"),
        .k_norm = find_in_block(table, "self_attn.k_norm.weight"),
        .o = find_in_block(table, "self_attn.o_proj.weight"),
        .o_bias = find_in_block(table, "self_attn.o_proj.bias"),
        .post_norm = find_in_block(table, "post_attention_layernorm.weight"),
        .gate_up = find_in_block(table, "mlp.gate_proj.weight"),
        .gate_up_bias = find_in_block(table, "mlp.gate_proj.bias"),
        .down = find_in_block(table, "mlp.down_proj.weight"),
        .down_bias = find_in_block(table, "mlp.down_proj.bias"),
    };
    m->edge.embedding = fw_param_table_find(table, "model.embed_tokens.weight")->offset_n;
    m->edge.final_norm = fw_param_table_find(table, "model.norm.weight")->offset_n;
    const fw_param *head = fw_param_table_find(table, "lm_head.weight");
    m->edge.head = head == NULL ? m->edge.embedding : head->offset_n;
    return FW_OK;
}

void fw_model_fini(fw_model *m) {
    fw_param_table_fini(&m->table);
    *m = (fw_model){0};
}
