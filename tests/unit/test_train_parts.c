/* train: schedules, clipping, sampling, the loss sum, metrics.jsonl after a resume. */
#include "base/alloc.h"
#include "base/file.h"
#include "support/waiting.h"
#include "train/interrupt.h"
#include "train/metrics.h"
#include "train/optimizer.h"
#include "train/sampler.h"
#include "train/schedule.h"
#include "train/token_buffers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_near(double value, double expected, double tolerance) {
    assert_true(fabs(value - expected) <= tolerance);
}

static void test_schedule(void **state) {
    (void)state;
    fw_schedule s = {.kind = FW_LR_LINEAR, .peak = 2.0, .warmup_n = 10, .total_n = 30};
    assert_near(fw_schedule_rate(&s, 1), 0.2, 1e-12);
    assert_near(fw_schedule_rate(&s, 10), 2.0, 1e-12); /* the peak, at the last step of warm-up */
    assert_near(fw_schedule_rate(&s, 11), 2.0, 1e-12);
    assert_near(fw_schedule_rate(&s, 21), 1.0, 1e-12);
    assert_near(fw_schedule_rate(&s, 30), 0.1, 1e-12);
    s.kind = FW_LR_COSINE;
    assert_near(fw_schedule_rate(&s, 5), 1.0, 1e-12);
    assert_near(fw_schedule_rate(&s, 21), 1.0, 1e-12);
    assert_true(fw_schedule_rate(&s, 30) > 0);
    s.kind = FW_LR_CONSTANT;
    assert_near(fw_schedule_rate(&s, 1), 2.0, 1e-12);
    s.kind = FW_LR_CONSTANT_WITH_WARMUP;
    assert_near(fw_schedule_rate(&s, 5), 1.0, 1e-12);
    assert_near(fw_schedule_rate(&s, 30), 2.0, 1e-12);
    s.warmup_n = 0;
    assert_near(fw_schedule_rate(&s, 1), 2.0, 1e-12);
    s = (fw_schedule){.kind = FW_LR_LINEAR, .peak = 1.0, .warmup_n = 4, .total_n = 4}; /* nothing but warm-up */
    assert_near(fw_schedule_rate(&s, 4), 1.0, 1e-12);
}

static void test_clip(void **state) {
    (void)state;
    assert_near(fw_optimizer_clip_factor(4.0, 1.0), 0.25, 1e-6);
    assert_near(fw_optimizer_clip_factor(0.5, 1.0), 1.0, 0);
    assert_near(fw_optimizer_clip_factor(100.0, 0), 1.0, 0);
}

static void test_sampler(void **state) {
    (void)state;
    enum { V = 6 };
    const float logits[V] = {0.0f, 3.0f, 3.0f, -1.0f, NAN, 2.0f};
    fw_sampler s;
    int32_t id;
    assert_int_equal(fw_sampler_init(&s, 0, 1, 1, V), FW_OK);
    assert_int_equal(fw_sampler_next(&s, &id, logits, 0), FW_OK);
    assert_int_equal(id, 1); /* the first of two equals */
    fw_sampler_fini(&s);

    /* frequencies follow the softmax */
    double sum = 0, expected[V] = {1, exp(3), exp(3), exp(-1), 0, exp(2)};
    for (int i = 0; i < V; i++) sum += expected[i];
    int count[V] = {0};
    enum { DRAWS = 20000 };
    assert_int_equal(fw_sampler_init(&s, 1.0, 1, 7, V), FW_OK);
    for (uint64_t i = 0; i < DRAWS; i++) {
        assert_int_equal(fw_sampler_next(&s, &id, logits, i), FW_OK);
        count[id]++;
    }
    for (int i = 0; i < V; i++) assert_near((double)count[i] / DRAWS, expected[i] / sum, 0.012);
    fw_sampler_fini(&s);

    /* top_p 0.8 keeps the two likeliest (0.43 + 0.43), whatever the draw */
    assert_int_equal(fw_sampler_init(&s, 1.0, 0.8, 7, V), FW_OK);
    for (uint64_t i = 0; i < 500; i++) {
        assert_int_equal(fw_sampler_next(&s, &id, logits, i), FW_OK);
        assert_true(id == 1 || id == 2);
    }
    fw_sampler_fini(&s);

    const float broken[2] = {NAN, INFINITY};
    assert_int_equal(fw_sampler_init(&s, 0, 1, 1, 2), FW_OK);
    assert_int_equal(fw_sampler_next(&s, &id, broken, 0), FW_ERR_INPUT);
    fw_sampler_fini(&s);
}

