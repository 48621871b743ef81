/* The questions the other way round, against trying every value. */
#include "plan/solve.h"
#include "support/plan_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool fits(const fw_plan_scenario *s, fw_shard_strategy strategy) {
    fw_plan_case c;
    assert_int_equal(fw_plan_case_make(&c, s, strategy), FW_OK);
    return c.possible && c.fits;
}

static const fw_shard_strategy all[] = {FW_SHARD_DDP, FW_SHARD_ZERO1, FW_SHARD_ZERO2, FW_SHARD_ZERO3, FW_SHARD_HSDP};
enum { ALL_N = sizeof all / sizeof all[0] };

static void check_devices(const char *model, const char *gpu, fw_method method) {
    fw_test_plan p;
    fw_test_plan_init(&p, model, gpu, 1);
    p.s.method = method;
    for (int i = 0; i < ALL_N; i++) {
        int found, wanted = 0;
        assert_int_equal(fw_plan_fewest_devices(&found, &p.s, all[i]), FW_OK);
        for (int world = 1; world <= 256 && wanted == 0; world++) {
            fw_plan_scenario tried = p.s;
            if (!fw_plan_site_resize(&tried.site, world)) continue;
            tried.group_n = tried.site.node_n;
            if (fits(&tried, all[i])) wanted = world;
        }
        if (wanted == 0 ? found > 0 && found <= 256 : found != wanted)
            fail_msg("%s on %s, %s: %d devices by search, %d one by one", model, gpu, fw_shard_strategy_name(all[i]),
                     found, wanted);
    }
    fw_test_plan_fini(&p);
}

static void test_devices(void **state) {
    (void)state;
    check_devices("Qwen2.5-0.5B", "rtx4090", FW_METHOD_FULL);
    check_devices("Qwen2.5-7B", "rtx5090", FW_METHOD_FULL);
    check_devices("Qwen3-8B", "l40s", FW_METHOD_FULL);
    check_devices("Qwen3-32B", "a100-40gb", FW_METHOD_FULL);
    check_devices("Llama-3.1-70B", "h100-sxm", FW_METHOD_FULL);
    check_devices("Llama-3.1-70B", "rtx4090", FW_METHOD_LORA);
    check_devices("Llama-3.1-405B", "h100-sxm", FW_METHOD_QLORA);
}

/* The answer fits, one more does not; and where trying all is quick, all below fit too. */
static void check_room(const char *model, const char *gpu, int world, fw_shard_strategy strategy, bool recompute) {
    fw_test_plan p;
    int64_t length, batch;
    fw_test_plan_init(&p, model, gpu, world);
    p.s.recompute = recompute;
    p.model.config.max_position = 0; /* memory alone */
    assert_int_equal(fw_plan_longest(&length, &p.s, strategy), FW_OK);
    assert_int_equal(fw_plan_largest_batch(&batch, &p.s, strategy), FW_OK);
    fw_plan_scenario tried = p.s;
    for (int64_t n = batch > 64 ? batch - 64 : 1; n <= batch; n++) {
        tried.batch = n;
        assert_true(fits(&tried, strategy));
    }
    tried.batch = batch + 1;
    assert_false(fits(&tried, strategy));
    tried = p.s;
    for (int64_t n = length > 64 ? length - 64 : 1; n <= length; n++) {
        tried.length = n;
        assert_true(fits(&tried, strategy));
    }
    tried.length = length + 1;
    assert_false(fits(&tried, strategy));
    p.model.config.max_position = 1000; /* never more than the model was made for */
    const int64_t memory_allows = length;
    assert_int_equal(fw_plan_longest(&length, &p.s, strategy), FW_OK);
    assert_int_equal(length, memory_allows < 1000 ? memory_allows : 1000);
    fw_test_plan_fini(&p);
}

/* A 70B on sixteen cards of 80 GB: states of 65.7 GiB fit, and beside them what is gathered and reduced at a time, 21.3 GiB
 * for the edge and the blocks at work, does not, with prefetch or without; so the fewest are 24. */
static void test_seventy_billion_at_work(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Llama-3.1-70B", "h100-sxm", 16);
    for (p.s.shard.prefetch = 1; p.s.shard.prefetch >= 0; p.s.shard.prefetch--) {
        int fewest;
        const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
        fw_test_near(fw_test_plan_state(&c) / 1073741824.0, 65.71, 0.05);
        fw_test_near((double)c.part[FW_PLAN_GATHERED] / 1073741824.0, p.s.shard.prefetch > 0 ? 21.30 : 19.71, 0.02);
        assert_false(c.fits);
        assert_int_equal(fw_plan_fewest_devices(&fewest, &p.s, FW_SHARD_ZERO3), FW_OK);
        assert_int_equal(fewest, 24);
    }
    fw_test_plan_fini(&p);
}

static void test_room(void **state) {
    (void)state;
    check_room("Qwen2.5-0.5B", "rtx4090", 1, FW_SHARD_DDP, true);
    check_room("Qwen2.5-0.5B", "rtx4090", 2, FW_SHARD_DDP, false);
    check_room("Qwen2.5-7B", "rtx5090", 8, FW_SHARD_ZERO3, true);
    check_room("Qwen2.5-7B", "rtx5090", 2, FW_SHARD_ZERO3, true); /* nothing: 0 */
    check_room("Qwen3-8B", "l40s", 8, FW_SHARD_ZERO2, false);
    check_room("SmolLM2-135M", "b200", 1, FW_SHARD_DDP, true); /* more than a micro-batch may have */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices), cmocka_unit_test(test_room),
                                       cmocka_unit_test(test_seventy_billion_at_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
