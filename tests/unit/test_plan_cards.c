/* The cards and links that plans are made for, and the names they go by. */
#include "machine/machine.h"
#include "model/param_table.h"
#include "plan/known_model.h"
#include "plan/site.h"
#include "support/plan_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static void test_names(void **state) {
    (void)state;
    static const char *const same[][2] = {{"l40s-48gb", "L40S"},
                                          {"h100", "H100 SXM"},
                                          {"NVIDIA H100 80GB HBM3", "h100-sxm"},
                                          {"NVIDIA GeForce RTX 4090", "4090"},
                                          {"RTX_4090", "rtx4090"},
                                          {"NVIDIA A100-SXM4-80GB", "a100-80"},
                                          {"rtx pro 6000", "rtxpro6000-96gb"},
                                          {"NVIDIA H200 NVL", "h200-nvl"},
                                          {"NVIDIA RTX 6000 Ada Generation", "rtx6000ada"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_non_null(fw_gpu_card_find(same[i][0]));
        assert_ptr_equal(fw_gpu_card_find(same[i][0]), fw_gpu_card_find(same[i][1]));
    }
    assert_null(fw_gpu_card_find(""));
    assert_null(fw_gpu_card_find("rtx"));
    assert_null(fw_gpu_card_find("h1000"));
    assert_ptr_not_equal(fw_gpu_card_find("h100-pcie"), fw_gpu_card_find("h100-sxm"));
}

/* No two cards go by one name, and every figure is one that a card could have. */
static void test_table(void **state) {
    (void)state;
    const char *spelling;
    const fw_gpu_card *card;
    for (int i = 0; (spelling = fw_gpu_card_spelling_at(i)) != NULL; i++) assert_non_null(fw_gpu_card_find(spelling));
    for (int i = 0; (card = fw_gpu_card_at(i)) != NULL; i++) {
        assert_ptr_equal(fw_gpu_card_find(card->name), card);
        assert_ptr_equal(fw_gpu_card_find(card->title), card);
        assert_true(card->memory_bytes >= (uint64_t)15 << 30 && card->memory_bytes <= (uint64_t)192 << 30);
        assert_true(card->bf16_rate >= 50e12 && card->bf16_rate <= 2500e12);
        assert_true(card->fp32_rate >= 19e12 && card->fp32_rate <= card->bf16_rate / 1.3);
        assert_true(card->memory_rate >= 700e9 && card->memory_rate <= 8000e9);
        assert_true(card->sm_n >= 70 && card->sm_n <= 200);
        assert_true((card->nvlink_both_rate > 0) == (card->nvlink_peers > 1));
        assert_true(fw_machine_pcie_bytes_per_s(card->pcie_generation, 16) > 0);
    }
}

static void test_pcie(void **state) {
    (void)state;
    fw_test_near(fw_machine_pcie_bytes_per_s(4, 16) * 1e-9, 31.5, 0.05);
    fw_test_near(fw_machine_pcie_bytes_per_s(5, 8) * 1e-9, 31.5, 0.05);
    fw_test_near(fw_machine_pcie_bytes_per_s(3, 16) * 1e-9, 15.75, 0.05);
    assert_true(fw_pcie_headline_both_rate(4, 3) == 0);
    assert_true(fw_pcie_headline_both_rate(2, 16) == 0);
    assert_true(fw_pcie_headline_both_rate(7, 16) == 0);
}

static fw_plan_link link_of(const char *gpu, int node_n, const char *word) {
    fw_plan_link l;
    assert_int_equal(fw_plan_link_make(&l, fw_gpu_card_find(gpu), node_n, word), FW_OK);
    return l;
}

static void test_links(void **state) {
    (void)state;
    assert_true(link_of("h100-sxm", 8, "auto").nvlink);
    assert_true(link_of("h200-nvl", 4, "auto").nvlink);
    assert_false(link_of("h200-nvl", 8, "auto").nvlink); /* bridges join four */
    assert_true(link_of("rtx3090", 2, "auto").nvlink);   /* the last consumer card that has it */
    assert_false(link_of("rtx4090", 2, "auto").nvlink);
    assert_string_equal(link_of("rtx4090", 2, NULL).name, "PCIe 4 x8, through host memory");
    assert_string_equal(link_of("rtx4090", 8, NULL).name, "PCIe 4 x16, through host memory");
    assert_string_equal(link_of("l40s", 2, NULL).name, "PCIe 4 x16");
    fw_test_near(link_of("l40s", 2, "25").headline_rate, 25e9, 1);
    fw_test_near(link_of("rtx5090", 2, "PCIE5x8").headline_rate, 31.5e9, 0.05e9);
    static const char *const wrong[] = {"pcie4", "pcie4x3", "pcie9x16", "pcie4x16x", "nv",     "-3",
                                        "0",     "1e9",     "",         "nan",       "1e-300", "0.0009"};
    fw_plan_link l;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(fw_plan_link_make(&l, fw_gpu_card_find("l40s"), 2, wrong[i]), FW_ERR_OPTION);
    assert_int_equal(fw_plan_link_make(&l, fw_gpu_card_find("l40s"), 2, "nvlink"), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "L40S has none"));
    assert_int_equal(fw_plan_link_make(&l, fw_gpu_card_find("rtx3090"), 8, "nvlink"), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "joins at most 2"));
    assert_true(link_of("rtx3090", 2, "nvlink").nvlink);
}

