/* plan: rows are the blocks that are allocated and add up, and what does not fit is refused with both figures and a
 * strategy that would. */
#include "base/alloc.h"
#include "plan/job_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const size_t gib = (size_t)1 << 30;

static void test_arena(void **state) {
    (void)state;
    fw_arena a = {0};
    assert_int_equal(fw_arena_add(&a, FW_MEMORY_DEVICE, "nothing", 0), -1);
    assert_int_equal(fw_arena_add(&a, FW_MEMORY_DEVICE, "one", 1), 0);
    assert_int_equal(fw_arena_add(&a, FW_MEMORY_SHARED, "other", 64), 1);
    assert_int_equal(fw_arena_add(&a, FW_MEMORY_DEVICE, "two", 100), 2);
    assert_int_equal(a.block[2].offset_bytes, 64);
    assert_int_equal(a.bytes[FW_MEMORY_DEVICE], 64 + 128);
    assert_int_equal(a.bytes[FW_MEMORY_SHARED], 64);
    char base[256];
    a.base[FW_MEMORY_DEVICE] = base;
    assert_ptr_equal(fw_arena_at(&a, 2), base + 64);
    assert_null(fw_arena_at(&a, -1));
    fw_arena_add(&a, FW_MEMORY_DEVICE, "all there is", SIZE_MAX - 70);
    assert_int_equal(a.bytes[FW_MEMORY_DEVICE], SIZE_MAX); /* does not wrap round */
    fw_memory_plan plan;
    fw_memory_plan_make(&plan, &a, 1, 1);
    assert_int_equal(plan.total_bytes, SIZE_MAX);
}

static void test_rows(void **state) {
    (void)state;
    fw_arena a = {0}, empty = {0};
    fw_arena_add(&a, FW_MEMORY_DEVICE, "weights (fp32)", 448);
    fw_arena_add(&a, FW_MEMORY_SHARED, "gradients (fp32)", 640);
    fw_memory_plan plan, bare;
    fw_memory_plan_make(&plan, &a, 50, 60);
    fw_memory_plan_make(&bare, &empty, 0, 0);
    assert_int_equal(plan.total_bytes - bare.total_bytes, 448 + 640 + 50 + 60);
    assert_int_equal(plan.device_bytes, 448 + 50);
    assert_int_equal(plan.shared_bytes, 640);
    size_t sum = 0;
    for (int i = 0; i < plan.row_n; i++) sum += plan.row[i].bytes;
    assert_int_equal(sum, plan.total_bytes);
    assert_int_equal(bare.row_n, 1); /* a row of nothing is not shown */
}

static void test_fit(void **state) {
    (void)state;
    fw_arena a = {0};
    fw_arena_add(&a, FW_MEMORY_DEVICE, "weights (fp32)", 4 * gib);
    fw_arena_add(&a, FW_MEMORY_DEVICE, "optimizer moments (fp32)", 8 * gib);
    fw_arena_add(&a, FW_MEMORY_SHARED, "gradients (fp32)", 4 * gib);
    fw_memory_plan plan;
    fw_memory_plan_make(&plan, &a, 0, 0);
    fw_memory_budget b = {.ranks = 2, .available_bytes = 2 * (uint64_t)plan.total_bytes};
    assert_int_equal(fw_memory_plan_check(&plan, &b, NULL), FW_OK);
    b.device_bytes = plan.total_bytes;
    assert_true(fw_memory_plan_fits(&plan, &b));
    b.device_bytes--;
    assert_int_equal(fw_memory_plan_check(&plan, &b, NULL), FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "--device_memory allows 16.05 GiB"));
    b = (fw_memory_budget){.ranks = 2, .available_bytes = 2 * (uint64_t)plan.total_bytes - 1};
    assert_int_equal(fw_memory_plan_check(&plan, &b, "buy more"), FW_ERR_FIT);
    assert_non_null(
        strstr(fw_trail_message(), "a rank needs 16.05 GiB, 2 ranks together 32.09 GiB, and 32.09 GiB are free"));
    assert_non_null(strstr(fw_trail_message(), "optimizer moments (fp32) with 8.00 GiB: buy more"));
    /* on GPUs: what is a GPU's need not fit into the host, and what is the host's not into a GPU */
    b = (fw_memory_budget){.ranks = 8, .available_bytes = gib, .on_gpu = true, .gpu_bytes = 16 * gib};
    assert_int_equal(fw_memory_plan_check(&plan, &b, NULL), FW_OK);
    b.gpu_bytes--;
    assert_int_equal(fw_memory_plan_check(&plan, &b, "buy more"), FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "a rank needs 16.00 GiB of its GPU and 16.00 GiB are free there"));
    b.gpu_bytes++;
    b.device_bytes = 15 * gib;
    assert_int_equal(fw_memory_plan_check(&plan, &b, NULL), FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "a rank needs 16.00 GiB and --device_memory allows 15.00 GiB"));
    b = (fw_memory_budget){.ranks = 8, .available_bytes = gib / 8, .on_gpu = true, .gpu_bytes = 16 * gib};
    assert_int_equal(fw_memory_plan_check(&plan, &b, NULL), FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "of the host's memory beside its GPU"));
    b = (fw_memory_budget){.ranks = 64, .available_bytes = UINT64_MAX};
    assert_int_equal(fw_memory_plan_check(&plan, &b, NULL), FW_OK);
}

