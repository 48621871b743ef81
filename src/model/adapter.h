/* Adapters: what a request in PEFT's words means for a model (LoRA: Hu and others 2021; rsLoRA: Kalajdzievski 2023;
 * DoRA: Liu and others 2024).
 *
 * The model's own weights are *frozen*: they have no gradient and no state. Beside them are *trained*:
 *
 *   A [r, I], B [O, r]   of a linear module W [O, I]:  y = W x + b + s B (A dropout(x))    s = alpha / r; rsLoRA: / sqrt(r)
 *   magnitude m [O]      with DoRA:  y = b + m / |W + s B A|_row * (W + s B A) x    the norm counts as constant
 *   whole modules        named by modules_to_save; a tied embedding or head then has a copy of its own
 *   biases               of all modules, or of those with an adapter (bias)
 *
 * From the request and the model's table come two tables with the same units: fw_model has them (model/model.h). The
 * names of trained parameters are those of adapter_model.safetensors, as peft 0.21 writes it:
 * "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". */
#ifndef FW_MODEL_ADAPTER_H
#define FW_MODEL_ADAPTER_H

#include "model/param_table.h"

/* Linear modules of a block, in the order of their rows in packed outputs. */
typedef enum fw_linear {
    FW_LINEAR_Q,
    FW_LINEAR_K,
    FW_LINEAR_V,
    FW_LINEAR_O,
    FW_LINEAR_GATE,
    FW_LINEAR_UP,
    FW_LINEAR_DOWN,
    FW_LINEAR_N
} fw_linear;
/* "self_attn.q_proj" */
const char *fw_linear_name(fw_linear linear);
/* Of the module's weight [*rows, *cols]. */
void fw_linear_shape(const fw_model_config *config, fw_linear linear, int64_t *rows, int64_t *cols);

typedef enum fw_adapter_bias { FW_ADAPTER_BIAS_NONE, FW_ADAPTER_BIAS_ALL, FW_ADAPTER_BIAS_LORA_ONLY } fw_adapter_bias;

typedef enum fw_adapter_init {
    FW_ADAPTER_INIT_DEFAULT,  /* A uniform in +-1 / sqrt(I) (Kaiming with a = sqrt 5), B zero */
    FW_ADAPTER_INIT_GAUSSIAN, /* A normal with deviation 1 / r, B zero */
    FW_ADAPTER_INIT_RANDOM    /* A as by default, B uniform in +-1 / sqrt(r): not the base model at the start */
} fw_adapter_init;

/* As a user or an adapter_config.json has it; texts are borrowed, for as long as the resolved adapter lives. */
typedef struct fw_adapter_request {
    int64_t r;
    double alpha, dropout;
    /* "all-linear"; names of modules or the ends of their paths, "q_proj,v_proj" or ["q_proj", "v_proj"]; or, when it has
     * signs that no name has, one regular expression for whole paths ("model.layers.0.self_attn.q_proj"). */
    const char *target_modules;
    /* Modules that get no adapter though they are targets: names or one expression, in the same ways; NULL: none. */
    const char *exclude_modules;
    const char *modules_to_save;              /* names in the same two ways; NULL: none */
    const char *layers_to_transform;          /* "0,1,5" or "[0, 1, 5]"; NULL: all */
    const char *rank_pattern, *alpha_pattern; /* {"q_proj": 8, "layers.0.mlp.up_proj": 4}; NULL: none */
    bool rslora, dora;
    fw_adapter_bias bias;
    fw_adapter_init init;
    /* Of a folder, not of a user: as in PEFT, names that only other models have count for nothing, where otherwise a slip of
     * the pen would. What is then expected of the folder's tensors follows from the rest. */
    bool passes_unknown;
} fw_adapter_request;

typedef struct fw_adapted_linear {
    int64_t r; /* 0: no adapter */
    double alpha;
    float scale; /* s */
} fw_adapted_linear;

typedef struct fw_adapter {
    fw_adapter_request request;
    fw_adapted_linear *linear; /* fw_adapter_linear finds one */
    bool *whole;               /* by parameter of the model's table: trained as it is */
    bool tied_head;            /* a tied model's head is trained apart from its embedding */
    char passed[96]; /* with passes_unknown: the first name of a pattern or of modules_to_save that served nothing */
} fw_adapter;

/* Errors: FW_ERR_OPTION for a name that no module has (with the nearest one), for what cannot be trained (by name), and
 * for texts that cannot be read; FW_ERR_NOMEM. The adapter needs fini whatever the result. */
fw_status fw_adapter_resolve(fw_adapter *out, const fw_adapter_request *request, const fw_model_config *config,
                             const fw_param_table *base);
void fw_adapter_fini(fw_adapter *adapter); /* takes a zeroed one */

static inline const fw_adapted_linear *fw_adapter_linear(const fw_adapter *a, int64_t layer, fw_linear linear) {
    return &a->linear[layer * FW_LINEAR_N + linear];
}
/* The module whose weight, bias, A, B or magnitude a parameter of `base` or of the trained table is, by the name of the
 * base's parameter; FW_LINEAR_N when it is another's. */
fw_linear fw_linear_of_name(const char *base_name);

/* The two tables. Errors: FW_ERR_NOMEM; both need fini whatever the result. */
fw_status fw_adapter_tables(const fw_adapter *adapter, const fw_param_table *base, fw_param_table *frozen,
                            fw_param_table *trained);

/* Initial values of a parameter of the kinds LORA_A and LORA_B, elements [first_n, first_n + n): a function of seed, name
 * and element, so the same on every rank and for any number of ranks. */
void fw_adapter_fill_initial(const fw_adapter *adapter, const fw_param *p, uint64_t seed, int64_t first_n, int64_t n,
                             float *out);

#endif
