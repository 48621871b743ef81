#include "store/checkpoint_tools.h"

#include "base/alloc.h"
#include "store/checkpoint_names.h"
#include "store/checkpoint_pieces.h"
#include "store/run_folder.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

fw_status fw_checkpoint_resolve(char **path, const char *given) {
    bool is_one = false;
    *path = NULL;
    if (!fw_dir_exists(given)) return fw_fail(FW_ERR_INPUT, "%s is not a folder", given);
    FW_TRY(fw_dir_has_file(&is_one, given, "manifest.json"));
    if (is_one) return fw_strdup(path, given);
    FW_TRY(fw_checkpoint_newest(path, given, INT64_MAX, false));
    if (*path != NULL) return FW_OK;
    FW_TRY(fw_checkpoint_refuse_foreign(given));
    return fw_fail(FW_ERR_INPUT, "%s is not a checkpoint (it has no manifest.json) and holds no complete one", given);
}

/* The table of what the adapter trains, in the place of the model's. */
static fw_status use_adapter(fw_checkpoint_whole *w, const char *path) {
    fw_adapter adapter = {0};
    fw_param_table frozen = {0}, trained = {0};
    fw_status status;
    FW_TRY_OR(fw_peft_config_load(&w->peft, path), done);
    FW_TRY_OR(fw_peft_config_blame(fw_adapter_resolve(&adapter, &w->peft.request, &w->config, &w->table), &w->peft),
              done);
    FW_TRY_OR(fw_adapter_tables(&adapter, &w->table, &frozen, &trained), done);
    fw_param_table_fini(&w->table);
    w->table = trained;
    trained = (fw_param_table){0};
done:
    fw_param_table_fini(&frozen);
    fw_param_table_fini(&trained);
    fw_adapter_fini(&adapter);
    return status;
}

fw_status fw_checkpoint_whole_open(fw_checkpoint_whole *w, const char *path) {
    *w = (fw_checkpoint_whole){0};
    bool adapter = false;
    fw_status status;
    FW_TRY_OR(fw_model_config_load(&w->config, path), fail);
    FW_TRY_OR(fw_param_table_init(&w->table, &w->config), fail);
    FW_TRY_OR(fw_dir_has_file(&adapter, path, "adapter_config.json"), fail);
    if (adapter) FW_TRY_OR(use_adapter(w, path), fail);
    FW_TRY_OR(fw_checkpoint_open(&w->files, path, &w->table, &w->state), fail);
    return FW_OK;
fail:
    fw_checkpoint_whole_close(w);
    return status;
}

void fw_checkpoint_whole_close(fw_checkpoint_whole *w) {
    fw_checkpoint_close(&w->files);
    fw_checkpoint_state_fini(&w->state);
    fw_param_table_fini(&w->table);
    fw_peft_config_fini(&w->peft);
}

static fw_status read_array(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                            void *out) {
    const fw_checkpoint_whole *w = context;
    return fw_checkpoint_read_values(&w->files, array, (int32_t)(p - w->table.param), first_n, n, out);
}

static fw_status read_weight(void *context, const fw_param *p, int64_t first_n, int64_t n, float *out) {
    return read_array(context, FW_CHECKPOINT_WEIGHT, p, first_n, n, out);
}

/* The weights are checked as they are read, and the small files before: what is damaged does not become a model. */
fw_status fw_checkpoint_export(const char *dir, const char *path, const fw_export_options *options, bool *adapter) {
    fw_checkpoint_whole w;
    FW_TRY(fw_export_check_target(dir, path));
    FW_TRY(fw_checkpoint_verify_with(NULL, path, FW_CHECKPOINT_SMALL_FILES));
    FW_TRY(fw_checkpoint_whole_open(&w, path));
    const fw_peft_origin origin = {path, w.peft.object, json_string_value(json_object_get(w.state.run, "weights_hash")),
                                   json_string_value(json_object_get(w.state.run, "base_quantization"))};
    fw_status status = origin.config != NULL ? fw_peft_folder_write(dir, &origin, &w.table, read_weight, &w)
                                             : fw_export_model(dir, path, &w.table, options, read_weight, &w);
    if (adapter != NULL) *adapter = origin.config != NULL;
    fw_checkpoint_whole_close(&w);
    return status;
}

