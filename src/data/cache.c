#include "data/cache.h"

#include "base/alloc.h"
#include "base/log.h"
#include "data/cache_format.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

fw_status fw_cache_find_dir(char **out, const fw_cache_options *cache) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *out = NULL;
    if (cache->dir != NULL) return fw_strdup(out, cache->dir);
    if (xdg != NULL && xdg[0] == '/') return fw_path_join(out, xdg, "finewire/datasets");
    return home != NULL && home[0] == '/' ? fw_path_join(out, home, ".cache/finewire/datasets") : FW_OK;
}

/* What one call works with. */
typedef struct caching {
    const fw_sources *sources;
    const fw_tokenizer *tokenizer;
    const fw_chat_template *chat;
    const fw_dataset_options *options;
    const fw_cache_options *cache;
    fw_cache_key key;
    int is_told; /* the key came from a process that has just used the file */
    const char *path;
    int disk_failed; /* the folder cannot be used, or its disk is full */
} caching;

static const char *name_of(const fw_sources *sources) {
    return sources->set_n == 1 ? sources->set[0].written : "the data sets";
}

static fw_status name_file(fw_strbuf *out, const char *dir, const fw_cache_key *key) {
    return fw_strbuf_printf(out, "%s/%016llx%016llx.fwdata", dir, (unsigned long long)key->word[0],
                            (unsigned long long)key->word[1]);
}

static int is_there(const char *dir, const fw_cache_key *key) {
    fw_strbuf path = {0};
    const int found = name_file(&path, dir, key) == FW_OK && fw_file_exists(path.data);
    fw_strbuf_fini(&path);
    return found;
}

/* Tokenise into the cache's file, on all threads that there are. */
static fw_status build(caching *c) {
    fw_dataset_options options = *c->options;
    fw_cache_writer *writer = NULL;
    fw_dataset *d = NULL;
    fw_threads *more = NULL;
    fw_status status;
    if (c->cache->machine_thread_n > fw_threads_n(options.threads)) {
        FW_TRY_OR(fw_threads_create(&more, c->cache->machine_thread_n, NULL), done);
        options.threads = more;
    }
    status = fw_cache_writer_create(&writer, c->path, &c->key);
    c->disk_failed = status == FW_ERR_IO;
    FW_TRY_OR(status, done);
    FW_TRY_OR(fw_dataset_create(&d, name_of(c->sources), &options), done);
    d->spill = writer;
    FW_TRY_OR(fw_dataset_fill(d, c->sources, c->tokenizer, c->chat, &options), done);
    FW_TRY_OR(fw_cache_writer_commit(writer, d), done);
done:
    c->disk_failed = c->disk_failed || fw_cache_writer_failed(writer);
    fw_dataset_destroy(d);
    fw_cache_writer_destroy(writer);
    fw_threads_destroy(more);
    return status;
}

/* Under the lock: what is there and sound, or made now. */
static fw_status open_or_build(fw_dataset **out, caching *c) {
    const char *name = name_of(c->sources);
    if (fw_file_exists(c->path)) {
        fw_status status = fw_cache_open(out, c->path, &c->key, name, c->options, !c->is_told);
        if (status == FW_OK) {
            utimensat(AT_FDCWD, c->path, NULL, 0); /* used now: not the first to go */
            return FW_OK;
        }
        if (status != FW_ERR_INPUT) return status;
        fw_log_warning("the cache of tokenised conversations is made anew: %s", fw_trail_message());
        unlink(c->path);
    }
    FW_TRY(build(c));
    FW_TRY(fw_cache_open(out, c->path, &c->key, name, c->options, 0));
    (*out)->from_cache = 0;
    return FW_OK;
}

/* What another command made may hold less than this one asks for: rows were left out, nothing is there to learn. */
static fw_status check_wishes(const fw_dataset *d, const fw_dataset_options *options) {
    int64_t fault_n = 0;
    for (int i = 0; i < FW_DROP_ROW_N; i++) fault_n += d->stats.drop_n[i];
    if (!options->allow_dropped && fault_n > 0) {
        for (int64_t i = 0; i < d->dropped_n; i++)
            if (d->dropped[i].reason < FW_DROP_ROW_N) return fw_fail(FW_ERR_INPUT, "%s", d->dropped[i].message);
        return fw_fail(FW_ERR_INPUT, "%s: %lld rows cannot be used; finewire data check lists them", d->name,
                       (long long)fault_n);
    }
    return options->allow_empty ? FW_OK : fw_dataset_check_targets(d);
}

static fw_status load(fw_dataset **out, caching *c, const char *dir) {
    fw_strbuf path = {0};
    fw_status status;
    int lock = -1;
    FW_TRY_OR(name_file(&path, dir, &c->key), done);
    c->path = path.data;
    status = fw_dir_make(dir);
    if (status == FW_OK) status = fw_cache_lock(&lock, c->path, c->options->stop);
    c->disk_failed = status == FW_ERR_IO && c->cache->dir == NULL; /* who names a folder wants that one */
    FW_TRY_OR(status, done);
    if (fw_cache_remove_leftovers(dir, c->path) != FW_OK)
        fw_log_warning("leftovers in the cache of tokenised conversations stay: %s", fw_trail_message());
    FW_TRY_OR(open_or_build(out, c), done);
    status = check_wishes(*out, c->options);
    if (status != FW_OK) {
        fw_dataset_destroy(*out);
        *out = NULL;
        goto done;
    }
    if (fw_cache_clean(dir, c->cache->limit_bytes, c->path) != FW_OK)
        fw_log_warning("the cache of tokenised conversations could not be cleaned: %s", fw_trail_message());
done:
    fw_cache_unlock(lock, fw_strbuf_text(&path));
    fw_strbuf_fini(&path);
    return status;
}

fw_status fw_dataset_load_cached(fw_dataset **out, const fw_sources *sources, const fw_tokenizer *tokenizer,
                                 const fw_chat_template *chat, const fw_dataset_options *options,
                                 const fw_cache_options *cache) {
    caching c = {.sources = sources, .tokenizer = tokenizer, .chat = chat, .options = options, .cache = cache};
    char *dir;
    *out = NULL;
    if (cache->limit_bytes == 0) return fw_dataset_load_sources(out, sources, tokenizer, chat, options);
    FW_TRY(fw_cache_find_dir(&dir, cache));
    if (dir == NULL) return fw_dataset_load_sources(out, sources, tokenizer, chat, options);
    fw_status status;
    c.is_told = cache->told != NULL && cache->told->is_known && is_there(dir, &cache->told->key);
    if (c.is_told)
        c.key = cache->told->key;
    else
        FW_TRY_OR(fw_cache_find_key(&c.key, sources, chat, options, cache), done);
    status = load(out, &c, dir);
    if (cache->told != NULL) *cache->told = (fw_cache_told){c.key, status == FW_OK};
    if (status == FW_ERR_IO && c.disk_failed) {
        fw_log_warning("tokenised conversations cannot be cached and are held in memory: %s; --dataset_cache_dir names "
                       "another folder",
                       fw_trail_message());
        status = fw_dataset_load_sources(out, sources, tokenizer, chat, options);
    }
done:
    fw_free(dir);
    return status;
}
