/* What is recommended, and why: each rule has a case where it decides and one where it does not. */
#include "plan/report.h"
#include "plan/split_model.h"
#include "support/plan_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

typedef struct wish {
    const char *model, *gpu;
    int world;
    fw_method method;
    int64_t micro_n;
    bool keep; /* activations */
} wish;

static fw_plan_advice advise(wish w) {
    fw_test_plan p;
    fw_plan_advice a;
    fw_test_plan_init(&p, w.model, w.gpu, w.world);
    p.s.method = w.method;
    if (w.micro_n > 0) p.s.micro_n = w.micro_n;
    p.s.recompute = !w.keep;
    assert_int_equal(fw_plan_advise(&a, &p.s), FW_OK);
    fw_test_plan_fini(&p);
    return a;
}

static void says(const fw_plan_advice *a, const char *text) {
    if (strstr(a->reason, text) == NULL) fail_msg("\"%s\" is not in: %s", text, a->reason);
}

static void test_one_card(void **state) {
    (void)state;
    fw_plan_advice a = advise((wish){"Qwen2.5-0.5B", "rtx4090", 1, FW_METHOD_AUTO, 0, false});
    assert_true(a.fits && a.method == FW_METHOD_FULL && a.strategy == FW_SHARD_DDP);
    says(&a, "A full fine-tune fits on one card");
    assert_null(strstr(a.reason, "throughput")); /* there is no other */
    a = advise((wish){"Qwen2.5-0.5B", "rtx4090", 4, FW_METHOD_AUTO, 0, false});
    assert_true(a.fits && a.one_job_each && a.strategy == FW_SHARD_DDP);
    says(&a, "The other 3 are for throughput: one job per card uses no wire at all; ddp makes one run finish sooner");
}

/* Activations that were to be kept are recomputed where that makes it fit, and it is said. */
static void test_recompute(void **state) {
    (void)state;
    fw_test_plan p;
    fw_plan_advice a;
    fw_test_plan_init(&p, "Qwen2.5-0.5B", "rtx4090", 1);
    p.s.recompute = false;
    p.s.length = 32768;
    assert_false(fw_test_plan_case(&p, FW_SHARD_DDP).fits);
    assert_int_equal(fw_plan_advise(&a, &p.s), FW_OK);
    assert_true(a.fits && a.scenario.recompute);
    says(&a, "when blocks are recomputed");
    fw_test_plan_fini(&p);
}

static void test_adapters(void **state) {
    (void)state;
    fw_plan_advice a = advise((wish){"Qwen2.5-7B", "rtx5090", 1, FW_METHOD_AUTO, 0, false});
    assert_true(a.fits && a.method == FW_METHOD_LORA);
    says(&a, "A full fine-tune does not fit on one card");
    says(&a, "If it must be all weights: --method full");
    a = advise((wish){"Qwen2.5-32B", "rtx5090", 1, FW_METHOD_AUTO, 0, false});
    assert_true(a.fits && a.method == FW_METHOD_QLORA);
    says(&a, "LoRA of rank 16 does not fit");
    /* asked for, it is not changed into another */
    a = advise((wish){"Qwen2.5-32B", "rtx5090", 1, FW_METHOD_LORA, 0, false});
    assert_true(!a.fits && a.method == FW_METHOD_LORA);
    /* too large even in 4 bits: shared out */
    a = advise((wish){"Llama-3.1-405B", "h100-sxm", 8, FW_METHOD_AUTO, 0, false});
    assert_true(a.fits && !a.one_job_each && a.method == FW_METHOD_QLORA && a.strategy == FW_SHARD_ZERO3);
}

static void test_lowest_sharding(void **state) {
    (void)state;
    fw_plan_advice a = advise((wish){"Qwen3-8B", "l40s", 8, FW_METHOD_FULL, 0, false});
    assert_true(a.fits && a.strategy == FW_SHARD_ZERO2 && a.scenario.micro_n == 8);
    says(&a, "zero2, the lowest sharding that does");
    says(&a, "126.72 GiB under ddp, 59.20 GiB under zero1");
    says(&a, "The wire is slow");
    a = advise((wish){"Qwen3-8B", "h100-sxm", 8, FW_METHOD_FULL, 0, false});
    assert_true(a.fits && a.strategy == FW_SHARD_ZERO1 && a.scenario.micro_n == 1); /* NVLink: no need to accumulate */
    a = advise((wish){"Qwen2.5-7B", "rtx5090", 8, FW_METHOD_FULL, 0, false});
    assert_true(a.fits && a.strategy == FW_SHARD_ZERO3);
    says(&a, "Weights are still gathered for every micro-batch");
    says(&a, "Gradients are summed for every micro-batch, since holding all of them does not fit");
    says(&a, "More tokens in a micro-batch help more");
    a = advise((wish){"Qwen2.5-7B", "rtx5090", 8, FW_METHOD_FULL, 16, false}); /* more than 8 stays */
    assert_int_equal(a.scenario.micro_n, 16);
}

