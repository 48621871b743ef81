/* model: what a request for an adapter means, the tables of frozen and trained parameters, and what is refused. */
#include "base/alloc.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static fw_model_config tiny(bool tied) {
    return (fw_model_config){.architecture = FW_ARCH_LLAMA,
                             .C = 40,
                             .L = 3,
                             .H = 6,
                             .K = 2,
                             .D = 14,
                             .F = 52,
                             .V = 77,
                             .max_position = 64,
                             .rms_eps = 1e-6f,
                             .qkv_bias = true,
                             .tied = tied,
                             .rope = {.kind = FW_ROPE_DEFAULT, .theta = 10000, .factor = 1}};
}

static fw_adapter_request basic(void) {
    return (fw_adapter_request){.r = 4, .alpha = 8, .target_modules = "q_proj,v_proj"};
}

static void open_model(fw_model *m, bool tied, const fw_adapter_request *request) {
    const fw_model_config c = tiny(tied);
    if (fw_model_init_adapted(m, &c, FW_F32, request) != FW_OK) fail_msg("%s", fw_trail_message());
}

/* "QV.|...|QV." : for each block which of its modules have an adapter. */
static const char *pattern_of(const fw_model *m, char out[64]) {
    static const char letters[] = "qkvogud";
    char *c = out;
    for (int64_t l = 0; l < m->config.L; l++) {
        for (int i = 0; i < FW_LINEAR_N; i++)
            if (fw_adapter_linear(&m->adapter, l, (fw_linear)i)->r > 0) *c++ = letters[i];
        *c++ = '|';
    }
    *c = 0;
    return out;
}

static void test_targets(void **state) {
    (void)state;
    static const struct {
        const char *targets, *layers, *saved, *want;
    } cases[] = {{"all-linear", NULL, NULL, "qkvogud|qkvogud|qkvogud|"},
                 {"q_proj v_proj", NULL, NULL, "qv|qv|qv|"},
                 {"[\"mlp.up_proj\", \"model.layers.1.self_attn.o_proj\"]", NULL, NULL, "u|ou|u|"},
                 {".*\\.(q|k)_proj", NULL, NULL, "qk|qk|qk|"},
                 {"model\\.layers\\.[02]\\.mlp\\..*", NULL, NULL, "gud||gud|"},
                 {"down_proj", "0,2", NULL, "d||d|"},
                 {"down_proj", "[1]", NULL, "|d||"},
                 {"all-linear", NULL, "mlp", "qkvo|qkvo|qkvo|"},
                 {"q_proj,k_proj", NULL, "q_proj", "k|k|k|"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fw_model m;
        char got[64];
        fw_adapter_request r = basic();
        r.target_modules = cases[i].targets;
        r.layers_to_transform = cases[i].layers;
        r.modules_to_save = cases[i].saved;
        open_model(&m, true, &r);
        assert_string_equal(pattern_of(&m, got), cases[i].want);
        fw_model_fini(&m);
    }
}

static void test_excluded(void **state) {
    (void)state;
    static const struct {
        const char *excluded, *want;
    } cases[] = {{"k_proj,layers.1.mlp.up_proj", "qvogud|qvogd|qvogud|"},
                 {"[\"self_attn.q_proj\", \"down_proj\"]", "kvogu|kvogu|kvogu|"},
                 {".*\\.mlp\\..*", "qkvo|qkvo|qkvo|"},
                 {"", "qkvogud|qkvogud|qkvogud|"}};
    fw_model m;
    char got[64];
    fw_adapter_request r = basic();
    r.target_modules = "all-linear";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        r.exclude_modules = cases[i].excluded;
        open_model(&m, true, &r);
        assert_string_equal(pattern_of(&m, got), cases[i].want);
        fw_model_fini(&m);
    }
    const fw_model_config c = tiny(true);
    r.exclude_modules = "k_proj,k_porj";
    assert_int_equal(fw_model_init_adapted(&m, &c, FW_F32, &r), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(),
                           "lora_exclude_modules names \"k_porj\", which the model does not have; did you "
                           "mean k_proj?"));
    r.passes_unknown = true; /* of a folder */
    open_model(&m, true, &r);
    assert_string_equal(pattern_of(&m, got), "qvogud|qvogud|qvogud|");
    fw_model_fini(&m);
}

