/* The shape of a model: what config.json of a Hugging Face folder says, checked.
 *
 * Supported: Qwen2/2.5, Qwen3 (dense), Llama 2/3.x, SmolLM2 (a Llama), Mistral without sliding window. Both
 * generations of config.json are read: rope_theta / rope_scaling / torch_dtype, and rope_parameters / dtype.
 * Whatever would make the numbers wrong is refused by the name of its key, before any weight is read. */
#ifndef FW_MODEL_MODEL_CONFIG_H
#define FW_MODEL_MODEL_CONFIG_H

#include "base/json.h"
#include "base/status.h"
#include "quant/quant.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum fw_architecture {
    FW_ARCH_LLAMA,
    FW_ARCH_QWEN2,
    FW_ARCH_QWEN3,
    FW_ARCH_MISTRAL,
    FW_ARCH_N
} fw_architecture;

typedef enum fw_rope_kind { FW_ROPE_DEFAULT, FW_ROPE_LINEAR, FW_ROPE_LLAMA3 } fw_rope_kind;

typedef struct fw_rope_config {
    fw_rope_kind kind;
    double theta;
    double factor;                            /* linear and llama3 */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_max_position;             /* llama3 */
} fw_rope_config;

typedef struct fw_model_config {
    fw_architecture architecture;
    int64_t C; /* hidden_size */
    int64_t L; /* num_hidden_layers */
    int64_t H; /* num_attention_heads */
    int64_t K; /* num_key_value_heads */
    int64_t D; /* head_dim; need not be C / H */
    int64_t F; /* intermediate_size */
    int64_t V; /* vocab_size */
    int64_t max_position;
    float rms_eps;
    bool qkv_bias;    /* Qwen2; Llama and Qwen3 with attention_bias */
    bool output_bias; /* Llama and Qwen3 with attention_bias: the output projection has one as well */
    bool mlp_bias;    /* Llama only */
    bool qk_norm;     /* Qwen3 */
    bool tied;        /* tie_word_embeddings: the head is the embedding */
    fw_rope_config rope;
    /* Its matrices are in 4 bits as bitsandbytes has them: what config.json says, which the files may not. */
    bool is_packed;
    fw_quant_kind packed_kind;
    bool packed_nested;
} fw_model_config;

/* Read DIR/config.json. Errors: FW_ERR_INPUT naming file, key and value. */
fw_status fw_model_config_load(fw_model_config *out, const char *dir);
/* The same from a parsed object; `where` is what messages call it. */
fw_status fw_model_config_parse(fw_model_config *out, const json_t *object, const char *where);
/* "LlamaForCausalLM", "LlamaDecoderLayer", "llama". */
const char *fw_architecture_class(fw_architecture architecture);
const char *fw_architecture_layer_class(fw_architecture architecture);
const char *fw_architecture_model_type(fw_architecture architecture);

#endif
