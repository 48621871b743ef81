/* Make a Hugging Face model folder from a GGUF file.
 *
 * Architectures llama (Llama 2/3, SmolLM2, Mistral), qwen2, qwen3; byte-level BPE tokenizers (tokenizer.ggml.model =
 * gpt2). Written: config.json, model.safetensors, tokenizer.json, tokenizer_config.json (with the chat template) and
 * generation_config.json. Everything else is refused by name. */
#ifndef FW_STORE_IMPORT_H
#define FW_STORE_IMPORT_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_import_report {
    char architecture[32];
    char source_types[128]; /* "Q4_K 156, Q6_K 13, F32 61": tensors of each type */
    fw_dtype dtype;         /* of the weights written */
    int64_t parameter_n;
    int64_t vocab_n;
    bool chat_template; /* the file has one */
} fw_import_report;

/* max_shard_bytes: 0 for 5 GB. overwrite: replace an existing output_dir that finewire wrote. Errors: FW_ERR_INPUT
 * naming file and value, FW_ERR_OPTION (the folder exists), FW_ERR_IO. On failure nothing is left behind. report may be
 * NULL. */
fw_status fw_import_gguf(const char *gguf_path, const char *output_dir, bool overwrite, uint64_t max_shard_bytes,
                         fw_import_report *report);

#endif