static void test_sites(void **state) {
    (void)state;
    fw_plan_site s;
    fw_plan_site_wish w = {.gpu = "h100", .world = 16};
    assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
    assert_int_equal(s.node_n, 8);
    fw_test_near(s.between.headline_rate, 400e9, 1); /* 400 Gbit/s for each of eight */
    assert_false(fw_plan_site_resize(&s, 12));
    assert_true(fw_plan_site_resize(&s, 5));
    assert_int_equal(s.node_n, 5);
    assert_true(fw_plan_site_resize(&s, 24));
    assert_int_equal(s.node_n, 8);
    fw_plan_site_fini(&s);
    w.world = 12;
    assert_int_equal(fw_plan_site_make(&s, &w), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "use 8 or 16"));
    w = (fw_plan_site_wish){.gpu = "rtx 4009", .world = 2};
    assert_int_equal(fw_plan_site_make(&s, &w), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "did you mean"));
    w = (fw_plan_site_wish){.link = "nvlink", .world = 2};
    assert_int_equal(fw_plan_site_make(&s, &w), FW_ERR_OPTION);
    w = (fw_plan_site_wish){.world = 12, .thread_n = 1}; /* a CPU's ranks are on one machine */
    assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
    assert_int_equal(s.node_n, 12);
    assert_non_null(s.device);
    fw_plan_site_fini(&s);
}

/* Parameters as the makers count them; a matrix that embedding and head share once. */
static void test_models(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t parameter_n;
    } known[] = {{"Qwen/Qwen2.5-0.5B", 494032768},
                 {"Qwen/Qwen2.5-1.5B", 1543714304},
                 {"Qwen/Qwen2.5-3B", 3085938688},
                 {"Qwen/Qwen2.5-7B", 7615616512},
                 {"Qwen/Qwen2.5-14B", 14770033664},
                 {"Qwen/Qwen2.5-32B", 32763876352},
                 {"Qwen/Qwen2.5-72B", 72706203648},
                 {"Qwen/Qwen3-0.6B", 596049920},
                 {"Qwen/Qwen3-1.7B", 1720574976},
                 {"Qwen/Qwen3-4B", 4022468096},
                 {"Qwen/Qwen3-8B", 8190735360},
                 {"Qwen/Qwen3-14B", 14768307200},
                 {"Qwen/Qwen3-32B", 32762123264},
                 {"meta-llama/Llama-2-7B", 6738415616},
                 {"meta-llama/Llama-3-8B", 8030261248},
                 {"meta-llama/Llama-3-70B", 70553706496},
                 {"meta-llama/Llama-3.1-8B", 8030261248},
                 {"meta-llama/Llama-3.1-70B", 70553706496},
                 {"meta-llama/Llama-3.1-405B", 405853388800},
                 {"meta-llama/Llama-3.2-1B", 1235814400},
                 {"meta-llama/Llama-3.2-3B", 3212749824},
                 {"meta-llama/Llama-3.3-70B", 70553706496},
                 {"HuggingFaceTB/SmolLM2-135M", 134515008},
                 {"HuggingFaceTB/SmolLM2-360M", 361821120},
                 {"HuggingFaceTB/SmolLM2-1.7B", 1711376384},
                 {"mistralai/Mistral-7B-v0.1", 7241732096},
                 {"mistralai/Mistral-7B-v0.3", 7248023552}};
    int n = 0;
    for (; fw_known_model_name(n) != NULL; n++) {
        fw_model_config config;
        fw_param_table table;
        assert_int_equal(fw_known_model_config(&config, fw_known_model_name(n)), FW_OK);
        assert_int_equal(fw_param_table_init(&table, &config), FW_OK);
        bool counted = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            if (strcmp(known[i].name, fw_known_model_name(n)) != 0) continue;
            counted = true;
            if (table.parameter_n != known[i].parameter_n)
                fail_msg("%s has %lld parameters", known[i].name, (long long)table.parameter_n);
        }
        assert_true(counted);
        fw_param_table_fini(&table);
    }
    assert_int_equal(n, (int)(sizeof known / sizeof known[0]));
}

static void test_model_names(void **state) {
    (void)state;
    fw_model_config c;
    assert_true(fw_known_model_find(&c, "qwen3-8b"));
    assert_int_equal(c.C, 4096);
    assert_true(fw_known_model_find(&c, "Qwen/Qwen3-4B-Instruct-2507"));
    assert_int_equal(c.C, 2560);
    assert_true(fw_known_model_find(&c, "meta-llama/Llama-2-7b-chat-hf"));
    assert_true(fw_known_model_find(&c, "Mistral-7B-Instruct-v0.3"));
    assert_int_equal(c.V, 32768);
    assert_false(fw_known_model_find(&c, "somebody/Qwen3-8B"));
    assert_false(fw_known_model_find(&c, "Qwen3"));
    assert_int_equal(fw_known_model_config(&c, "Qwen/Qwen3-9B"), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "did you mean Qwen/Qwen3-"));
    assert_int_equal(fw_known_model_config(&c, "zzzzzzzzzzz"), FW_ERR_OPTION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),       cmocka_unit_test(test_table), cmocka_unit_test(test_pcie),
        cmocka_unit_test(test_links),       cmocka_unit_test(test_sites), cmocka_unit_test(test_models),
        cmocka_unit_test(test_model_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
