/* data: tokenised sets on disk: the same tokens, used again, made anew when damaged, made once by many; splits, weights. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "data/cache.h"
#include "data/selection.h"
#include "support/tiny_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct lab {
    char dir[32], cache_dir[64], data[64];
    fw_tokenizer *tokenizer;
    fw_chat_template chat;
    fw_cache_options cache;
    fw_dataset_options options;
} lab;

static int set_up(void **state) {
    lab *l = calloc(1, sizeof *l);
    if (l == NULL) return 1;
    strcpy(l->dir, "/tmp/fw-cache-XXXXXX");
    if (mkdtemp(l->dir) == NULL) return 1;
    snprintf(l->data, sizeof l->data, "%s/talk.jsonl", l->dir);
    snprintf(l->cache_dir, sizeof l->cache_dir, "%s/cache", l->dir);
    if (fw_test_write_tokenizer(l->dir, FW_TEST_SMOLLM2) != FW_OK ||
        fw_tokenizer_load(&l->tokenizer, l->dir) != FW_OK || fw_chat_template_load(&l->chat, l->dir) != FW_OK)
        return 1;
    l->cache = (fw_cache_options){.dir = l->cache_dir, .limit_bytes = 1 << 30, .model_dir = l->dir};
    *state = l;
    return 0;
}

static int tear_down(void **state) {
    lab *l = *state;
    fw_chat_template_fini(&l->chat);
    fw_tokenizer_destroy(l->tokenizer);
    fw_dir_remove(l->dir);
    free(l);
    return 0;
}

static void write_talk(const lab *l, int n, int seed) {
    fw_strbuf text = {0};
    for (int i = 0; i < n; i++)
        assert_int_equal(fw_strbuf_printf(&text,
                                          "{\"messages\":[{\"role\":\"user\",\"content\":\"How much is %d + %d?\"},"
                                          "{\"role\":\"assistant\",\"content\":\"%d\"%s}]}\n",
                                          i, seed, i + seed, i % 3 == 1 ? ",\"loss_weight\":0.5" : ""),
                         FW_OK);
    assert_int_equal(fw_strbuf_puts(&text, "{\"messages\":[{\"role\":\"user\",\"content\":\"?\"}]}\n"), FW_OK);
    assert_int_equal(fw_file_write(l->data, text.data, text.len_bytes), FW_OK);
    fw_strbuf_fini(&text);
}

static fw_status load_cached(fw_dataset **out, const lab *l) {
    fw_sources sources;
    FW_TRY(fw_sources_find(&sources, l->data));
    fw_status status = fw_dataset_load_cached(out, &sources, l->tokenizer, &l->chat, &l->options, &l->cache);
    fw_sources_fini(&sources);
    return status;
}

static fw_dataset *load(const lab *l, int expect_from_cache) {
    fw_dataset *d;
    if (load_cached(&d, l) != FW_OK) fail_msg("%s", fw_trail_message());
    assert_int_equal(d->from_cache, expect_from_cache);
    return d;
}

static void expect_same(const fw_dataset *a, const fw_dataset *b) {
    assert_int_equal(a->hash, b->hash);
    assert_int_equal(a->sample_n, b->sample_n);
    assert_int_equal(a->source_n, b->source_n);
    assert_int_equal(a->dropped_n, b->dropped_n);
    assert_memory_equal(&a->stats, &b->stats, sizeof a->stats);
    assert_memory_equal(a->id, b->id, (size_t)a->stats.token_n * sizeof *a->id);
    assert_memory_equal(a->trained, b->trained, (size_t)a->stats.token_n);
    assert_memory_equal(a->sample, b->sample, (size_t)a->sample_n * sizeof *a->sample);
    assert_int_equal(a->run_n, b->run_n);
    assert_true(a->run_n > 0);
    assert_memory_equal(a->run, b->run, (size_t)a->run_n * sizeof *a->run);
    for (int32_t i = 0; i < a->source_n; i++) {
        assert_string_equal(a->source[i].path, b->source[i].path);
        assert_int_equal(a->source[i].used_n, b->source[i].used_n);
    }
    for (int64_t i = 0; i < a->dropped_n; i++) assert_string_equal(a->dropped[i].message, b->dropped[i].message);
}

/* The only file of the cache. */
static void find_file(const lab *l, char path[256]) {
    char **names;
    size_t n, found = 0;
    assert_int_equal(fw_dir_list(&names, &n, l->cache_dir), FW_OK);
    for (size_t i = 0; i < n; i++)
        if (strstr(names[i], ".fwdata") != NULL) {
            snprintf(path, 256, "%s/%s", l->cache_dir, names[i]);
            found++;
        }
    fw_dir_list_free(names, n);
    assert_int_equal(found, 1);
}