/* The sum of losses is the same however the tokens are grouped, to the last bit. */
static void test_loss_sum(void **state) {
    (void)state;
    enum { N = 1000 };
    static float loss[N];
    for (int i = 0; i < N; i++) loss[i] = 0.1f + (float)(i * 7919 % 1000) * 0.0137f;
    fw_device *d;
    fw_token_buffers t;
    assert_int_equal(fw_device_create(&d, "ref", NULL), FW_OK);
    void *memory;
    assert_int_equal(fw_device_alloc(d, &memory, fw_micro_batch_bytes(N, false), "tokens"), FW_OK);
    assert_int_equal(fw_token_buffers_init(&t, d, memory, N, false, 0), FW_OK);
    fw_loss_sum whole = {0}, parts = {0};
    assert_int_equal(fw_token_buffers_add_losses(&t, &whole, loss, NULL, N), FW_OK);
    for (int i = N - 1; i >= 0; i--)
        assert_int_equal(fw_token_buffers_add_losses(&t, &parts, loss + i, NULL, 1), FW_OK);
    assert_true(whole.fixed == parts.fixed && whole.target_n == parts.target_n);
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)loss[i];
    assert_near(fw_loss_mean(&whole), sum / N, 1e-7);

    /* weights: exact too, and all of them one is the same as none */
    fw_loss_weight weight[N];
    double weighted = 0, weights = 0;
    for (int i = 0; i < N; i++) weight[i] = FW_LOSS_WEIGHT_ONE;
    fw_loss_sum ones = {0};
    assert_int_equal(fw_token_buffers_add_losses(&t, &ones, loss, weight, N), FW_OK);
    assert_memory_equal(&ones, &whole, sizeof ones);
    for (int i = 0; i < N; i++) {
        weight[i] = 1 + i * 65431 % (3 * FW_LOSS_WEIGHT_ONE);
        weighted += (double)loss[i] * (double)weight[i] / 65536;
        weights += (double)weight[i] / 65536;
    }
    fw_loss_sum all = {0}, one_by_one = {0};
    assert_int_equal(fw_token_buffers_add_losses(&t, &all, loss, weight, N), FW_OK);
    for (int i = N - 1; i >= 0; i--)
        assert_int_equal(fw_token_buffers_add_losses(&t, &one_by_one, loss + i, weight + i, 1), FW_OK);
    assert_memory_equal(&all, &one_by_one, sizeof all);
    assert_int_equal(all.target_n, N);
    assert_near(fw_loss_mean(&all), weighted / weights, 1e-7);

    float nan_loss = NAN;
    assert_int_equal(fw_token_buffers_add_losses(&t, &whole, &nan_loss, NULL, 1), FW_OK);
    assert_true(isnan(fw_loss_mean(&whole)));
    fw_token_buffers_fini(&t);
    fw_device_free(d, memory, fw_micro_batch_bytes(N, false));
    fw_device_destroy(d);
}

