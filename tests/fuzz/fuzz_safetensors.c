/* safetensors headers: whatever the bytes, an error or tensors that lie inside the file. */
#include "store/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fw_safetensors file;
    if (fw_safetensors_parse(&file, data, size, "fuzz") != FW_OK) return 0;
    unsigned sum = 0;
    for (size_t i = 0; i < file.tensor_n; i++) {
        const fw_stored_tensor *t = &file.tensor[i];
        for (size_t k = 0; k < t->bytes; k++) sum += data[t->offset_bytes + k]; /* every byte is readable */
        if (fw_safetensors_find(&file, t->name) != t) abort();
        if (t->n == 0 || t->n > 4096) continue;
        float values[4096];
        if (fw_safetensors_read_f32(values, &file, t, 0, t->n) == FW_OK && values[0] > 0) sum++;
    }
    fw_safetensors_close(&file);
    return sum == 0xffffffffu ? 1 : 0;
}