/* The folder that is to hold it. The checkpoint itself may be named as well: DIR/step-00000003. */
static fw_status find_holder(char **dir, const char *given, int64_t step) {
    char *whole = NULL, *parent = NULL;
    bool is_one = false;
    fw_status status;
    FW_TRY_OR(fw_path_split(&whole, &parent, given), done);
    const char *slash = strrchr(whole, '/');
    const int64_t named = fw_checkpoint_step_of(slash == NULL ? whole : slash + 1);
    if (fw_dir_exists(whole)) FW_TRY_OR(fw_dir_has_file(&is_one, whole, "manifest.json"), done);
    if (named != step && (named >= 0 || is_one)) {
        status = fw_fail(FW_ERR_OPTION,
                         "%s %s, and the one that is read is of step %" PRId64 "; give the folder that is to hold it",
                         given, is_one ? "is a checkpoint itself" : "is the name of another checkpoint", step);
        goto done;
    }
    char **found = named == step ? &parent : &whole;
    *dir = *found;
    *found = NULL;
done:
    fw_free(whole);
    fw_free(parent);
    return status;
}

static fw_status refuse_target(const char *dir, const char *source, int64_t step, bool overwrite) {
    fw_strbuf path = {0};
    struct stat target;
    fw_status status;
    FW_TRY_OR(fw_strbuf_printf(&path, "%s/step-%08" PRId64, dir, step), done);
    if (stat(path.data, &target) != 0) goto done;
    if (fw_dir_same(path.data, source))
        status = fw_fail(FW_ERR_OPTION, "%s is the checkpoint that is read; give another --output", path.data);
    else if (!overwrite)
        status = fw_fail(FW_ERR_OPTION, "%s is there already; give another --output, or --overwrite to replace it",
                         path.data);
done:
    fw_strbuf_fini(&path);
    return status;
}

fw_status fw_checkpoint_reshard(char **out, const char *output_dir, const char *path, int place_n, bool overwrite) {
    fw_checkpoint_whole w;
    fw_output_lock lock = {.fd = -1};
    char *dir = NULL;
    fw_status status;
    *out = NULL;
    FW_TRY(fw_checkpoint_verify_with(NULL, path, FW_CHECKPOINT_SMALL_FILES));
    FW_TRY(fw_checkpoint_whole_open(&w, path));
    FW_TRY_OR(find_holder(&dir, output_dir, w.state.step), done);
    FW_TRY_OR(refuse_target(dir, path, w.state.step, overwrite), done); /* before anything is made there */
    FW_TRY_OR(fw_output_lock_take(&lock, dir), done);
    FW_TRY_OR(refuse_target(dir, path, w.state.step, overwrite), done); /* a run may have just made it */
    w.state.world_size = place_n;
    w.state.adapter = json_incref(w.peft.object);
    FW_TRY_OR(fw_checkpoint_save(out, dir, path, &w.table, place_n, read_array, &w, &w.state), done);
done:
    fw_output_lock_release(&lock);
    fw_free(dir);
    fw_checkpoint_whole_close(&w);
    return status;
}

/* ---- comparing */

typedef struct sums {
    double max, squares, before;
    int64_t moved_n;
} sums;

static void add(sums *s, const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double before = (double)a[i], d = (double)b[i] - before, size = fabs(d);
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0) s->moved_n++;
        if (!(size <= s->max)) s->max = size; /* a NaN stays */
        s->squares += d * d;
        s->before += before * before;
    }
}

typedef struct pair {
    fw_checkpoint_whole *a;
    fw_checkpoint_files b;
    float *chunk[2];
} pair;

/* Codes of 8-bit state are compared as the numbers 0 to 255. The bytes are at the end of the chunk: each is read before
 * its place is written. */
static void widen_codes(float *chunk, int64_t n) {
    const uint8_t *code = (const uint8_t *)(chunk + FW_CHECKPOINT_CHUNK_N) - n;
    for (int64_t i = 0; i < n; i++) chunk[i] = (float)code[i];
}

static fw_status read_chunk(const fw_checkpoint_files *f, int array, int32_t param, const fw_piece_tensor *t,
                            int64_t at, int64_t n, float *chunk) {
    const bool codes = t->dtype == FW_STORED_U8;
    void *to = codes ? (void *)((uint8_t *)(chunk + FW_CHECKPOINT_CHUNK_N) - n) : chunk;
    FW_TRY(fw_checkpoint_read_values(f, (fw_checkpoint_array)array, param, at, n, to));
    if (codes) widen_codes(chunk, n);
    return FW_OK;
}

