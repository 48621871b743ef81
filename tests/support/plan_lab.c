#include "support/plan_lab.h"

#include "plan/known_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void fw_test_plan_init(fw_test_plan *p, const char *model, const char *gpu, int world) {
    fw_model_config config;
    assert_true(fw_known_model_find(&config, model));
    *p = (fw_test_plan){0};
    assert_int_equal(fw_model_init(&p->model, &config, FW_BF16), FW_OK);
    p->s = (fw_plan_scenario){.model = &p->model,
                              .method = FW_METHOD_FULL,
                              .batch = 1,
                              .length = 1024,
                              .micro_n = 1,
                              .recompute = true,
                              .shard = {.t = FW_BF16, .gradient_t = FW_F32, .prefetch = 1},
                              .choose_sync = true};
    fw_test_plan_rank(p, 16);
    const fw_plan_site_wish wish = {.gpu = gpu, .world = world, .thread_n = 1, .cpu = gpu == NULL, .t = FW_BF16};
    assert_int_equal(fw_plan_site_make(&p->s.site, &wish), FW_OK);
    p->s.group_n = p->s.site.node_n;
}

void fw_test_plan_rank(fw_test_plan *p, int64_t r) {
    const fw_adapter_request request = {.r = r, .alpha = 32, .target_modules = "all-linear"};
    fw_model_fini(&p->adapted);
    assert_int_equal(fw_model_init_adapted(&p->adapted, &p->model.config, FW_BF16, &request), FW_OK);
    p->s.adapted = &p->adapted;
    p->s.packed = (fw_packed_options){.kind = FW_QUANT_NF4, .block = 64, .nested = true, .nested_block = 256};
    p->s.adapter_r = r;
}

void fw_test_plan_fini(fw_test_plan *p) {
    fw_plan_site_fini(&p->s.site);
    fw_model_fini(&p->adapted);
    fw_model_fini(&p->model);
}

fw_plan_case fw_test_plan_case(const fw_test_plan *p, fw_shard_strategy strategy) {
    fw_plan_case c;
    assert_int_equal(fw_plan_case_make(&c, &p->s, strategy), FW_OK);
    return c;
}

double fw_test_plan_state(const fw_plan_case *c) {
    return (double)(c->part[FW_PLAN_WEIGHTS] + c->part[FW_PLAN_GRADIENTS] + c->part[FW_PLAN_OPTIMIZER]);
}

void fw_test_near_at(double value, double wanted, double within, const char *what, const char *file, int line) {
    if (value >= wanted - within && value <= wanted + within) return;
    print_error("%s:%d: %s is %.9g, not %.9g within %.9g\n", file, line, what, value, wanted, within);
    _fail(file, line);
}