static size_t files_n(const lab *l) {
    char **names;
    size_t n;
    if (!fw_dir_exists(l->cache_dir)) return 0;
    assert_int_equal(fw_dir_list(&names, &n, l->cache_dir), FW_OK);
    fw_dir_list_free(names, n);
    return n;
}

static void test_same_tokens(void **state) {
    lab *l = *state;
    fw_dataset *memory;
    write_talk(l, 50, 7);
    assert_int_equal(fw_dataset_load(&memory, l->data, l->tokenizer, &l->chat, &l->options), FW_OK);
    assert_int_equal(memory->dropped_n, 1);
    fw_dataset *made = load(l, 0), *again = load(l, 1);
    expect_same(memory, made);
    expect_same(memory, again);
    assert_int_equal(files_n(l), 1); /* no lock, no temporary file is left */
    fw_dataset_destroy(memory);
    fw_dataset_destroy(made);
    fw_dataset_destroy(again);
}

/* Whatever changes a token changes the key. */
static void test_key(void **state) {
    lab *l = *state;
    write_talk(l, 5, 7);
    fw_dataset_destroy(load(l, 0));
    fw_dataset_destroy(load(l, 1));
    write_talk(l, 5, 8); /* the same size, other bytes */
    fw_dataset_destroy(load(l, 0));
    write_talk(l, 5, 7); /* and back */
    fw_dataset_destroy(load(l, 1));
    l->options.max_length = 60;
    fw_dataset_destroy(load(l, 0));
    l->options.truncation = FW_TRUNCATE_KEEP_END;
    fw_dataset_destroy(load(l, 0));
    l->options.labels.all_tokens = 1;
    fw_dataset_destroy(load(l, 0));
    l->cache.extra = "another template";
    fw_dataset_destroy(load(l, 0));
    char path[64];
    snprintf(path, sizeof path, "%s/special_tokens_map.json", l->dir);
    assert_int_equal(fw_file_write(path, "{}", 2), FW_OK);
    fw_dataset_destroy(load(l, 0));
    fw_dataset_destroy(load(l, 1));
    l->cache.limit_bytes = 0; /* no cache */
    fw_dataset_destroy(load(l, 0));
    fw_dataset_destroy(load(l, 0));
}

/* What a report made serves a run: the key is the same. A run that takes no fault finds the first one there. */
static void test_report_first(void **state) {
    lab *l = *state;
    const char *rows =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n";
    fw_dataset *d, *made;
    char text[1024];
    write_talk(l, 5, 7);
    l->options.allow_dropped = l->options.allow_empty = 1;
    made = load(l, 0);
    l->options.allow_dropped = l->options.allow_empty = 0;
    d = load(l, 1);
    expect_same(made, d);
    fw_dataset_destroy(d);
    fw_dataset_destroy(made);

    snprintf(text, sizeof text, "%s{\"messages\":[]}\n{\"messages\":[1]}\n", rows);
    assert_int_equal(fw_file_write(l->data, text, strlen(text)), FW_OK);
    l->options.allow_dropped = 1;
    fw_dataset_destroy(load(l, 0));
    l->options.allow_dropped = 0;
    assert_int_equal(load_cached(&d, l), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "talk.jsonl:2: \"messages\" is empty"));
    l->options.allow_dropped = 1;
    fw_dataset_destroy(load(l, 1));

    assert_int_equal(fw_file_write(l->data, "{\"messages\":[]}\n", 16), FW_OK);
    l->options.allow_empty = 1;
    fw_dataset_destroy(load(l, 0));
    l->options.allow_empty = 0;
    assert_int_equal(load_cached(&d, l), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "has a token to learn"));
}

