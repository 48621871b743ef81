/* bench step: which strategies are tried, and which is recommended. */
#include "cli/bench_step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static int strategies(const char *asked, int64_t process_n, int64_t group, fw_strategy out[FW_BENCH_STRATEGY_N]) {
    char text[100] = "";
    int n;
    fw_options o = {.num_processes = process_n, .shard_group_size = group};
    if (asked != NULL) {
        strcpy(text, asked);
        o.strategies = text;
    }
    return fw_bench_step_strategies(out, &n, &o) == FW_OK ? n : -1;
}

static void test_strategies(void **state) {
    (void)state;
    fw_strategy s[FW_BENCH_STRATEGY_N];
    assert_int_equal(strategies(NULL, 1, 0, s), 1);
    assert_int_equal(s[0], FW_STRATEGY_DDP);
    assert_int_equal(strategies(NULL, 4, 0, s), 4);
    assert_int_equal(s[3], FW_STRATEGY_ZERO3);
    assert_int_equal(strategies(NULL, 4, 4, s), 4); /* hsdp of one group is zero3 */
    assert_int_equal(strategies(NULL, 4, 2, s), 5);
    assert_int_equal(s[4], FW_STRATEGY_HSDP);
    assert_int_equal(strategies("hsdp_zero2,ddp", 4, 2, s), 2);
    assert_int_equal(s[0], FW_STRATEGY_HSDP_ZERO2);
    assert_int_equal(strategies("ddp,zero1,zero2,zero3,hsdp,hsdp_zero2", 4, 2, s), FW_BENCH_STRATEGY_N);
    assert_int_equal(strategies("ddp,", 4, 0, s), -1);
    assert_int_equal(strategies("auto", 4, 0, s), -1);
    assert_int_equal(strategies("ddp,zero1,zero2,zero3,hsdp,hsdp_zero2,ddp", 4, 0, s), -1);
    assert_int_equal(strategies("ddp zero1 zero2 zero3 hsdp hsdp_zero2 and so on", 4, 0, s), -1);
}

static int choose(const fw_bench_step_row *rows, int n, const char *says) {
    char reason[FW_BENCH_MESSAGE_BYTES];
    int best = fw_bench_step_choose(rows, n, reason, sizeof reason);
    if (strstr(reason, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", reason, says);
    return best;
}

static void test_choice(void **state) {
    (void)state;
    const int64_t gib = INT64_C(1) << 30;
    fw_bench_step_row r[] = {
        {.strategy = FW_STRATEGY_DDP, .fits = true, .tokens_per_s = 1000, .planned_bytes = 8 * gib},
        {.strategy = FW_STRATEGY_ZERO1, .fits = true, .tokens_per_s = 980, .planned_bytes = 5 * gib},
        {.strategy = FW_STRATEGY_ZERO2, .fits = true, .tokens_per_s = 971, .planned_bytes = 4 * gib},
        {.strategy = FW_STRATEGY_ZERO3, .fits = true, .tokens_per_s = 900, .planned_bytes = 2 * gib},
    };
    assert_int_equal(
        choose(r, 4, "971 tokens/s, within 3 % of the fastest (ddp, 1000), in 4.0 GiB a rank instead of 8.0"), 2);
    r[2].tokens_per_s = 960;
    assert_int_equal(choose(r, 4, "980 tokens/s"), 1);
    r[1].tokens_per_s = 960;
    assert_int_equal(choose(r, 4, "the fastest, 1000 tokens/s, in 8.0 GiB"), 0);
    r[0].fits = false; /* what does not fit is not the fastest, whatever stands there */
    assert_int_equal(choose(r, 4, "960 tokens/s, within 3 % of the fastest (zero1, 960), in 4.0 GiB"), 2);
    r[1].fits = r[2].fits = r[3].fits = false;
    assert_int_equal(choose(r, 4, "none of them fits"), -1);
    r[3].fits = true;
    assert_int_equal(choose(r, 4, "900 tokens/s"), 3);
    assert_int_equal(choose(&r[3], 1, "nothing else was tried"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strategies), cmocka_unit_test(test_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
