/* 8-bit optimizer state against what bitsandbytes keeps: codes and scales of 50 steps have the same bits on every device. The
 * reference and what made it: tests/parity/make_8bit_reference.py. */
#include "base/alloc.h"
#include "base/json.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

enum { N = 5000, BLOCK_N = 20, STEP_N = 50 };

/* ---- the reference file */

static json_t *reference;

static int value_of(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);
    return c == '=' || at == NULL ? 0 : (int)(at - digits);
}

static void read_base64(void *out, size_t bytes, const json_t *text) {
    const char *c = json_string_value(text);
    assert_non_null(c);
    assert_int_equal(strlen(c), (bytes + 2) / 3 * 4);
    for (size_t i = 0; i < bytes; i++) {
        const char *four = c + i / 3 * 4;
        int bits = value_of(four[0]) << 18 | value_of(four[1]) << 12 | value_of(four[2]) << 6 | value_of(four[3]);
        ((uint8_t *)out)[i] = (uint8_t)(bits >> (16 - 8 * (int)(i % 3)));
    }
}

static uint32_t crc32_of(const void *data, size_t bytes) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= ((const uint8_t *)data)[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* The formula of make_8bit_reference.py. */
static void gradient(float *g, uint64_t step) {
    for (uint64_t i = 0; i < N; i++) {
        uint64_t x = (i * 2654435761u + step * 40503u) & 0xffffffffu;
        x ^= x >> 15;
        x = (x * 2246822519u) & 0xffffffffu;
        x ^= x >> 13;
        g[i] = (float)((int64_t)(x & 0xffff) - 32768) * 0x1p-20f * ldexpf(1, -(int)(i / 256 * 5 % 17));
        if ((x >> 20) % 7 == 0) g[i] = 0;
    }
}

/* ---- a run */

typedef struct state {
    float w[N], scale1[BLOCK_N], scale2[BLOCK_N], g[N];
    uint8_t code1[N], code2[N];
} state;

static void expect_crc(const json_t *run, int step, const char *name, const void *data, size_t bytes) {
    char key[16];
    snprintf(key, sizeof key, "%d", step);
    const json_t *checks = json_object_get(json_object_get(run, "checks"), key);
    if (checks == NULL) return;
    const json_t *want = json_object_get(checks, name);
    assert_true(json_is_integer(want));
    if (crc32_of(data, bytes) != (uint32_t)json_integer_value(want)) fail_msg("step %d: %s differs", step, name);
}

/* *d holds a copy of *s; both are changed. */
static void run(const char *device_name, const char *which) {
    const json_t *want = json_object_get(reference, which);
    const bool lion = strcmp(which, "lion") == 0;
    fw_device *d;
    state *s, *on_device, *right;
    void *block;
    assert_int_equal(fw_device_create(&d, device_name, NULL), FW_OK);
    assert_int_equal(FW_NEW(s), FW_OK);
    assert_int_equal(FW_NEW(right), FW_OK);
    assert_int_equal(fw_device_alloc(d, &block, sizeof *on_device, "state"), FW_OK);
    on_device = block;
    gradient(s->w, 0);
    for (int i = 0; i < N; i++) s->w[i] *= 64;
    for (int step = 1; step <= STEP_N; step++) {
        const fw_step_options o = {.rule = lion ? FW_STEP_LION : FW_STEP_ADAMW,
                                   .learning_rate = lion ? 1e-4f : 1e-3f,
                                   .weight_decay = 0.01f,
                                   .beta1 = 0.9,
                                   .beta2 = lion ? 0.99 : 0.999,
                                   .epsilon = 1e-8f,
                                   .grad_scale = 1,
                                   .step = step};
        gradient(s->g, (uint64_t)step);
        assert_int_equal(fw_copy(d, on_device, s, sizeof *s), FW_OK);
        assert_int_equal(fw_step_8bit(d, on_device->w, on_device->code1, on_device->scale1,
                                      lion ? NULL : on_device->code2, lion ? NULL : on_device->scale2, on_device->g, N,
                                      &o),
                         FW_OK);
        assert_int_equal(fw_copy(d, s, on_device, sizeof *s), FW_OK);
        expect_crc(want, step, "state1", s->code1, sizeof s->code1);
        expect_crc(want, step, "absmax1", s->scale1, sizeof s->scale1);
        if (!lion) expect_crc(want, step, "state2", s->code2, sizeof s->code2);
        if (!lion) expect_crc(want, step, "absmax2", s->scale2, sizeof s->scale2);
        for (int i = 0; i < N; i++) assert_true(s->g[i] == 0);
    }
    read_base64(right->code1, sizeof right->code1, json_object_get(want, "state1"));
    assert_memory_equal(s->code1, right->code1, sizeof right->code1);
    read_base64(right->scale1, sizeof right->scale1, json_object_get(want, "absmax1"));
    assert_memory_equal(s->scale1, right->scale1, sizeof right->scale1);
    read_base64(right->w, sizeof right->w, json_object_get(want, "weights"));
    int turned = 0;
    for (int i = 0; i < N; i++) {
        /* 50 steps of a rate of 1e-3 at most; the sign of Lion's step may turn where its sum is rounded another way */
        const double difference = fabs((double)s->w[i] - (double)right->w[i]);
        if (difference > 2e-6 * (1 + fabs((double)right->w[i]))) turned++;
        assert_true(difference < 1e-3);
    }
    assert_true(lion ? turned <= N / 500 : turned == 0);
    fw_device_free(d, block, sizeof *on_device);
    fw_device_destroy(d);
    fw_free(s);
    fw_free(right);
}

static void test_adamw(void **state_) {
    (void)state_;
    run("ref", "adamw");
    run("cpu", "adamw");
}
static void test_lion(void **state_) {
    (void)state_;
    run("ref", "lion");
    run("cpu", "lion");
}

static int open_reference(void **state_) {
    (void)state_;
    return fw_json_load(&reference, FW_SOURCE_DIR "/tests/parity/optimizers/state_8bit.json", 1 << 20) == FW_OK ? 0 : 1;
}
static int close_reference(void **state_) {
    (void)state_;
    json_decref(reference);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_adamw), cmocka_unit_test(test_lion)};
    return cmocka_run_group_tests(tests, open_reference, close_reference);
}