static fw_status compare_tensor(pair *x, int array, int32_t param, const fw_piece_tensor *t,
                                fw_checkpoint_difference *d) {
    sums s = {0};
    for (int64_t at = 0; at < t->shape.n; at += FW_CHECKPOINT_CHUNK_N) {
        int64_t n = t->shape.n - at < FW_CHECKPOINT_CHUNK_N ? t->shape.n - at : FW_CHECKPOINT_CHUNK_N;
        FW_TRY(read_chunk(&x->a->files, array, param, t, at, n, x->chunk[0]));
        FW_TRY(read_chunk(&x->b, array, param, t, at, n, x->chunk[1]));
        add(&s, x->chunk[0], x->chunk[1], n);
    }
    d->name = t->name;
    d->n = t->shape.n;
    d->moved_n = s.moved_n;
    d->max = s.max;
    d->rms = sqrt(s.squares / (double)d->n);
    d->rms_before = sqrt(s.before / (double)d->n);
    return FW_OK;
}

fw_status fw_checkpoint_diff(const char *a, const char *b, bool moments, fw_checkpoint_difference_fn tell,
                             void *context) {
    fw_checkpoint_whole whole;
    pair x = {.a = &whole};
    fw_status status;
    FW_TRY(fw_checkpoint_whole_open(&whole, a));
    FW_TRY_OR(fw_checkpoint_open(&x.b, b, &whole.table, NULL), done);
    if (moments && x.b.optimizer != whole.files.optimizer) {
        status = fw_fail(FW_ERR_INPUT, "%s has the state of %s, %s that of %s: only their weights can be compared", a,
                         fw_optimizer_name(whole.files.optimizer), b, fw_optimizer_name(x.b.optimizer));
        goto done;
    }
    for (int k = 0; k < 2; k++) FW_TRY_OR(FW_NEW_ARRAY(x.chunk[k], FW_CHECKPOINT_CHUNK_N), done);
    for (int array = 0; array < (moments ? FW_CHECKPOINT_ARRAYS_MAX : 1); array++)
        for (int32_t i = 0; i < whole.table.param_n; i++) {
            fw_checkpoint_difference d;
            fw_piece_tensor t[FW_CHECKPOINT_ARRAYS_MAX];
            if (array >= fw_piece_tensors(t, whole.files.optimizer, &whole.table.param[i])) continue;
            FW_TRY_OR(compare_tensor(&x, array, i, &t[array], &d), done);
            FW_TRY_OR(tell(context, &d), done);
        }
done:
    for (int k = 0; k < 2; k++) fw_free(x.chunk[k]);
    fw_checkpoint_close(&x.b);
    fw_checkpoint_whole_close(&whole);
    return status;
}

/* ---- removing */

static fw_status refuse_last(const char *parent, const char *name) {
    fw_checkpoint_list list;
    FW_TRY(fw_checkpoint_list_init(&list, parent));
    const char *slash = list.entry_n == 1 ? strrchr(list.entry[0].path, '/') : NULL;
    bool last = slash != NULL && strcmp(slash + 1, name) == 0;
    fw_checkpoint_list_fini(&list);
    if (!last) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "%s/%s is the only complete checkpoint there; --force removes it all the same",
                   parent, name);
}

fw_status fw_checkpoint_remove(const char *path, bool force) {
    char *whole = NULL, *parent = NULL;
    fw_output_lock lock = {.fd = -1};
    fw_status status;
    bool ours;
    FW_TRY_OR(fw_path_split(&whole, &parent, path), done);
    char *slash = strrchr(whole, '/'), *name = slash == NULL ? whole : slash + 1;
    if (!fw_dir_exists(whole)) {
        status = fw_fail(FW_ERR_INPUT, "%s is not a folder: there is nothing to remove", path);
        goto done;
    }
    FW_TRY_OR(fw_checkpoint_is_ours(&ours, whole, name), done);
    if (!ours) {
        status = fw_fail(FW_ERR_OPTION, "%s is not a checkpoint: nothing is removed", path);
        goto done;
    }
    FW_TRY_OR(fw_output_lock_take(&lock, parent), done);
    if (!force) FW_TRY_OR(refuse_last(parent, name), done);
    FW_TRY_OR(fw_checkpoint_take_away(parent, name), done);
done:
    fw_output_lock_release(&lock);
    fw_free(parent);
    fw_free(whole);
    return status;
}
