/* The whole report: the cases of --what_if, memory running out anywhere, and how little a plan for a thousand GPUs takes. */
#include "base/alloc.h"
#include "plan/report.h"
#include "plan/what_if.h"
#include "support/plan_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static void options_of(fw_options *o, const char *const *words) {
    int argc = 0;
    char *argv[32];
    while (words[argc] != NULL) argv[argc] = (char *)(uintptr_t)words[argc], argc++;
    assert_int_equal(fw_options_init(o, FW_COMMAND_PLAN), FW_OK);
    assert_int_equal(fw_options_parse(o, argc, argv), FW_OK);
    assert_int_equal(fw_options_check(o), FW_OK);
}

static fw_plan_report *report_of(const char *const *words) {
    fw_options o;
    fw_plan_report *r;
    options_of(&o, words);
    assert_int_equal(fw_plan_report_create(&r, &o), FW_OK);
    fw_options_fini(&o);
    return r;
}

static void test_what_if(void **state) {
    (void)state;
    fw_plan_report *r = report_of((const char *const[]){
        "--model", "Qwen3-8B", "--gpus", "8", "--gpu", "l40s", "--method", "full", "--what_if",
        "accumulation=8, batch=2;gradient-checkpointing=false ; lora=32;optim=lamb;link=pcie4x8;strategy=ddp;", NULL});
    assert_int_equal(r->change_n, 6);
    assert_string_equal(r->change[0].text, "accumulation=8, batch=2");
    assert_int_equal(r->change[0].advice.scenario.micro_n, 8);
    assert_int_equal(r->change[0].advice.scenario.batch, 2);
    assert_int_equal(r->unchanged.scenario.micro_n, 1); /* what was asked, not what is recommended */
    assert_false(r->change[1].advice.scenario.recompute);
    assert_int_equal(r->change[2].advice.method, FW_METHOD_LORA);
    assert_int_equal(r->change[2].advice.scenario.adapter_r, 32);
    fw_test_near(r->change[4].advice.best.times.wire_headline_ms / r->unchanged.best.times.wire_headline_ms, 2, 1e-6);
    assert_true(r->change[5].advice.strategy == FW_SHARD_DDP && !r->change[5].advice.fits);
    fw_plan_report_destroy(r);
}

static const fw_plan_case *row_of(const fw_plan_report *r, const fw_plan_advice *a) {
    const fw_plan_table *t = &r->table;
    for (int i = 0; i < r->other_n; i++)
        if (r->other[i].method == a->method) t = &r->other[i];
    for (int i = 0; i < FW_PLAN_STRATEGY_N; i++)
        if (t->row[i].strategy == a->strategy) return &t->row[i];
    return NULL;
}

/* A case is what a plan of its options says, figure by figure. */
static void test_what_if_is_the_direct_plan(void **state) {
    (void)state;
    static const char *const changes[] = {"bf16=false",
                                          "per_device_train_batch_size=2",
                                          "max_length=3000",
                                          "gradient_accumulation_steps=4",
                                          "gradient_checkpointing=false",
                                          "gpus=16",
                                          "link=pcie4x8",
                                          "gpu=rtx4090",
                                          "optim=adamw_8bit",
                                          "gradient_dtype=bf16",
                                          "method=lora",
                                          "lora_r=8",
                                          "method=qlora",
                                          "wrap=model",
                                          "prefetch=0",
                                          "offload_optimizer_device=cpu",
                                          "offload_optimizer=nvme",
                                          "optim=paged_adamw_32bit",
                                          "gradient_checkpointing=selective",
                                          "loss_chunk_size=128",
                                          "strategy=hsdp",
                                          "device_memory=20GB",
                                          "train_batch_size=64",
                                          "gpus_per_node=4",
                                          "sync_each_batch=on"};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const char *sign = strchr(changes[i], '=');
        char flag[80];
        snprintf(flag, sizeof flag, "--%.*s", (int)(sign - changes[i]), changes[i]);
        const char *asked[] = {"--model",  "Qwen2.5-7B", "--gpus",    "8",        "--gpu", "rtx5090",
                               "--method", "full",       "--what_if", changes[i], NULL};
        fw_plan_report *r = report_of(asked);
        const char *direct[32] = {"--model", "Qwen2.5-7B", "--gpus", "8", "--gpu", "rtx5090", flag, sign + 1};
        if (strcmp(flag, "--method") != 0) {
            direct[8] = "--method";
            direct[9] = strcmp(flag, "--lora_r") == 0 ? "lora" : "full";
        }
        fw_plan_report *d = report_of(direct);
        const fw_plan_advice *a = &r->change[0].advice;
        const fw_plan_case *row = row_of(d, a);
        assert_non_null(row);
        if (memcmp(row->part, a->best.part, sizeof row->part) != 0) fail_msg("%s: other memory", changes[i]);
        if (row->wire.bytes != a->best.wire.bytes) fail_msg("%s: other wire", changes[i]);
        if (row->limit_bytes != a->best.limit_bytes) fail_msg("%s: another limit", changes[i]);
        fw_test_near(a->best.times.step_ms, row->times.step_ms, 1e-9 * row->times.step_ms);
        fw_plan_report_destroy(d);
        fw_plan_report_destroy(r);
    }
}

