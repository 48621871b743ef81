/* Parts of comm that need no second process: summation loops, environment, CPU shares. */
#include "base/rng.h"
#include "comm/comm.h"
#include "comm/comm_sum.h"
#include "comm/kernels/comm_sum_loops.h"
#include "comm/launcher.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N = 5000 };

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Random bits: infinities, NaN, denormals and both zeros come along. */
static float any_float(uint64_t stream, uint64_t i) {
    uint32_t bits = (uint32_t)fw_rng_bits(7, stream, i);
    if (i % 11 == 0) bits = i % 2 ? 0x80000000u : 0x7f800000u | (bits & 0x80400000u);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static const char *const variant_names[] = {"base", "avx2", "avx512"};

static void fp32_sums_have_the_bits_of_a_plain_loop(void **state) {
    (void)state;
    enum { MOST = 6 };
    static float in[MOST][N], before[MOST][N], apart[N];
    for (int v = 0; v < 3; v++) {
        const fw_comm_loops *loops = fw_comm_loops_variant(variant_names[v]);
        if (loops == NULL) continue;
        for (int in_n = 1; in_n <= MOST; in_n++)
            for (int64_t n = 0; n <= N; n = n < 40 ? n + 1 : n + 1653) {
                for (int r = 0; r < MOST; r++)
                    for (int i = 0; i < N; i++) in[r][i] = before[r][i] = any_float((uint64_t)r, (uint64_t)i);
                void *places[MOST] = {in[0], in[1], in[2], in[3], in[4], in[5]}, *one[1] = {apart};
                loops->sum(one, 1, (const void *const *)places, in_n, n, FW_F32);
                loops->sum(places, in_n, (const void *const *)places, in_n, n, FW_F32);
                for (int64_t i = 0; i < N; i++) {
                    float sum = before[0][i];
                    for (int r = 1; r < in_n; r++) sum += before[r][i];
                    for (int r = 0; r < MOST; r++) {
                        float want = r < in_n && i < n ? sum : before[r][i];
                        if (isnan(want))
                            assert_true(isnan(in[r][i]));
                        else
                            assert_int_equal(bits_of(in[r][i]), bits_of(want));
                        if (r < in_n && i < n) assert_int_equal(bits_of(in[r][i]), bits_of(in[0][i])); /* NaN too */
                    }
                    if (i < n && !isnan(sum)) assert_int_equal(bits_of(apart[i]), bits_of(sum));
                }
            }
    }
}

static void bf16_sums_are_rounded_once(void **state) {
    (void)state;
    enum { MOST = 6 };
    static fw_bf16 in[MOST][N], before[MOST][N], out[N + 3];
    for (int r = 0; r < MOST; r++)
        for (int i = 0; i < N; i++) before[r][i] = (fw_bf16)fw_rng_bits(9, (uint64_t)r, (uint64_t)i);
    for (int v = 0; v < 3; v++) {
        const fw_comm_loops *loops = fw_comm_loops_variant(variant_names[v]);
        if (loops == NULL) continue;
        for (int in_n = 1; in_n <= MOST; in_n++)
            for (int64_t n = 0; n <= N; n = n < 70 ? n + 1 : n + 1643) {
                memcpy(in, before, sizeof in);
                void *places[MOST] = {in[0], in[1], in[2], in[3], in[4], in[5]}, *one[1] = {out + 3};
                loops->sum(one, 1, (const void *const *)places, in_n, n, FW_BF16);
                loops->sum(places, in_n, (const void *const *)places, in_n, n, FW_BF16);
                for (int64_t i = 0; i < N; i++) {
                    float sum = fw_bf16_to_f32(before[0][i]);
                    int nan_n = isnan(sum);
                    for (int r = 1; r < in_n; r++) nan_n += isnan(fw_bf16_to_f32(before[r][i]));
                    for (int r = 1; r < in_n; r++) sum += fw_bf16_to_f32(before[r][i]);
                    if (i >= n) continue;
                    assert_int_equal(in[0][i], out[i + 3]);
                    if (nan_n > 1) /* whose payload it has is the compiler's choice */
                        assert_true(isnan(fw_bf16_to_f32(in[0][i])));
                    else
                        assert_int_equal(in[0][i], fw_bf16_from_f32(sum));
                }
                for (int r = 0; r < MOST; r++)
                    for (int64_t i = 0; i < N; i++)
                        assert_int_equal(in[r][i], r < in_n && i < n ? in[0][i] : before[r][i]);
            }
    }
}

static void every_bf16_value_is_rounded_as_in_base(void **state) {
    (void)state;
    static fw_bf16 a[65536], b[65536], out[65536];
    for (int i = 0; i < 65536; i++) a[i] = (fw_bf16)i;
    for (int v = 0; v < 3; v++) {
        const fw_comm_loops *loops = fw_comm_loops_variant(variant_names[v]);
        if (loops == NULL) continue;
        const void *from[2] = {a, b};
        void *to[1] = {out};
        for (int shift = 0; shift < 12; shift++) { /* a sum of two bf16 values with ties, denormals and overflow */
            for (int i = 0; i < 65536; i++)
                b[i] = (fw_bf16)((i & 0x8000) | (((i & 0x7f80) - shift * 0x80) & 0x7fff) | (i * 37 & 0x7f));
            loops->sum(to, 1, from, 2, 65536, FW_BF16);
            for (int i = 0; i < 65536; i++) {
                float x = fw_bf16_to_f32(a[i]), y = fw_bf16_to_f32(b[i]);
                if (!isnan(x) || !isnan(y)) assert_int_equal(out[i], fw_bf16_from_f32(x + y));
            }
        }
        loops->sum(to, 1, from, 1, 65536, FW_BF16);
        for (int i = 0; i < 65536; i++) assert_int_equal(out[i], fw_bf16_from_f32(fw_bf16_to_f32(a[i])));
    }
    /* 256 + 1 + 1: rounded after each addition it would stay 256 */
    fw_bf16 big = fw_bf16_from_f32(256), one = fw_bf16_from_f32(1), sum;
    fw_comm_sum(&(void *){&sum}, 1, (const void *const[3]){&big, &one, &one}, 3, 1, FW_BF16);
    assert_int_equal(sum, fw_bf16_from_f32(258));
}

static void copies_past_the_caches_are_copies(void **state) {
    (void)state;
    static char from[5000], to[5000];
    for (int i = 0; i < 5000; i++) from[i] = (char)fw_rng_bits(4, 0, (uint64_t)i);
    for (int v = 0; v < 3; v++) {
        const fw_comm_loops *loops = fw_comm_loops_variant(variant_names[v]);
        if (loops == NULL) continue;
        for (size_t bytes = 0; bytes < 400; bytes += bytes < 140 ? 1 : 77)
            for (size_t skew = 0; skew < 70; skew += 3) {
                memset(to, 0, sizeof to);
                loops->copy_past_cache(to + skew, from + skew / 2, bytes);
                assert_memory_equal(to + skew, from + skew / 2, bytes);
                for (size_t i = 0; i < 600; i++)
                    if (i < skew || i >= skew + bytes) assert_int_equal(to[i], 0);
            }
    }
}

static void cpus_are_shared_evenly(void **state) {
    (void)state;
    for (int world = 1; world <= 20; world++)
        for (int cpu_n = 1; cpu_n <= 20; cpu_n++) {
            int used[20] = {0};
            for (int r = 0; r < world; r++) {
                int first, n;
                fw_comm_cpu_share(r, world, cpu_n, &first, &n);
                assert_true(n >= 1 && first >= 0 && first + n <= cpu_n);
                if (cpu_n >= world) assert_true(n == cpu_n / world || n == (cpu_n + world - 1) / world);
                for (int i = first; i < first + n; i++) used[i]++;
            }
            for (int i = 0; i < cpu_n; i++)
                assert_true(cpu_n >= world ? used[i] == 1 : used[i] == world / cpu_n || used[i] == world / cpu_n + 1);
        }
}

static const char *const names[] = {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "FINEWIRE_JOB_SECRET",
                                    "FINEWIRE_LISTEN_FD",
                                    "TORCHELASTIC_USE_AGENT_STORE"};

/* Values in the order of names; NULL: not set. */
static fw_status from(fw_comm_options *o, int *found, const char *const values[9]) {
    for (int i = 0; i < 9; i++) {
        if (values[i] != NULL)
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
    }
    return fw_comm_options_from_environment(o, found);
}

static void the_environment_says_where_a_rank_stands(void **state) {
    (void)state;
    fw_comm_options o;
    int found;
    assert_int_equal(from(&o, &found, (const char *[9]){0}), FW_OK);
    assert_true(!found && o.world == 1 && o.rank == 0 && o.local_world == 1);
    assert_int_equal(from(&o, &found, (const char *[9]){[4] = "somewhere", [5] = "29500"}), FW_OK);
    assert_false(found);
    assert_int_equal(from(&o, &found, (const char *[9]){"3", "4", "1", "2", "host", "29500", "abc", "17"}), FW_OK);
    assert_true(found && o.rank == 3 && o.world == 4 && o.local_rank == 1 && o.local_world == 2 && o.own_launcher);
    assert_string_equal(o.master_address, "host");
    assert_string_equal(o.secret, "abc");
    assert_true(o.master_port == 29500 && o.listen_fd == 0); /* only rank 0 listens */
    assert_int_equal(from(&o, &found, (const char *[9]){"0", "4", [4] = "host", "29500", "abc", "17"}), FW_OK);
    assert_true(o.listen_fd == 17 && o.local_rank == 0 && o.local_world == 4);
    assert_int_equal(from(&o, &found, (const char *[9]){"0", "4", [4] = "host", "29500", [8] = "True"}), FW_OK);
    assert_true(o.master_port == 29501 && o.port_tries > 1 && !o.own_launcher && o.secret[0] == 0);
    assert_int_equal(from(&o, &found, (const char *[9]){"0", "1"}), FW_OK); /* one rank meets nobody */
    assert_true(found);
}

static void half_an_environment_is_an_error_with_its_name(void **state) {
    (void)state;
    static const struct {
        const char *values[9], *named;
    } bad[] = {
        {{"0"}, "WORLD_SIZE"},
        {{[1] = "2"}, "RANK"},
        {{[2] = "0"}, "WORLD_SIZE"},
        {{"2", "2", [4] = "h", "1"}, "RANK=2"},
        {{"-1", "2", [4] = "h", "1"}, "RANK=-1"},
        {{"0", "two", [4] = "h", "1"}, "WORLD_SIZE=two"},
        {{"0", "0"}, "WORLD_SIZE=0"},
        {{"0", "65", [4] = "h", "1"}, "WORLD_SIZE=65"},
        {{"0", "99999999999999999999"}, "WORLD_SIZE="},
        {{"0", "2", [5] = "29500"}, "MASTER_ADDR"},
        {{"0", "2", [4] = "h"}, "MASTER_PORT"},
        {{"0", "2", [4] = "h", "0"}, "MASTER_PORT=0"},
        {{"0", "2", [4] = "h", "65536"}, "MASTER_PORT=65536"},
        {{"0", "2", [4] = "h", "80x"}, "MASTER_PORT=80x"},
        {{"0", "2", "2", "2", "h", "80"}, "LOCAL_RANK=2"},
        {{"0", "2", "0", "3", "h", "80"}, "LOCAL_WORLD_SIZE=3"},
        {{"0", "2", [4] = "h", "80", "s", "1"}, "FINEWIRE_LISTEN_FD=1"},
        {{"0", "2", [4] = "h", "80", "0123456789012345678901234567890123456789012345678901234567890123"},
         "FINEWIRE_JOB_SECRET"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fw_comm_options o;
        int found;
        assert_int_equal(from(&o, &found, bad[i].values), FW_ERR_OPTION);
        if (strstr(fw_trail_message(), bad[i].named) == NULL)
            fail_msg("%s is not in: %s", bad[i].named, fw_trail_message());
    }
}

static void a_group_of_nonsense_is_refused(void **state) {
    (void)state;
    fw_comm *c;
    assert_int_equal(fw_comm_create(&c, &(fw_comm_options){.world = 0}), FW_ERR_OPTION);
    assert_int_equal(fw_comm_create(&c, &(fw_comm_options){.world = FW_COMM_MAX_WORLD + 1}), FW_ERR_OPTION);
    assert_int_equal(fw_comm_create(&c, &(fw_comm_options){.world = 2, .rank = 2}), FW_ERR_OPTION);
    assert_int_equal(fw_comm_create(&c, &(fw_comm_options){.world = 2, .rank = 1}), FW_ERR_OPTION);
    assert_null(c);
    fw_comm_destroy(NULL);
    fw_comm_abort(NULL, FW_ERR_IO);
    /* a file descriptor that is no listening socket */
    fw_comm_options o = {.world = 2, .master_address = "127.0.0.1", .master_port = 1, .listen_fd = 2};
    assert_int_equal(fw_comm_create(&c, &o), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "FINEWIRE_LISTEN_FD"));
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    fw_comm *c;
    float x[4] = {1, 2, 3, 4}, y[4];
    fw_comm_request request = {0};
    assert_int_equal(fw_comm_create(&c, &(fw_comm_options){.world = 1}), FW_OK);
    assert_string_equal(fw_comm_transport(c), "self");
    assert_int_equal(fw_comm_all_reduce(c, x, 4, FW_I32, &request), FW_ERR_INTERNAL);
    assert_int_equal(fw_comm_all_reduce(c, x, -1, FW_F32, &request), FW_ERR_INTERNAL);
    assert_int_equal(fw_comm_broadcast(c, x, 4, 1, &request), FW_ERR_INTERNAL);
    assert_int_equal(fw_comm_reduce_scatter(c, y, x, 4, FW_F32, &request), FW_OK);
    assert_int_equal(fw_comm_wait(c, &request), FW_OK);
    assert_memory_equal(x, y, sizeof x);
    /* after a failure nothing goes on, and the reason stays */
    fw_comm_abort(c, fw_fail(FW_ERR_INPUT, "first"));
    fw_comm_abort(c, fw_fail(FW_ERR_IO, "second"));
    assert_int_equal(fw_comm_all_reduce(c, x, 4, FW_F32, &request), FW_ERR_INPUT);
    assert_string_equal(fw_trail_message(), "first");
    assert_int_equal(fw_comm_barrier(c), FW_ERR_INPUT);
    assert_int_equal(fw_comm_abort_origin(c), 0);
    fw_comm_destroy(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_sums_have_the_bits_of_a_plain_loop),
        cmocka_unit_test(bf16_sums_are_rounded_once),
        cmocka_unit_test(every_bf16_value_is_rounded_as_in_base),
        cmocka_unit_test(copies_past_the_caches_are_copies),
        cmocka_unit_test(cpus_are_shared_evenly),
        cmocka_unit_test(the_environment_says_where_a_rank_stands),
        cmocka_unit_test(half_an_environment_is_an_error_with_its_name),
        cmocka_unit_test(a_group_of_nonsense_is_refused),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