static void test_patterns(void **state) {
    (void)state;
    fw_model m;
    fw_adapter_request r = basic();
    r.target_modules = "all-linear";
    r.rank_pattern = "{\"q_proj\": 2, \"layers.1.mlp.up_proj\": 6, \"mlp.(up|gate)_proj\": 3}";
    r.alpha_pattern = "v_proj=1,layers.0.self_attn.q_proj=5";
    open_model(&m, true, &r);
    const struct {
        int64_t layer;
        fw_linear linear;
        int64_t rank;
        double scale;
    } want[] = {{0, FW_LINEAR_Q, 2, 2.5},      {1, FW_LINEAR_Q, 2, 4},    {0, FW_LINEAR_UP, 3, 8.0 / 3},
                {1, FW_LINEAR_UP, 6, 8.0 / 6}, {2, FW_LINEAR_V, 4, 0.25}, {2, FW_LINEAR_DOWN, 4, 2}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const fw_adapted_linear *l = fw_adapter_linear(&m.adapter, want[i].layer, want[i].linear);
        assert_int_equal(l->r, want[i].rank);
        assert_true(fabs((double)l->scale - want[i].scale) < 1e-6);
    }
    fw_model_fini(&m);
    r = basic();
    r.rslora = true;
    open_model(&m, true, &r);
    assert_true(fw_adapter_linear(&m.adapter, 0, FW_LINEAR_Q)->scale == 4.0f); /* 8 / sqrt 4 */
    fw_model_fini(&m);
}

/* Every parameter of the model is frozen or trained; names are those of files; offsets as the engine wants them. */
static void test_tables(void **state) {
    (void)state;
    fw_model m;
    fw_adapter_request r = basic();
    r.modules_to_save = "up_proj,model.norm";
    r.bias = FW_ADAPTER_BIAS_LORA_ONLY;
    r.dora = true;
    open_model(&m, false, &r);
    const fw_param_table *t = fw_model_trained(&m), *f = fw_model_frozen(&m);
    static const char *const names[] = {"base_model.model.model.norm.weight",
                                        "base_model.model.model.layers.2.mlp.up_proj.weight",
                                        "base_model.model.model.layers.0.self_attn.q_proj.base_layer.bias",
                                        "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight",
                                        "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight",
                                        "base_model.model.model.layers.1.self_attn.v_proj.lora_magnitude_vector"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_non_null(fw_param_table_find(t, names[i]));
    int64_t whole_n = 0;
    for (int32_t i = 0; i < m.table.param_n; i++) {
        assert_int_equal(fw_param_table_find(f, m.table.param[i].name) == NULL, m.adapter.whole[i]);
        whole_n += m.adapter.whole[i] ? m.table.param[i].n : 0;
    }
    assert_int_equal(f->parameter_n + whole_n, m.table.parameter_n);
    assert_int_equal(whole_n, 40 + 3 * (52 * 40 + 84 + 28));
    assert_int_equal(t->parameter_n, whole_n + 3 * (4 * (40 + 84) + 84 + 4 * (40 + 28) + 28));
    for (int k = 0; k < 2; k++) {
        const fw_param_table *table = k == 0 ? t : f;
        assert_int_equal(table->unit_n, 4);
        for (int32_t u = 0; u < table->unit_n; u++) assert_int_equal(table->unit_size_n[u] % FW_UNIT_ALIGN, 0);
        for (int32_t i = 1; i < table->param_n; i++) {
            const fw_param *p = &table->param[i], *before = p - 1;
            if (p->unit == before->unit) assert_true(p->offset_n >= before->offset_n + before->n);
        }
    }
    const fw_linear_place *q = &m.block[1].linear[FW_LINEAR_Q], *up = &m.block[1].linear[FW_LINEAR_UP];
    assert_true(!q->weight.trained && q->bias.trained && q->r == 4 && q->magnitude >= 0);
    assert_true(up->weight.trained && up->r == 0);
    fw_model_fini(&m);
}

/* A tied embedding and head are two things to PEFT: either can be trained, the other stays what it was. */
static void test_tied(void **state) {
    (void)state;
    static const struct {
        const char *saved;
        bool embedding, head, apart;
        int frozen_edge_n;
    } cases[] = {{NULL, false, false, false, 2},
                 {"lm_head", false, true, true, 2},
                 {"embed_tokens", true, false, true, 2},
                 {"embed_tokens,lm_head", true, true, true, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fw_model m;
        fw_adapter_request r = basic();
        r.modules_to_save = cases[i].saved;
        open_model(&m, true, &r);
        assert_int_equal(m.edge.embedding.trained, cases[i].embedding);
        assert_int_equal(m.edge.head.trained, cases[i].head);
        const bool same = m.edge.head.at_n == m.edge.embedding.at_n && m.edge.head.trained == m.edge.embedding.trained;
        assert_int_equal(!same, cases[i].apart);
        assert_int_equal(m.frozen.unit_first[1], cases[i].frozen_edge_n);
        fw_model_fini(&m);
    }
}

static void test_refused(void **state) {
    (void)state;
    const struct {
        fw_adapter_request r;
        const char *message;
    } cases[] = {
        {{.r = 4, .alpha = 8, .target_modules = "q_porj"}, "did you mean q_proj?"},
        {{.r = 4, .alpha = 8, .target_modules = "c_attn"}, "a block has q_proj"},
        {{.r = 4, .alpha = 8, .target_modules = ""}, "lora_target_modules is empty"},
        {{.r = 4, .alpha = 8, .target_modules = ".*nothing"}, "gives no module an adapter"},
        {{.r = 4, .alpha = 8, .target_modules = "(q_proj"}, "cannot be used"},
        {{.r = 4, .alpha = 8, .target_modules = "(a+)+$|((.*)*)*((.*)*)*x"}, "takes too long"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj,lm_head"}, "--lora_modules_to_save lm_head"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .layers_to_transform = "3"}, "layers 0 to 2"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .layers_to_transform = "x"}, "layers 0 to 2"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .modules_to_save = "embed_token"},
         "did you mean embed_tokens?"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .modules_to_save = "q_proj"}, "is trained whole"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .rank_pattern = "v_proj=2"}, "no module with an adapter"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .rank_pattern = "q_proj=2.5"}, "must be a whole number"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .rank_pattern = "q_proj"}, "write q_proj=8"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .rank_pattern = "{\"q_proj\": \"x\"}"}, "must have a number"},
        {{.r = 4, .alpha = 8, .target_modules = "q_proj", .rank_pattern = "{\"q_proj\": 1"}, "lora_rank_pattern"},
        {{.r = 4, .alpha = 8, .target_modules = "o_proj", .bias = FW_ADAPTER_BIAS_LORA_ONLY}, "set it to none"}};
    const fw_model_config c = tiny(true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fw_model m;
        assert_int_equal(fw_model_init_adapted(&m, &c, FW_F32, &cases[i].r), FW_ERR_OPTION);
        if (strstr(fw_trail_message(), cases[i].message) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", fw_trail_message(), cases[i].message);
    }
}