/* Over machines with a slow network each keeps a copy where it fits, so that gathers stay inside; with a fast one, none. */
static void test_hybrid(void **state) {
    (void)state;
    static const fw_shard_strategy wanted[] = {FW_SHARD_HSDP, FW_SHARD_ZERO3};
    static const double rates[] = {10e9, 320e9};
    for (int i = 0; i < 2; i++) {
        fw_test_plan p;
        fw_plan_advice a;
        fw_test_plan_init(&p, "Qwen3-32B", "a100-80gb", 32);
        p.s.site.between.real_rate = rates[i];
        assert_int_equal(fw_plan_advise(&a, &p.s), FW_OK);
        assert_true(a.fits);
        assert_int_equal(a.strategy, wanted[i]);
        assert_int_equal(a.scenario.micro_n, i == 0 ? 8 : 1);
        fw_test_plan_fini(&p);
    }
}

/* A strategy that was asked for is kept, and where it does not fit the one that would is named. */
static void test_strategy_asked(void **state) {
    (void)state;
    fw_test_plan p;
    fw_plan_advice a;
    fw_test_plan_init(&p, "Qwen3-8B", "l40s", 8);
    p.s.strategy_said = true;
    p.s.strategy = FW_SHARD_ZERO3;
    assert_int_equal(fw_plan_advise(&a, &p.s), FW_OK);
    assert_true(a.fits && a.strategy == FW_SHARD_ZERO3);
    says(&a, "fits under zero3, as asked");
    p.s.strategy = FW_SHARD_ZERO1;
    assert_int_equal(fw_plan_advise(&a, &p.s), FW_OK);
    assert_true(!a.fits && a.strategy == FW_SHARD_ZERO1);
    says(&a, "Under zero2 it would fit");
    p.s.strategy = FW_SHARD_HSDP;
    p.s.group_n = 3;
    assert_int_equal(fw_plan_advise(&a, &p.s), FW_ERR_OPTION);
    fw_test_plan_fini(&p);
    /* gradients in bf16 are not added up over micro-batches */
    fw_test_plan_init(&p, "Qwen2.5-7B", "rtx5090", 8);
    p.s.shard.gradient_t = FW_BF16;
    assert_int_equal(fw_plan_advise(&a, &p.s), FW_OK);
    assert_true(a.fits && a.scenario.micro_n == 1);
    fw_test_plan_fini(&p);
}

static void test_nothing_fits(void **state) {
    (void)state;
    fw_plan_advice a = advise((wish){"Qwen2.5-7B", "rtx5090", 2, FW_METHOD_FULL, 0, false});
    assert_false(a.fits);
    says(&a, "Nor do 2 share it out");
    says(&a, "6 of these cards would do under zero3");
    says(&a, "QLoRA would fit on one");
    fw_test_plan p;
    fw_test_plan_init(&p, "Llama-3.1-405B", "rtx4080", 8);
    p.s.method = FW_METHOD_FULL;
    p.s.length = 131072;
    assert_int_equal(fw_plan_advise(&a, &p.s), FW_OK);
    assert_false(a.fits);
    says(&a, "No number of these cards does");
    fw_test_plan_fini(&p);
}

/* Never over PCIe, whatever fits; in, where NVLink is and sharding does not do. */
static void test_tensor(void **state) {
    (void)state;
    static const struct {
        const char *model, *gpu;
        int world;
        bool in;
    } cases[] = {{"Llama-3.1-70B", "l40s", 8, false},
                 {"Qwen2.5-7B", "rtx5090", 2, false},
                 {"Qwen3-8B", "h100-sxm", 8, false},
                 {"Llama-3.1-70B", "h100-sxm", 8, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_test_plan p;
        fw_plan_split t;
        fw_test_plan_init(&p, cases[i].model, cases[i].gpu, cases[i].world);
        const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
        fw_plan_split_tensor(&t, &p.s, &c);
        assert_int_equal(t.ruled_in, cases[i].in);
        assert_true(t.wire_bytes > 0 && t.wire_ms > 0);
        assert_int_equal(p.model.config.K % t.way, 0);
        fw_test_plan_fini(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_card),        cmocka_unit_test(test_recompute), cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_lowest_sharding), cmocka_unit_test(test_hybrid),    cmocka_unit_test(test_nothing_fits),
        cmocka_unit_test(test_strategy_asked),  cmocka_unit_test(test_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