/* Who is told the key reads no file: one rank of a machine does. What is told and gone is looked for as always. */
static void test_told(void **state) {
    lab *l = *state;
    fw_cache_told told = {0};
    fw_dataset *first, *d;
    char path[256];
    write_talk(l, 5, 7);
    l->cache.told = &told;
    first = load(l, 0);
    assert_true(told.is_known);
    write_talk(l, 6, 8);
    d = load(l, 1);
    expect_same(first, d);
    fw_dataset_destroy(d);
    find_file(l, path);
    unlink(path);
    d = load(l, 0);
    assert_int_equal(d->sample_n, 6);
    fw_dataset_destroy(d);
    fw_dataset_destroy(first);
}

static int stop_n, stop_at;
static int stop_then(void) { return ++stop_n == stop_at; }

/* A wish to stop ends the load wherever it is noticed, leaves nothing behind, and the next try is good. */
static void test_stopped(void **state) {
    lab *l = *state;
    fw_dataset *d;
    write_talk(l, 20, 7);
    l->options.stop = stop_then;
    for (stop_at = 1;; stop_at++) {
        stop_n = 0;
        fw_status status = load_cached(&d, l);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_INTERRUPTED);
        assert_int_equal(files_n(l), 0);
        assert_true(stop_at < 100);
    }
    assert_true(stop_at > 2); /* while it hashes, and while it tokenises */
    fw_dataset_destroy(d);
}

static void count_warning(fw_log_level level, const char *line, void *context) {
    if (level >= FW_LOG_WARNING && strstr(line, "made anew") != NULL) ++*(int *)context;
}

/* A byte changed anywhere, the end cut off at any place: noticed, said, and made anew with the same tokens. */
static void test_damage(void **state) {
    lab *l = *state;
    int warned_n = 0;
    char path[256];
    write_talk(l, 40, 1);
    fw_dataset *good;
    assert_int_equal(fw_dataset_load(&good, l->data, l->tokenizer, &l->chat, &l->options), FW_OK);
    fw_dataset_destroy(load(l, 0));
    find_file(l, path);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    fw_log_set_sink(count_warning, &warned_n, FW_LOG_WARNING);
    int round = 0;
    for (off_t at = 0; at < info.st_size; at += 1 + info.st_size / 37, round++) {
        if (round % 3 == 2) {
            assert_int_equal(truncate(path, at), 0);
        } else {
            char byte;
            int fd = open(path, O_RDWR);
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 0x40;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            close(fd);
        }
        fw_dataset *d = load(l, 0);
        assert_int_equal(warned_n, round + 1);
        expect_same(good, d);
        fw_dataset_destroy(d);
        d = load(l, 1);
        fw_dataset_destroy(d);
    }
    fw_log_set_sink(NULL, NULL, FW_LOG_WARNING);
    assert_true(round > 30);
    fw_dataset_destroy(good);
}

/* Several processes at once: one makes it, the others find it. */
static void test_many_at_once(void **state) {
    lab *l = *state;
    enum { PROCESS_N = 5 };
    pid_t child[PROCESS_N];
    int made_n = 0;
    write_talk(l, 2000, 3);
    for (int i = 0; i < PROCESS_N; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            fw_dataset *d;
            if (load_cached(&d, l) != FW_OK) _exit(9);
            int good = d->sample_n == 2000 && d->stats.conversation_n == 2001;
            _exit(!good ? 8 : d->from_cache ? 0 : 1);
        }
    }
    for (int i = 0; i < PROCESS_N; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) <= 1);
        made_n += WEXITSTATUS(status);
    }
    assert_int_equal(made_n, 1);
    assert_int_equal(files_n(l), 1);
}