static void test_metrics_resume(void **state) {
    (void)state;
    char dir[] = "/tmp/fw-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    fw_metrics m;
    assert_int_equal(fw_metrics_open(&m, dir, 0), FW_OK);
    for (int step = 1; step <= 5; step++) {
        fw_metrics_row row = {.step = step, .loss = 1.0 / step, .num_tokens = 100 * step};
        assert_int_equal(fw_metrics_write(&m, &row), FW_OK);
    }
    fw_metrics_close(&m);
    FILE *f = fopen(path, "a"); /* a torn last line, as after a kill */
    assert_non_null(f);
    fputs("{\"step\": 6, \"lo", f);
    fclose(f);
    assert_int_equal(fw_metrics_tokens(dir, 3), 300);
    assert_int_equal(fw_metrics_open(&m, dir, 3), FW_OK);
    fw_metrics_row row = {.step = 4, .loss = 9, .num_tokens = 400};
    assert_int_equal(fw_metrics_write(&m, &row), FW_OK);
    fw_metrics_close(&m);
    fw_strbuf text = {0};
    assert_int_equal(fw_file_read(&text, path, 1 << 20), FW_OK);
    int line_n = 0;
    for (const char *c = text.data; (c = strchr(c, '\n')) != NULL; c++) line_n++;
    assert_int_equal(line_n, 4);
    assert_non_null(strstr(text.data, "\"step\": 4, \"epoch\": 0, \"loss\": 9,"));
    assert_null(strstr(text.data, "\"step\": 5"));
    fw_strbuf_fini(&text);
    /* a run from the start begins a new file */
    assert_int_equal(fw_metrics_open(&m, dir, 0), FW_OK);
    fw_metrics_close(&m);
    assert_int_equal(fw_file_read(&text, path, 1 << 20), FW_OK);
    assert_int_equal(text.len_bytes, 0);
    fw_strbuf_fini(&text);
    fw_dir_remove(dir);
}

/* One press that arrives twice is one wish; the process lives on to save. */
static void test_interrupt_twice_at_once(void **state) {
    (void)state;
    struct sigaction before[2];
    sigaction(SIGINT, NULL, &before[0]);
    sigaction(SIGTERM, NULL, &before[1]);
    fw_interrupt_install();
    raise(SIGTERM);
    raise(SIGTERM);
    raise(SIGINT);
    assert_true(fw_interrupt_requested());
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
}

/* Twice, apart: out at once, by the signal; also where a shell has had SIGINT ignored, as for what a script starts with &. */
static void test_interrupt_twice(void **state) {
    (void)state;
    const pid_t pid = fork();
    if (pid == 0) {
        signal(SIGINT, SIG_IGN);
        fw_interrupt_install();
        raise(SIGINT);
        if (!fw_interrupt_requested()) _exit(1);
        nap(0.3); /* longer than what counts as one press */
        raise(SIGINT);
        _exit(2);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(WTERMSIG(how), SIGINT);
}

/* A write that fails ends nothing; the line is kept, and comes with the next that can be written. */
static void test_metrics_full(void **state) {
    (void)state;
    char dir[] = "/tmp/fw-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    fw_metrics m;
    assert_int_equal(fw_metrics_open(&m, dir, 0), FW_OK);
    const int file = m.fd, full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    for (int step = 1; step <= 4; step++) {
        m.fd = step == 2 || step == 3 ? full : file;
        fw_metrics_row row = {.step = step};
        assert_int_equal(fw_metrics_write(&m, &row), FW_OK);
        assert_int_equal(m.fails, m.fd == full);
    }
    fw_metrics_close(&m);
    close(full);
    fw_strbuf text = {0};
    assert_int_equal(fw_file_read(&text, path, 1 << 20), FW_OK);
    const char *at = text.data;
    for (int step = 1; step <= 4; step++) {
        char begin[32];
        snprintf(begin, sizeof begin, "{\"step\": %d, ", step);
        assert_memory_equal(at, begin, strlen(begin));
        at = strchr(at, '\n') + 1;
    }
    assert_int_equal(*at, 0);
    fw_strbuf_fini(&text);
    fw_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule),        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_sampler),         cmocka_unit_test(test_loss_sum),
        cmocka_unit_test(test_metrics_resume),  cmocka_unit_test(test_interrupt_twice_at_once),
        cmocka_unit_test(test_interrupt_twice), cmocka_unit_test(test_metrics_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
