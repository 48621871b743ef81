/* What a tokenised data set is known by: everything that changes a token of it. */
#include "base/alloc.h"
#include "base/hash.h"
#include "data/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The files of a model folder that say how text becomes tokens. */
static const char *const model_files[] = {"tokenizer.json",     "tokenizer_config.json",   "chat_template.jinja",
                                          "chat_template.json", "special_tokens_map.json", "added_tokens.json"};

/* Two hashes of the same text that differ in what comes before: 128 bits. */
typedef struct keying {
    fw_hash hash[2];
} keying;

static void feed(keying *k, const void *bytes, size_t n_bytes) {
    const uint64_t n = n_bytes; /* lengths too: "ab" "c" is not "a" "bc" */
    for (int i = 0; i < 2; i++) {
        fw_hash_update(&k->hash[i], &n, sizeof n);
        fw_hash_update(&k->hash[i], bytes, n_bytes);
    }
}

static void feed_text(keying *k, const char *text) {
    feed(k, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}
static void feed_i64(keying *k, int64_t value) { feed(k, &value, sizeof value); }

/* The two hashes go over all bytes of the file, which stay in memory only for the moment. */
static fw_status feed_file(keying *k, const char *path, int (*stop)(void)) {
    enum { PIECE_BYTES = 4 << 20 };
    fw_mapping m;
    FW_TRY(fw_file_map(&m, path));
    feed_i64(k, (int64_t)m.bytes);
    fw_status status = FW_OK;
    for (size_t at = 0; at < m.bytes && status == FW_OK; at += PIECE_BYTES) {
        size_t n = m.bytes - at < PIECE_BYTES ? m.bytes - at : PIECE_BYTES;
        for (int i = 0; i < 2; i++) fw_hash_update(&k->hash[i], m.data + at, n);
        fw_file_unmap_pages(&m, at, n);
        status = fw_dataset_check_stop(stop);
    }
    fw_file_unmap(&m);
    return status;
}

/* Another build of this program may make other tokens. */
static void feed_program(keying *k) {
    struct stat info;
    feed_text(k, FW_VERSION);
    if (stat("/proc/self/exe", &info) != 0) return;
    feed_i64(k, info.st_size);
    feed_i64(k, info.st_mtim.tv_sec);
    feed_i64(k, info.st_mtim.tv_nsec);
}

static fw_status feed_model(keying *k, const char *dir) {
    for (size_t i = 0; dir != NULL && i < sizeof model_files / sizeof *model_files; i++) {
        char *path;
        FW_TRY(fw_path_join(&path, dir, model_files[i]));
        fw_status status = FW_OK;
        feed_i64(k, fw_file_exists(path));
        if (fw_file_exists(path)) status = feed_file(k, path, NULL);
        fw_free(path);
        FW_TRY(status);
    }
    return FW_OK;
}

fw_status fw_cache_find_key(fw_cache_key *out, const fw_sources *sources, const fw_chat_template *chat,
                            const fw_dataset_options *o, const fw_cache_options *cache) {
    keying k;
    for (int i = 0; i < 2; i++) {
        fw_hash_init(&k.hash[i]);
        fw_hash_update(&k.hash[i], i == 0 ? "finewire" : "data set", 8);
    }
    feed_program(&k);
    const int64_t numbers[] = {
        o->max_length, o->truncation, o->vocab_size, o->reader.shape, o->reader.rows.text_unit, sources->max_samples};
    feed(&k, numbers, sizeof numbers);
    feed(&k, &o->labels, sizeof o->labels);
    feed_i64(&k, chat != NULL ? (int64_t)chat->settings_hash : 0);
    feed_text(&k, o->reader.rows.text_field);
    feed_text(&k, cache->extra);
    FW_TRY(feed_model(&k, cache->model_dir));
    for (int32_t s = 0; s < sources->set_n; s++) {
        feed_i64(&k, sources->set[s].last - sources->set[s].first);
        for (int32_t i = sources->set[s].first; i < sources->set[s].last; i++) {
            feed_text(&k, sources->path[i]); /* reports name it */
            FW_TRY(feed_file(&k, sources->path[i], o->stop));
        }
    }
    for (int i = 0; i < 2; i++) out->word[i] = fw_hash_value(&k.hash[i]);
    return FW_OK;
}