/* The oldest go first, what was just used stays. */
static void test_limit(void **state) {
    lab *l = *state;
    char path[256];
    write_talk(l, 30, 1);
    fw_dataset_destroy(load(l, 0));
    find_file(l, path);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    l->cache.limit_bytes = info.st_size * 5 / 2;
    write_talk(l, 30, 2);
    fw_dataset_destroy(load(l, 0));
    assert_int_equal(files_n(l), 2);
    write_talk(l, 30, 3);
    fw_dataset_destroy(load(l, 0));
    assert_int_equal(files_n(l), 2);
    assert_false(fw_file_exists(path));
    l->cache.limit_bytes = 1; /* the one that is used stays all the same */
    fw_dataset_destroy(load(l, 1));
    assert_int_equal(files_n(l), 1);
}

static void put_file(const lab *l, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", l->cache_dir, name);
    assert_int_equal(fw_file_write(path, "x", 1), FW_OK);
}

/* What a killed process was writing goes at the next use, unless somebody holds its lock: whoever has its number. */
static void test_leftovers(void **state) {
    lab *l = *state;
    char held[128];
    int lock;
    write_talk(l, 3, 1);
    fw_dataset_destroy(load(l, 0));
    put_file(l, "0a.fwdata.tmp-1");
    put_file(l, "0a.fwdata.tmp-flags-1");
    put_file(l, "0a.fwdata.lock");
    put_file(l, "0b.fwdata.tmp-flags-99.tmp-99");
    put_file(l, "mine.fwdat.tmp-1");
    put_file(l, "0c.fwdata.tmp-4194305"); /* no process has that number */
    snprintf(held, sizeof held, "%s/0c.fwdata", l->cache_dir);
    assert_int_equal(fw_cache_lock(&lock, held, NULL), FW_OK);
    fw_dataset_destroy(load(l, 1));
    assert_int_equal(files_n(l),
                     4); /* the set, what is no file of the cache, the held lock and what is made under it */
    fw_cache_unlock(lock, held);
    fw_dataset_destroy(load(l, 1));
    assert_int_equal(files_n(l), 2);
}

/* Writes that fail: in memory instead. Allocations that fail: an error. Nothing is left behind, and the next try is good. */
static void test_faults(void **state) {
    lab *l = *state;
    fw_dataset *d, *whole;
    write_talk(l, 3, 1);
    assert_int_equal(fw_dataset_load(&whole, l->data, l->tokenizer, &l->chat, &l->options), FW_OK);
    for (uint64_t n = 1;; n++) {
        fw_file_fail_write_at(n);
        fw_status status = load_cached(&d, l);
        fw_file_fail_write_at(0);
        assert_int_equal(status, FW_OK); /* a full disk: in memory then */
        if (d->mapping.data != NULL) break;
        expect_same(d, whole);
        fw_dataset_destroy(d);
        assert_int_equal(files_n(l), 0);
        assert_true(n < 100);
    }
    expect_same(d, whole);
    fw_dataset_destroy(d);
    fw_dataset_destroy(whole);
    for (uint64_t n = 1;; n += 1 + n / 30 * 2) {
        char path[256];
        if (n % 2) {
            find_file(l, path);
            unlink(path);
        }
        fw_alloc_fail_at(n);
        fw_status status = load_cached(&d, l);
        fw_alloc_fail_at(0);
        if (status == FW_OK) {
            fw_dataset_destroy(d);
            if (n > 3000) break;
            continue;
        }
        assert_int_equal(status, FW_ERR_NOMEM);
        assert_int_equal(load_cached(&d, l),
                         FW_OK); /* the next try is good, whether it was made before the failure or not */
        fw_dataset_destroy(d);
    }
}

/* ---- splits and weights ---- */