static void test_what_if_errors(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        " ",
                                        "a",
                                        "=8",
                                        "batch=",
                                        "batch=x",
                                        "batch=0",
                                        ",",
                                        "x=1",
                                        "json=1",
                                        "batch 8",
                                        ";batch=1",
                                        "learning_rate=1",
                                        "deepspeed=ds.json",
                                        "config-file=a.yaml",
                                        "fsdp_config=f.json",
                                        "lora_target_modules=q_proj,v_proj"};
    fw_options o;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(fw_options_init(&o, FW_COMMAND_PLAN), FW_OK);
        if (fw_plan_apply_changes(&o, wrong[i]) != FW_ERR_OPTION) fail_msg("\"%s\" was taken", wrong[i]);
        fw_options_fini(&o);
    }
    char long_change[400];
    memset(long_change, 'a', sizeof long_change);
    long_change[sizeof long_change - 1] = 0;
    assert_int_equal(fw_options_init(&o, FW_COMMAND_PLAN), FW_OK);
    assert_int_equal(fw_plan_apply_changes(&o, long_change), FW_ERR_OPTION);
    fw_options_fini(&o);
}

/* Every allocation fails once: an error each time, and nothing is left behind (the sanitizers look). */
static void test_memory_runs_out(void **state) {
    (void)state;
    fw_options o;
    options_of(&o, (const char *const[]){"--model", "SmolLM2-135M", "--gpus", "16", "--gpu", "h100", "--what_if",
                                         "batch=2;method=lora", NULL});
    fw_plan_report *r;
    uint64_t n = 1;
    for (;; n += 1 + n / 8) {
        fw_alloc_fail_at(n);
        fw_status status = fw_plan_report_create(&r, &o);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    fw_alloc_fail_at(0);
    assert_true(n > 100);
    fw_plan_report_destroy(r);
    fw_options_fini(&o);
}

/* A plan is a few hundred cases, each a few small arrays, however many GPUs there are. */
static void test_a_thousand_gpus(void **state) {
    (void)state;
    const uint64_t before = fw_alloc_count();
    fw_plan_report *r = report_of((const char *const[]){"--model", "Llama-3.1-405B", "--gpus", "1024", "--gpu", "h100",
                                                        "--per_device_train_batch_size", "1", NULL});
    const uint64_t made = fw_alloc_count() - before;
    print_message("405B on 1,024 GPUs: %llu allocations\n", (unsigned long long)made);
    assert_true(made < 20000);
    assert_true(r->advice.fits && r->table.row[3].fits);
    fw_test_near((double)r->table.row[3].part[FW_PLAN_OPTIMIZER] * 1024 / 8, 405.85e9, 0.2e9);
    fw_plan_report_destroy(r);
}

/* Offload and other optimizers, row by row. */
static void test_levers(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen2.5-7B", "l40s", 8);
    const double n = (double)p.model.table.parameter_n;
    const fw_plan_case plain = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    p.s.shard.records = FW_SHARD_HOST;
    p.s.shard.update_on_host = true;
    fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    assert_int_equal(c.part[FW_PLAN_OPTIMIZER], 0);
    const double edge_n = (double)p.model.table.unit_size_n[0];                /* its gradient, on its way, besides */
    fw_test_near(((double)c.host_bytes - edge_n / 8 * 4) / (n / 8), 12, 0.01); /* master and both moments of a share */
    fw_test_near((double)c.part[FW_PLAN_WEIGHTS] / (n / 8), 2, 0.01);
    assert_true(c.times.update_ms > plain.times.update_ms);
    p.s.shard.records = FW_SHARD_FILE;
    c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    fw_test_near((double)c.disk_bytes / ((n - edge_n) / 8), 12,
                 0.01); /* what is of embedding and head stays in memory */
    assert_true((double)c.host_bytes < edge_n / 8 * 16 + 4 * 12 * (n - edge_n) / 8 / 28);
    p.s.shard.weights = FW_SHARD_HOST;
    c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    assert_int_equal(c.part[FW_PLAN_WEIGHTS], 0);
    assert_false(fw_test_plan_case(&p, FW_SHARD_ZERO2).possible);
    p.s.shard.records = p.s.shard.weights = FW_SHARD_HERE;
    p.s.shard.update_on_host = false;
    p.s.optim = FW_OPTIM_LAMB;
    c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    assert_int_equal(c.part[FW_PLAN_OPTIMIZER], plain.part[FW_PLAN_OPTIMIZER]);
    p.s.optim = FW_OPTIM_ADAMW;
    p.s.shard.records = FW_SHARD_HOST; /* paged: updated on the device, where one block at a time is brought to */
    c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    fw_test_near((double)c.host_bytes / ((n - edge_n) / 8), 12, 0.01);
    fw_test_near((double)c.part[FW_PLAN_OPTIMIZER] / (12 * (edge_n + (n - edge_n) / 28) / 8), 1, 0.01);
    p.s.shard.records = FW_SHARD_HERE;
    /* QLoRA: half a byte and the scales, 4.127 bits for a weight of a block's matrices; embedding and head in bf16 */
    p.s.optim = FW_OPTIM_ADAMW;
    p.s.method = FW_METHOD_QLORA;
    c = fw_test_plan_case(&p, FW_SHARD_DDP);
    const double edge = 2.0 * 152064 * 3584, adapter = (double)c.trained_n;
    fw_test_near(((double)c.part[FW_PLAN_WEIGHTS] - 2 * edge - 4 * adapter) * 8 / (n - edge), 4.127, 0.01);
    p.s.method = FW_METHOD_LORA;
    c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near(((double)c.part[FW_PLAN_WEIGHTS] - 4 * adapter) / n, 2, 0.001);
    assert_int_equal(c.part[FW_PLAN_OPTIMIZER], 8 * c.trained_n);
    fw_test_plan_fini(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_if),         cmocka_unit_test(test_what_if_is_the_direct_plan),
        cmocka_unit_test(test_what_if_errors),  cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_a_thousand_gpus), cmocka_unit_test(test_levers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