/* ---- whole plans */

/* About the shape of a model of half a thousand million parameters. */
static const fw_model_config half_billion = {.architecture = FW_ARCH_QWEN2,
                                             .L = 24,
                                             .C = 896,
                                             .H = 14,
                                             .K = 2,
                                             .D = 64,
                                             .F = 4864,
                                             .V = 151936,
                                             .max_position = 32768,
                                             .rms_eps = 1e-6f,
                                             .qkv_bias = true,
                                             .tied = true};

static fw_plan_input input_of(const fw_model *model, int world, fw_shard_options shard) {
    shard.training = true;
    shard.t = model->t;
    return (fw_plan_input){
        .model = model,
        .activations = {.mode = FW_ACTIVATIONS_RECOMPUTE, .N_max = 1024, .n_max = 1024, .chunk_n = 64, .P = 1024},
        .shard = shard,
        .world = world,
        .micro_n = 4};
}

static size_t state_bytes(const fw_job_plan *p) {
    const fw_shard_bytes *b = &p->layout.bytes;
    return b->master + b->compute + b->gradient + b->state;
}

/* The table of bytes a parameter, to the byte plus padding: every part is rounded up to blocks of 256 elements. */
static void check_state(const fw_model *model, int world, fw_shard_strategy strategy, fw_dtype gradient_t,
                        double bytes_per_parameter) {
    fw_shard_options shard = {.strategy = strategy, .gradient_t = gradient_t, .sync_each = true};
    if (strategy == FW_SHARD_DDP || strategy == FW_SHARD_ZERO1) shard.sync_each = false;
    fw_plan_input in = input_of(model, world, shard);
    fw_memory_budget all = {.ranks = 1, .available_bytes = UINT64_MAX};
    fw_job_plan p;
    assert_int_equal(fw_job_plan_make(&p, &in, &all), FW_OK);
    double want = bytes_per_parameter * (double)model->table.parameter_n;
    double padding = bytes_per_parameter * (double)(p.layout.full_n - model->table.parameter_n);
    assert_true((double)state_bytes(&p) >= want - 0.5);
    assert_true((double)state_bytes(&p) <= want + padding + 0.5);
    assert_true(p.layout.full_n - model->table.parameter_n <=
                (int64_t)p.layout.bucket_n * (FW_STATE_BLOCK_N * world + 16 * 16 + 256));
    fw_job_plan_fini(&p);
}

static void test_bytes_a_parameter(void **state) {
    (void)state;
    fw_model m;
    assert_int_equal(fw_model_init(&m, &half_billion, FW_BF16), FW_OK);
    for (int world = 1; world <= 8; world++) {
        double N = world;
        check_state(&m, world, FW_SHARD_DDP, FW_F32, 16);
        check_state(&m, world, FW_SHARD_ZERO3, FW_F32, 16 / N);
        check_state(&m, world, FW_SHARD_DDP, FW_BF16, 16);
        check_state(&m, world, FW_SHARD_ZERO1, FW_BF16, 4 + 12 / N);
        check_state(&m, world, FW_SHARD_ZERO2, FW_BF16, 2 + 14 / N);
        check_state(&m, world, FW_SHARD_ZERO3, FW_BF16, 16 / N);
        if (world == 1) continue; /* one rank shares nothing: no bf16 copy is kept */
        check_state(&m, world, FW_SHARD_ZERO1, FW_F32, 6 + 12 / N);
        check_state(&m, world, FW_SHARD_ZERO2, FW_F32, 2 + 16 / N);
    }
    fw_model_fini(&m);
}

/* D44: what is known of a model of seven thousand million parameters: 7.62e9 x 16 = 121.9 GB; on two ranks with
 * gradients in bf16 16, 10, 9, 8 bytes a parameter. */
