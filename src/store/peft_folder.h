/* An adapter on disk, as huggingface/peft reads and writes it:
 *
 *   DIR/adapter_config.json          what was adapted and how (peft_config.h)
 *   DIR/adapter_model.safetensors    what was trained, in fp32 as peft keeps it:
 *       base_model.model.MODULE.lora_A.weight [r, inputs], .lora_B.weight [outputs, r], .lora_magnitude_vector [outputs] (DoRA)
 *       base_model.model.MODULE.weight or .bias            a part of the base that was trained as a whole (modules_to_save,
 *                                                          bias); of an adapted module MODULE.base_layer.bias
 *   tokenizer.json, tokenizer_config.json, chat_template.jinja, ...: copied when the base has them
 *
 * MODULE is the base's name: model.layers.0.self_attn.q_proj. */
#ifndef FW_STORE_PEFT_FOLDER_H
#define FW_STORE_PEFT_FOLDER_H

#include "store/export.h"
#include "store/model_folder.h"
#include "store/peft_config.h"

typedef struct fw_peft_folder {
    fw_peft_config config;
    fw_model_folder weights; /* read it with the table of what is trained */
} fw_peft_folder;

/* Errors (FW_ERR_INPUT): see fw_peft_config_load; adapter_model.safetensors is missing (adapter_model.bin is named with what
 * converts it); anything wrong with a file. */
fw_status fw_peft_folder_open(fw_peft_folder *out, const char *dir);
void fw_peft_folder_close(fw_peft_folder *folder); /* takes a zeroed one */

/* Every tensor of the table is in the file with its shape and as F32, BF16 or F16, and no other (but for copies that peft writes
 * and does not read). `base` for messages: the
 * model that the table was made for. Errors: FW_ERR_INPUT naming the tensor and both shapes. */
fw_status fw_peft_folder_check(const fw_peft_folder *folder, const fw_param_table *table, const char *base);

/* What a tensor of the file is. */
typedef enum fw_peft_part { FW_PEFT_A, FW_PEFT_B, FW_PEFT_MAGNITUDE, FW_PEFT_WHOLE } fw_peft_part;
enum { FW_PEFT_MODULE_BYTES = FW_PARAM_NAME_BYTES };
/* "base_model.model.MODULE.lora_A.weight" -> A and MODULE; of what was trained as a whole, `module` is its name in the
 * base's files, ".weight" or ".bias" included. Errors: FW_ERR_INPUT: a name that is neither (embedding adapters, ...). */
fw_status fw_peft_name_split(fw_peft_part *part, char module[FW_PEFT_MODULE_BYTES], const char *name,
                             const char *where);

/* What such a folder is made of, besides its numbers. */
typedef struct fw_peft_origin {
    const char *base_dir; /* the tokenizer comes from it */
    const json_t *config; /* adapter_config.json */
    const char
        *base_hash; /* 16 digits that say which weights the base has (fw_model_folder_hash), into the weights' header,
                              where peft does not look; NULL: not known */
    const char
        *base_quantization; /* "nf4 nested", ...: what the base was in while the adapter was trained; goes there too.
                                      NULL: in the type of computing */
} fw_peft_origin;
/* Write it with the table's tensors as the reader gives them. An existing DIR is treated as by fw_export_model, and so are
 * errors. The bytes depend on the origin and the values alone. */
fw_status fw_peft_folder_write(const char *dir, const fw_peft_origin *origin, const fw_param_table *table,
                               fw_param_reader reader, void *context);
/* What base_hash was; NULL: not said. Borrowed. */
const char *fw_peft_folder_base_hash(const fw_peft_folder *folder);
const char *fw_peft_folder_base_quantization(const fw_peft_folder *folder);

#endif