static fw_dataset *plain(const lab *l) {
    fw_dataset *d;
    assert_int_equal(fw_dataset_load(&d, l->data, l->tokenizer, &l->chat, &l->options), FW_OK);
    return d;
}

static int holds(const fw_dataset *d, uint64_t hash) {
    for (int64_t s = 0; s < d->sample_n; s++)
        if (d->sample[s].hash == hash) return 1;
    return 0;
}

static void test_split(void **state) {
    lab *l = *state;
    fw_dataset *train, *val, *train2, *val2;
    write_talk(l, 200, 1);
    assert_int_equal(fw_dataset_split(&train, &val, plain(l), 0.1, 42), FW_OK);
    assert_int_equal(val->sample_n, 20);
    assert_int_equal(train->sample_n, 180);
    assert_int_equal(train->stats.drop_n[FW_DROP_NO_ASSISTANT], 1);
    for (int64_t s = 0; s < val->sample_n; s++) assert_false(holds(train, val->sample[s].hash));
    /* more rows: those held out stay held out, as far as the share allows */
    write_talk(l, 220, 1);
    assert_int_equal(fw_dataset_split(&train2, &val2, plain(l), 22, 42), FW_OK);
    assert_int_equal(val2->sample_n, 22);
    int kept = 0;
    for (int64_t s = 0; s < val->sample_n; s++) kept += holds(val2, val->sample[s].hash);
    assert_true(kept >= 17);
    fw_dataset_destroy(val2);
    fw_dataset_destroy(train2);
    assert_int_equal(fw_dataset_split(&train2, &val2, plain(l), 22, 43), FW_OK); /* another seed, another choice */
    assert_int_not_equal(val2->hash, val->hash);
    fw_dataset_destroy(train2);
    fw_dataset_destroy(val);
    fw_dataset_destroy(val2);
    /* the parts outlive each other; tokens are shared */
    assert_int_equal(train->stats.token_n > 0 && train->id[train->sample[179].first] >= 0, 1);
    fw_dataset_destroy(train);
    write_talk(l, 3, 1);
    assert_int_equal(fw_dataset_split(&train, &val, plain(l), 3, 42), FW_ERR_OPTION);
    assert_int_equal(fw_dataset_split(&train, &val, plain(l), 1e9, 42), FW_ERR_OPTION);
}

static void test_weights(void **state) {
    lab *l = *state;
    fw_dataset *d, *other;
    write_talk(l, 100, 1);
    const double weights[] = {2, 0.25, 1, 1.5, 0.333};
    const int64_t wanted[] = {200, 25, 100, 150, 33};
    for (int i = 0; i < 5; i++)
        for (uint64_t seed = 42; seed < 46; seed++) {
            assert_int_equal(fw_dataset_weigh(&d, plain(l), &weights[i], 1, seed), FW_OK);
            assert_int_equal(d->sample_n, wanted[i]);
            assert_int_equal(fw_dataset_weigh(&other, plain(l), &weights[i], 1, seed), FW_OK);
            assert_int_equal(d->hash, other->hash);
            fw_dataset_destroy(d);
            fw_dataset_destroy(other);
        }
    const double half = 0.5; /* another seed, another half */
    assert_int_equal(fw_dataset_weigh(&d, plain(l), &half, 1, 42), FW_OK);
    assert_int_equal(fw_dataset_weigh(&other, plain(l), &half, 1, 43), FW_OK);
    assert_int_equal(d->sample_n, other->sample_n);
    assert_int_not_equal(d->hash, other->hash);
    fw_dataset_destroy(d);
    fw_dataset_destroy(other);
    const double none = 1e-9;
    assert_int_equal(fw_dataset_weigh(&d, plain(l), &none, 1, 42), FW_ERR_OPTION);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_same_tokens), TEST(test_key),       TEST(test_report_first), TEST(test_told),
        TEST(test_stopped),     TEST(test_damage),    TEST(test_many_at_once), TEST(test_limit),
        TEST(test_faults),      TEST(test_leftovers), TEST(test_split),        TEST(test_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