static void test_seven_billion(void **state) {
    (void)state;
    static const fw_model_config config = {.architecture = FW_ARCH_QWEN2, /* Qwen2.5-7B */
                                           .L = 28,
                                           .C = 3584,
                                           .H = 28,
                                           .K = 4,
                                           .D = 128,
                                           .F = 18944,
                                           .V = 152064,
                                           .max_position = 131072,
                                           .rms_eps = 1e-6f,
                                           .qkv_bias = true};
    static const struct {
        int world;
        fw_shard_strategy strategy;
        fw_dtype gradient_t;
        double bytes, total_gb;
    } table[] = {{1, FW_SHARD_DDP, FW_F32, 16, 121.85},   {2, FW_SHARD_DDP, FW_BF16, 16, 121.85},
                 {2, FW_SHARD_ZERO1, FW_BF16, 10, 76.16}, {2, FW_SHARD_ZERO2, FW_BF16, 9, 68.54},
                 {2, FW_SHARD_ZERO3, FW_BF16, 8, 60.92},  {8, FW_SHARD_ZERO3, FW_F32, 2, 15.23}};
    fw_model m;
    assert_int_equal(fw_model_init(&m, &config, FW_BF16), FW_OK);
    assert_int_equal(m.table.parameter_n, 7615616512);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        check_state(&m, table[i].world, table[i].strategy, table[i].gradient_t, table[i].bytes);
        fw_plan_input in = input_of(&m, table[i].world,
                                    (fw_shard_options){.strategy = table[i].strategy,
                                                       .gradient_t = table[i].gradient_t,
                                                       .sync_each = table[i].strategy >= FW_SHARD_ZERO2});
        fw_memory_budget all = {.ranks = 1, .available_bytes = UINT64_MAX};
        fw_job_plan p;
        assert_int_equal(fw_job_plan_make(&p, &in, &all), FW_OK);
        assert_true((double)state_bytes(&p) * 1e-9 > table[i].total_gb - 0.01);
        assert_true((double)state_bytes(&p) * 1e-9 < table[i].total_gb + 0.01);
        fw_job_plan_fini(&p);
    }
    fw_model_fini(&m);
}

/* `auto` takes the lowest that fits and says why; what was asked for and does not fit names what would. */
static void test_choice(void **state) {
    (void)state;
    fw_model m;
    assert_int_equal(fw_model_init(&m, &half_billion, FW_BF16), FW_OK);
    size_t need[FW_SHARD_ZERO3 + 1];
    fw_memory_budget all = {.ranks = 1, .available_bytes = UINT64_MAX};
    fw_job_plan p;
    for (int s = FW_SHARD_DDP; s <= FW_SHARD_ZERO3; s++) {
        fw_plan_input in = input_of(
            &m, 4,
            (fw_shard_options){.strategy = (fw_shard_strategy)s, .sync_each = s >= FW_SHARD_ZERO2, .prefetch = 1});
        assert_int_equal(fw_job_plan_make(&p, &in, &all), FW_OK);
        need[s] = p.memory.total_bytes;
        fw_job_plan_fini(&p);
        if (s > 0) assert_true(need[s] < need[s - 1]);
    }
    for (int s = FW_SHARD_DDP; s <= FW_SHARD_ZERO3; s++) {
        fw_plan_input in = input_of(&m, 4, (fw_shard_options){.prefetch = 1});
        in.choose_strategy = in.choose_sync = true;
        fw_memory_budget budget = {.ranks = 4, .available_bytes = UINT64_MAX, .device_bytes = need[s]};
        assert_int_equal(fw_job_plan_make(&p, &in, &budget), FW_OK);
        assert_int_equal(p.layout.options.strategy, s);
        assert_int_equal(p.memory.total_bytes, need[s]);
        assert_int_equal(p.layout.options.sync_each, s >= FW_SHARD_ZERO2);
        if (s > 0) assert_non_null(strstr(p.strategy_reason, "ddp needs 7.8"));
        for (int other = FW_SHARD_DDP; s > 0 && other <= s; other++) { /* all that were tried, with what they need */
            char size[FW_PLAN_SIZE_BYTES], part[96];
            fw_plan_size(size, need[other]);
            snprintf(part, sizeof part,
                     other == s   ? "; %s fits with %s"
                     : other == 0 ? "%s needs %s a rank, "
                                  : ", %s %s, ",
                     fw_shard_strategy_name((fw_shard_strategy)other), size);
            assert_non_null(strstr(p.strategy_reason, part));
        }
        if (s > 0) assert_non_null(strstr(p.strategy_reason, " allowed; "));
        if (s >= FW_SHARD_ZERO2) assert_non_null(strstr(p.sync_reason, "after every micro-batch, since"));
        fw_job_plan_fini(&p);
    }
    fw_plan_input in = input_of(&m, 4, (fw_shard_options){.strategy = FW_SHARD_DDP});
    in.choose_sync = true;
    fw_memory_budget budget = {.ranks = 4, .available_bytes = UINT64_MAX, .device_bytes = need[FW_SHARD_ZERO2]};
    assert_int_equal(fw_job_plan_make(&p, &in, &budget), FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "--strategy zero2 needs"));
    budget.device_bytes = need[FW_SHARD_ZERO3] - 1;
    in.choose_strategy = true;
    in.shard.prefetch = 1;
    assert_int_equal(fw_job_plan_make(&p, &in, &budget), FW_ERR_FIT);
    assert_non_null(
        strstr(fw_trail_message(), "--num_processes 5 with --strategy zero3 needs")); /* more ranks, less each */
    budget.device_bytes = (uint64_t)1 << 20;                                          /* nothing helps */
    assert_int_equal(fw_job_plan_make(&p, &in, &budget), FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "allow more, or use a smaller"));
    fw_model_fini(&m);
}

