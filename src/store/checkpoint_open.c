/* Opening a checkpoint: everything but the bytes of tensors is looked at. checkpoint_read.c reads those. */
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/plural.h"
#include "store/checkpoint_verify.h"
#include "store/manifest.h"
#include "store/manifest_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Every tensor of the table, and no other. */
static fw_status find_wanted(fw_checkpoint_files *f, const char *path) {
    size_t want_n = 0;
    FW_TRY(FW_NEW_ARRAY(f->wanted, (size_t)f->table->param_n * FW_CHECKPOINT_ARRAYS_MAX));
    for (int32_t i = 0; i < f->table->param_n; i++) {
        fw_piece_tensor tensor[FW_CHECKPOINT_ARRAYS_MAX];
        const int n = fw_piece_tensors(tensor, f->optimizer, &f->table->param[i]);
        want_n += (size_t)n;
        for (int k = 0; k < n; k++) {
            const fw_param *p = &tensor[k].shape;
            const fw_manifest_tensor *t = fw_manifest_find(f->index, tensor[k].name);
            if (t == NULL || t->rank != (p->cols == 0 ? 1 : 2) || t->shape[0] != p->rows ||
                (t->rank == 2 && t->shape[1] != p->cols))
                return fw_fail(FW_ERR_INPUT, "%s: tensor %s is %s: the checkpoint is of another model", path,
                               tensor[k].name, t == NULL ? "missing" : "of another shape");
            if (t->dtype != tensor[k].dtype)
                return fw_fail(FW_ERR_INPUT, "%s: tensor %s is %s, not %s", path, t->name,
                               fw_stored_dtype_name(t->dtype), fw_stored_dtype_name(tensor[k].dtype));
            f->wanted[i * FW_CHECKPOINT_ARRAYS_MAX + k] = t;
        }
    }
    if (f->index->tensor_n == want_n) return FW_OK;
    return fw_fail(FW_ERR_INPUT,
                   "%s has %zu tensor%s, the model with its optimizer state %zu: the checkpoint is of another model",
                   path, f->index->tensor_n, fw_plural((int64_t)f->index->tensor_n), want_n);
}

fw_status fw_checkpoint_open(fw_checkpoint_files *f, const char *path, const fw_param_table *table,
                             fw_checkpoint_state *state) {
    *f = (fw_checkpoint_files){.table = table};
    fw_checkpoint_state found = {0};
    json_t *manifest = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW(f->index), done);
    FW_TRY_OR(fw_manifest_load(&manifest, path), done);
    FW_TRY_OR(fw_manifest_state(&found, manifest, path), done);
    f->optimizer = found.optimizer;
    FW_TRY_OR(fw_manifest_index_init(f->index, manifest, path), done);
    FW_TRY_OR(find_wanted(f, path), done);
    FW_TRY_OR(fw_verify_open_files(&f->file, &f->fd, f->index, path), done);
    FW_TRY_OR(fw_verify_headers(f->index, f->file), done);
    if (state != NULL) {
        *state = found;
        found = (fw_checkpoint_state){0};
    }
done:
    json_decref(manifest);
    fw_checkpoint_state_fini(&found);
    if (status != FW_OK) fw_checkpoint_close(f);
    return status;
}

void fw_checkpoint_close(fw_checkpoint_files *f) {
    if (f->index != NULL) {
        fw_verify_close_files(f->file, f->fd, f->index->file_n);
        fw_manifest_index_fini(f->index);
    }
    fw_free(f->index);
    fw_free(f->wanted);
    *f = (fw_checkpoint_files){0};
}

fw_status fw_checkpoint_load_state(fw_checkpoint_state *state, const char *path) {
    json_t *manifest = NULL;
    FW_TRY(fw_manifest_load(&manifest, path));
    fw_status status = fw_manifest_state(state, manifest, path);
    json_decref(manifest);
    return status;
}
