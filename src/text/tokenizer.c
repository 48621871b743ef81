#include "text/tokenizer.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "text/tokenizer_parts.h"

#include <string.h>

enum { FILE_MAX_BYTES = 256 << 20 };

/* truncation and padding are about batches of the tokenizers package; who cuts documents here is the data room. */
static const char *const known_keys[] = {"version",       "truncation",     "padding", "added_tokens", "normalizer",
                                         "pre_tokenizer", "post_processor", "decoder", "model",        NULL};

static fw_status check_version(const json_t *file, const char *path) {
    const char *version;
    FW_TRY(fw_json_get_string(&version, file, "version", "1.0", path));
    if (strcmp(version, "1.0") != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"version\" is \"%.20s\"; only 1.0 is known", path, version);
    return FW_OK;
}

static fw_status read_tokenizer_json(fw_tokenizer *t, const char *path) {
    if (!fw_file_exists(path))
        return fw_fail(FW_ERR_INPUT,
                       "%s is missing; the model folder must hold a tokenizer.json as transformers saves it", path);
    json_t *file = NULL;
    fw_status status;
    FW_TRY_OR(fw_json_load(&file, path, FILE_MAX_BYTES), done);
    if (!json_is_object(file)) {
        status = fw_fail(FW_ERR_INPUT, "%s: an object is needed", path);
        goto done;
    }
    FW_TRY_OR(fw_tokenizer_check_keys(file, known_keys, "tokenizer", path), done);
    FW_TRY_OR(check_version(file, path), done);
    FW_TRY_OR(fw_tokenizer_read_normalizer(t, file, path), done);
    FW_TRY_OR(fw_tokenizer_read_pretokenizer(t, file, path), done);
    FW_TRY_OR(fw_tokenizer_read_decoder(t, file, path), done);
    FW_TRY_OR(fw_tokenizer_read_model(t, file, path), done);
    FW_TRY_OR(fw_tokenizer_read_added(t, file, path), done);
    FW_TRY_OR(fw_tokenizer_read_post_processor(t, file, path), done);
done:
    json_decref(file);
    return status;
}

/* A token of tokenizer_config.json is a string, or an object with "content". */
static fw_status config_token(int32_t *id, const fw_tokenizer *t, const json_t *config, const char *key,
                              const char *path) {
    *id = -1;
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (value == NULL || json_is_null(value)) return FW_OK;
    if (!json_is_string(value))
        return fw_tokenizer_refuse(value, key, "a token or an object with its \"content\" is needed", path);
    *id = fw_vocab_find(&t->vocab, json_string_value(value), json_string_length(value));
    if (*id < 0) return fw_tokenizer_refuse(value, key, "tokenizer.json has no such token", path);
    return FW_OK;
}

static fw_status read_config(fw_tokenizer *t, const char *path) {
    t->bos_id = t->eos_id = -1;
    if (!fw_file_exists(path)) return FW_OK;
    json_t *config = NULL;
    fw_status status;
    FW_TRY_OR(fw_json_load(&config, path, FILE_MAX_BYTES), done);
    FW_TRY_OR(config_token(&t->bos_id, t, config, "bos_token", path), done);
    FW_TRY_OR(config_token(&t->eos_id, t, config, "eos_token", path), done);
    if (json_is_true(json_object_get(config, "clean_up_tokenization_spaces")))
        fw_log_debug(
            "%s: clean_up_tokenization_spaces is not followed, as in transformers: it would take spaces out of "
            "what a BPE model wrote",
            path);
done:
    json_decref(config);
    return status;
}

static void warn_missing_bytes(const fw_tokenizer *t, const char *path) {
    int missing_n = 0;
    if (!t->takes_bytes) return;
    for (int byte = 0; byte < 0xf5; byte++) /* the bytes that occur in UTF-8 */
        missing_n += t->vocab.byte_id[byte] < 0 && byte != 0xc0 && byte != 0xc1;
    if (missing_n > 0)
        fw_log_debug("%s has no token for %d of the bytes in UTF-8; they %s", path, missing_n,
                     t->unk_id < 0 ? "vanish from the ids, as in the tokenizers package" : "become the unknown token");
}

fw_status fw_tokenizer_load(fw_tokenizer **out, const char *model_dir) {
    *out = NULL;
    fw_tokenizer *t = NULL;
    char *path = NULL, *config_path = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW(t), done);
    FW_TRY_OR(fw_path_join(&path, model_dir, "tokenizer.json"), done);
    FW_TRY_OR(fw_path_join(&config_path, model_dir, "tokenizer_config.json"), done);
    FW_TRY_OR(read_tokenizer_json(t, path), done);
    FW_TRY_OR(read_config(t, config_path), done);
    warn_missing_bytes(t, path);
    *out = t;
    t = NULL;
done:
    fw_tokenizer_destroy(t);
    fw_free(path);
    fw_free(config_path);
    return status;
}

void fw_tokenizer_destroy(fw_tokenizer *t) {
    if (t == NULL) return;
    fw_normalizer_fini(&t->norm);
    fw_pre_steps_fini(&t->pre);
    fw_decode_steps_fini(&t->decode);
    for (size_t i = 0; i < t->respelt_n; i++) fw_free(t->respelt[i].text);
    fw_free(t->respelt);
    fw_free(t->prefix);
    fw_free(t->suffix);
    fw_added_set_fini(&t->added_raw);
    fw_added_set_fini(&t->added_normalized);
    fw_vocab_fini(&t->vocab);
    fw_bpe_atoms_destroy(t->atoms);
    fw_ids_fini(&t->before);
    fw_ids_fini(&t->after);
    fw_free(t);
}

int32_t fw_tokenizer_vocab_n(const fw_tokenizer *t) { return t->vocab.id_n; }
int32_t fw_tokenizer_id(const fw_tokenizer *t, const char *token) {
    return fw_vocab_find(&t->vocab, token, strlen(token));
}
const char *fw_tokenizer_token(const fw_tokenizer *t, int32_t id) { return fw_vocab_token(&t->vocab, id); }
bool fw_tokenizer_is_special(const fw_tokenizer *t, int32_t id) {
    return id >= 0 && id < t->vocab.id_n && (t->vocab.flags[id] & FW_TOKEN_SPECIAL) != 0;
}
int32_t fw_tokenizer_bos_id(const fw_tokenizer *t) { return t->bos_id; }
int32_t fw_tokenizer_eos_id(const fw_tokenizer *t) { return t->eos_id; }

fw_status fw_ids_append(fw_ids *ids, const int32_t *id, size_t n) {
    if (ids->cap - ids->n < n) {
        size_t cap = ids->cap ? ids->cap : 64;
        while (cap - ids->n < n) cap *= 2;
        FW_TRY(FW_GROW_ARRAY(ids->id, cap));
        ids->cap = cap;
    }
    if (n) memcpy(ids->id + ids->n, id, n * sizeof *id);
    ids->n += n;
    return FW_OK;
}

fw_status fw_ids_push(fw_ids *ids, int32_t id) { return fw_ids_append(ids, &id, 1); }

void fw_ids_fini(fw_ids *ids) {
    fw_free(ids->id);
    *ids = (fw_ids){0};
}

void fw_offsets_fini(fw_offsets *offsets) {
    fw_free(offsets->offset);
    *offsets = (fw_offsets){0};
}