/* A does not depend on where it is read; B is zero unless asked for. */
static void test_beginning(void **state) {
    (void)state;
    enum { N = 160 };
    fw_model m;
    float all[N], part[N];
    fw_adapter_request r = basic();
    open_model(&m, true, &r);
    const fw_param *a =
        fw_param_table_find(&m.trained, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
    fw_adapter_fill_initial(&m.adapter, a, 42, 0, N, all);
    fw_adapter_fill_initial(&m.adapter, a, 42, 100, 60, part);
    assert_memory_equal(all + 100, part, 60 * sizeof *part);
    double sum = 0, most = 0;
    for (int i = 0; i < N; i++) {
        sum += (double)all[i];
        most = fmax(most, fabs((double)all[i]));
    }
    const double bound = 1 / sqrt(40);
    assert_true(most <= bound && most > 0.9 * bound && fabs(sum / N) < 0.3 * bound);
    fw_adapter_fill_initial(&m.adapter, a, 43, 0, N, part);
    assert_memory_not_equal(all, part, sizeof all);
    fw_adapter_fill_initial(&m.adapter, a + 1, 42, 0, N, part);
    for (int i = 0; i < N; i++) assert_true(part[i] == 0);
    fw_model_fini(&m);
}

static void test_no_memory(void **state) {
    (void)state;
    const fw_model_config c = tiny(true);
    fw_adapter_request r = basic();
    r.target_modules = ".*_proj";
    r.modules_to_save = "[\"norm\"]";
    r.rank_pattern = "{\"q_proj\": 2}";
    for (uint64_t n = 1;; n++) {
        fw_model m;
        fw_alloc_fail_at(n);
        const fw_status status = fw_model_init_adapted(&m, &c, FW_F32, &r);
        const uint64_t count = fw_alloc_count();
        fw_alloc_fail_at(0);
        if (status == FW_OK) {
            fw_model_fini(&m);
            if (count < n) break;
            continue; /* a library could do without */
        }
        assert_int_equal(status, FW_ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_targets),   cmocka_unit_test(test_excluded),
                                       cmocka_unit_test(test_patterns),  cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_tied),      cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_beginning), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