/* On one rank there is nothing to share; with one micro-batch nothing to hold. */
static void test_no_choice(void **state) {
    (void)state;
    fw_model m;
    assert_int_equal(fw_model_init(&m, &half_billion, FW_BF16), FW_OK);
    fw_memory_budget all = {.ranks = 1, .available_bytes = UINT64_MAX};
    fw_job_plan p;
    size_t ddp_bytes = 0;
    for (int s = FW_SHARD_DDP; s < FW_SHARD_STRATEGY_N; s++) {
        fw_plan_input in =
            input_of(&m, 1, (fw_shard_options){.strategy = (fw_shard_strategy)s, .prefetch = 1, .group_n = 1});
        assert_int_equal(fw_job_plan_make(&p, &in, &all), FW_OK);
        assert_int_equal(p.layout.options.strategy, FW_SHARD_DDP);
        if (s == FW_SHARD_DDP) ddp_bytes = p.memory.total_bytes;
        assert_int_equal(p.memory.total_bytes, ddp_bytes);
        assert_true((strstr(p.strategy_reason, "one rank has nothing to share") != NULL) == (s != FW_SHARD_DDP));
        fw_job_plan_fini(&p);
    }
    for (int s = FW_SHARD_DDP; s <= FW_SHARD_ZERO3; s++)
        for (int each = 0; each < 2; each++) {
            fw_plan_input in = input_of(
                &m, 2, (fw_shard_options){.strategy = (fw_shard_strategy)s, .sync_each = each != 0, .prefetch = 1});
            in.micro_n = 1;
            assert_int_equal(fw_job_plan_make(&p, &in, &all), FW_OK);
            assert_int_equal(p.layout.options.sync_each, s >= FW_SHARD_ZERO2);
            fw_job_plan_fini(&p);
            in.micro_n = 2;
            assert_int_equal(fw_job_plan_make(&p, &in, &all), FW_OK);
            assert_int_equal(p.layout.options.sync_each, each);
            fw_job_plan_fini(&p);
        }
    fw_model_fini(&m);
}

static void test_groups(void **state) {
    (void)state;
    fw_model m;
    assert_int_equal(fw_model_init(&m, &half_billion, FW_BF16), FW_OK);
    fw_memory_budget all = {.ranks = 1, .available_bytes = UINT64_MAX};
    fw_job_plan p;
    fw_plan_input in = input_of(&m, 6, (fw_shard_options){.strategy = FW_SHARD_HSDP, .group_n = 4});
    assert_int_equal(fw_job_plan_make(&p, &in, &all), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "does not divide the 6 ranks"));
    in.shard.group_n = 3;
    assert_int_equal(fw_job_plan_make(&p, &in, &all), FW_OK);
    assert_true(p.layout.S == 3 && p.layout.R == 2);
    fw_job_plan_fini(&p);
    for (uint64_t n = 1;; n++) { /* the n-th allocation fails */
        fw_alloc_fail_at(n);
        fw_status status = fw_job_plan_make(&p, &in, &all);
        fw_alloc_fail_at(0);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    fw_job_plan_fini(&p);
    fw_model_fini(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arena),         cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_fit),           cmocka_unit_test(test_bytes_a_parameter),
                                       cmocka_unit_test(test_seven_billion), cmocka_unit_test(test_choice),
                                       cmocka_unit_test(test_no_choice),     cmocka_unit_test(test_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
