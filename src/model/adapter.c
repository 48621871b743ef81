/* A request becomes decisions: which linear modules get an adapter of which rank, which parameters are trained whole. */
#include "model/adapter.h"

#include "base/alloc.h"
#include "base/nearest.h"
#include "model/module_names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = FW_PARAM_NAME_BYTES };

static const char *const linear_names[FW_LINEAR_N] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                      "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                                      "mlp.down_proj"};

const char *fw_linear_name(fw_linear linear) { return linear_names[linear]; }

void fw_linear_shape(const fw_model_config *c, fw_linear linear, int64_t *rows, int64_t *cols) {
    const int64_t q = c->H * c->D, kv = c->K * c->D;
    const int64_t shape[FW_LINEAR_N][2] = {{q, c->C},    {kv, c->C},   {kv, c->C},  {c->C, q},
                                           {c->F, c->C}, {c->F, c->C}, {c->C, c->F}};
    *rows = shape[linear][0];
    *cols = shape[linear][1];
}

fw_linear fw_linear_of_name(const char *base_name) {
    for (int i = 0; i < FW_LINEAR_N; i++) {
        const char *found = strstr(base_name, linear_names[i]);
        if (found != NULL && found[strlen(linear_names[i])] == '.') return (fw_linear)i;
    }
    return FW_LINEAR_N;
}

static void linear_path(char out[PATH_BYTES], int64_t layer, int linear) {
    snprintf(out, PATH_BYTES, "model.layers.%lld.%s", (long long)layer, linear_names[linear]);
}

/* ---- what is adapted */

/* The request's texts, read; and the shape of the model. */
typedef struct resolver {
    fw_adapter *a;
    const fw_model_config *config;
    const fw_param_table *base;
    fw_module_names targets, excluded, saved, layers, ranks, alphas;
} resolver;

static fw_status unknown_name(const char *option, const char *name) {
    static const char *const others[] = {
        "embed_tokens", "norm", "lm_head", "input_layernorm", "post_attention_layernorm", "self_attn", "mlp"};
    fw_nearest nearest;
    fw_nearest_start(&nearest, name);
    for (int i = 0; i < FW_LINEAR_N; i++) fw_nearest_offer(&nearest, strchr(linear_names[i], '.') + 1);
    const bool targets = strcmp(option, "lora_modules_to_save") != 0;
    for (size_t i = 0; !targets && i < sizeof others / sizeof others[0]; i++) fw_nearest_offer(&nearest, others[i]);
    if (nearest.best != NULL)
        return fw_fail(FW_ERR_OPTION, "%s names \"%.60s\", which the model does not have; did you mean %s?", option,
                       name, nearest.best);
    return fw_fail(FW_ERR_OPTION,
                   "%s names \"%.60s\", which the model does not have; a block has q_proj, k_proj, v_proj, o_proj, "
                   "gate_proj, up_proj and down_proj%s",
                   option, name, targets ? "" : ", the model embed_tokens, norm and lm_head");
}

/* As peft: what is trained whole gets no adapter. `name` is one or several steps of the path. */
static bool path_has_steps(const char *path, const char *name) {
    const size_t bytes = strlen(name);
    for (const char *c = path; (c = strstr(c, name)) != NULL; c++)
        if ((c == path || c[-1] == '.') && (c[bytes] == 0 || c[bytes] == '.')) return true;
    return false;
}

static bool is_saved(const resolver *r, const char *path) {
    for (int i = 0; i < r->saved.n; i++)
        if (path_has_steps(path, r->saved.name[i])) return true;
    return false;
}

static bool is_layer_meant(const resolver *r, int64_t layer) {
    char number[32];
    if (r->layers.n == 0) return true;
    snprintf(number, sizeof number, "%lld", (long long)layer);
    for (int i = 0; i < r->layers.n; i++)
        if (strcmp(r->layers.name[i], number) == 0) return true;
    return false;
}

static fw_status check_layers(const resolver *r) {
    for (int i = 0; i < r->layers.n; i++) {
        const char *text = r->layers.name[i];
        bool found = false;
        for (int64_t layer = 0; layer < r->config->L && !found; layer++) {
            char number[32];
            snprintf(number, sizeof number, "%lld", (long long)layer);
            found = strcmp(number, text) == 0;
        }
        if (!found)
            return fw_fail(FW_ERR_OPTION, "lora_layers_to_transform names \"%.40s\"; the model has layers 0 to %lld",
                           text, (long long)r->config->L - 1);
    }
    return FW_OK;
}

static fw_status is_target(const resolver *r, bool *used, const char *path, bool *target) {
    const char *text = r->a->request.target_modules;
    *target = strcmp(text, "all-linear") == 0;
    if (*target) return FW_OK;
    if (fw_module_is_pattern(text)) return fw_module_matches(target, path, text, false, "lora_target_modules");
    for (int i = 0; i < r->targets.n; i++) {
        if (!fw_module_has_name(path, r->targets.name[i])) continue;
        *target = used[i] = true;
    }
    return FW_OK;
}

static fw_status is_excluded(const resolver *r, bool *used, const char *path, bool *excluded) {
    const char *text = r->a->request.exclude_modules;
    *excluded = false;
    if (text == NULL) return FW_OK;
    if (fw_module_is_pattern(text)) return fw_module_matches(excluded, path, text, false, "lora_exclude_modules");
    for (int i = 0; i < r->excluded.n; i++) {
        if (!fw_module_has_name(path, r->excluded.name[i])) continue;
        *excluded = used[i] = true;
    }
    return FW_OK;
}

/* The value of the first key that matches, as peft looks them up. */
static fw_status look_up(const fw_module_names *map, bool *used, const char *path, const char *option, double *value) {
    for (int i = 0; i < map->n; i++) {
        bool matches;
        FW_TRY(fw_module_matches(&matches, path, map->name[i], true, option));
        if (!matches) continue;
        *value = map->value[i];
        used[i] = true;
        return FW_OK;
    }
    return FW_OK;
}

static fw_status adapt(const resolver *r, fw_adapted_linear *l, const char *path, bool *rank_used, bool *alpha_used) {
    enum { RANK_MAX = 65536 };
    double rank = (double)r->a->request.r;
    l->alpha = r->a->request.alpha;
    FW_TRY(look_up(&r->ranks, rank_used, path, "lora_rank_pattern", &rank));
    FW_TRY(look_up(&r->alphas, alpha_used, path, "lora_alpha_pattern", &l->alpha));
    if (!(rank >= 1 && rank <= RANK_MAX) || rank != floor(rank))
        return fw_fail(FW_ERR_OPTION, "the rank of the adapter of %s is %g; it must be a whole number from 1 to %d",
                       path, rank, RANK_MAX);
    if (!isfinite(l->alpha)) return fw_fail(FW_ERR_OPTION, "alpha of the adapter of %s is %g", path, l->alpha);
    l->r = (int64_t)rank;
    l->scale = (float)(l->alpha / (r->a->request.rslora ? sqrt(rank) : rank));
    return FW_OK;
}

static fw_status all_used(const fw_module_names *names, const bool *used, const char *option) {
    for (int i = 0; i < names->n; i++)
        if (!used[i]) return unknown_name(option, names->name[i]);
    return FW_OK;
}

/* The caller says which name that was. */
static void pass_over(fw_adapter *a, const char *key, const char *name) {
    if (a->passed[0] == 0) snprintf(a->passed, sizeof a->passed, "%s: \"%.60s\"", key, name);
}

static fw_status all_matched(fw_adapter *a, const fw_module_names *map, const bool *used, const char *key) {
    for (int i = 0; i < map->n; i++) {
        if (used[i]) continue;
        if (!a->request.passes_unknown)
            return fw_fail(FW_ERR_OPTION,
                           "lora_%s: \"%.60s\" is no module with an adapter (or an earlier key has all it would match)",
                           key, map->name[i]);
        pass_over(a, key, map->name[i]);
    }
    return FW_OK;
}

static fw_status choose_linears(const resolver *r, bool *used) {
    bool *const rank_used = used + r->targets.n, *const alpha_used = rank_used + r->ranks.n;
    bool *const excluded_used = alpha_used + r->alphas.n;
    int64_t adapted_n = 0;
    for (int64_t layer = 0; layer < r->config->L; layer++) {
        for (int i = 0; i < FW_LINEAR_N; i++) {
            char path[PATH_BYTES];
            bool target, excluded;
            linear_path(path, layer, i);
            FW_TRY(is_target(r, used, path, &target));
            FW_TRY(is_excluded(r, excluded_used, path, &excluded));
            if (!target || excluded || is_saved(r, path) || !is_layer_meant(r, layer)) continue;
            FW_TRY(adapt(r, &r->a->linear[layer * FW_LINEAR_N + i], path, rank_used, alpha_used));
            adapted_n++;
        }
    }
    if (!r->a->request.passes_unknown) {
        FW_TRY(all_used(&r->targets, used, "lora_target_modules"));
        FW_TRY(all_used(&r->excluded, excluded_used, "lora_exclude_modules"));
    }
    if (adapted_n == 0)
        return fw_fail(FW_ERR_OPTION, "lora_target_modules is \"%.100s\", which gives no module an adapter%s",
                       r->a->request.target_modules,
                       r->a->request.exclude_modules != NULL ? ": see lora_exclude_modules"
                       : r->saved.n > 0                      ? ": what lora_modules_to_save names is trained whole"
                                                             : "");
    FW_TRY(all_matched(r->a, &r->ranks, rank_used, "rank_pattern"));
    return all_matched(r->a, &r->alphas, alpha_used, "alpha_pattern");
}

/* Adapters are for linear modules of blocks: other names that the model does have are told what serves them. */
static fw_status check_targets(const resolver *r) {
    static const char *const edge[] = {"lm_head", "embed_tokens", "model.embed_tokens"};
    for (int i = 0; i < r->targets.n; i++)
        for (size_t k = 0; k < sizeof edge / sizeof edge[0]; k++)
            if (strcmp(r->targets.name[i], edge[k]) == 0)
                return fw_fail(FW_ERR_OPTION,
                               "lora_target_modules names %s: adapters are for the linear modules of blocks; "
                               "--lora_modules_to_save %s trains all of it",
                               edge[k], edge[k]);
    return FW_OK;
}

/* ---- what is trained whole */

/* peft takes every module whose path ends with the name, without asking for a dot before it: "norm" is also q_norm. */
static bool ends_with(const char *path, size_t path_bytes, const char *name) {
    const size_t bytes = strlen(name);
    return bytes <= path_bytes && memcmp(path + path_bytes - bytes, name, bytes) == 0;
}

/* One of the modules that hold the parameter, from the innermost out, has the name. */
static bool is_within(const char *parameter, const char *name) {
    for (size_t bytes = strlen(parameter); bytes > 0; bytes--)
        if (parameter[bytes] == '.' && ends_with(parameter, bytes, name)) return true;
    return false;
}

static fw_status choose_whole(const resolver *r) {
    fw_adapter *a = r->a;
    for (int i = 0; i < r->saved.n; i++) {
        bool found = false;
        for (int32_t p = 0; p < r->base->param_n; p++) {
            if (!is_within(r->base->param[p].name, r->saved.name[i])) continue;
            a->whole[p] = found = true;
        }
        if (r->config->tied && ends_with("lm_head", strlen("lm_head"), r->saved.name[i])) a->tied_head = found = true;
        if (found) continue;
        if (!a->request.passes_unknown) return unknown_name("lora_modules_to_save", r->saved.name[i]);
        pass_over(a, "modules_to_save", r->saved.name[i]);
    }
    return FW_OK;
}

static fw_status choose_biases(const resolver *r) {
    fw_adapter *a = r->a;
    if (a->request.bias == FW_ADAPTER_BIAS_NONE) return FW_OK;
    int64_t bias_n = 0;
    for (int32_t p = 0; p < r->base->param_n; p++) {
        const fw_param *param = &r->base->param[p];
        const char *end = strrchr(param->name, '.');
        if (strcmp(end, ".bias") != 0) continue;
        if (a->request.bias == FW_ADAPTER_BIAS_LORA_ONLY &&
            fw_adapter_linear(a, param->unit - 1, fw_linear_of_name(param->name))->r == 0)
            continue;
        a->whole[p] = true;
        bias_n++;
    }
    if (bias_n > 0 || a->request.passes_unknown) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "lora_bias is %s, but %s; set it to none",
                   a->request.bias == FW_ADAPTER_BIAS_ALL ? "all" : "lora_only",
                   a->request.bias == FW_ADAPTER_BIAS_ALL ? "the model has no biases"
                                                          : "no module with an adapter has a bias");
}

/* ---- */

static fw_status read_texts(resolver *r, const fw_adapter_request *q) {
    if (q->target_modules == NULL || q->target_modules[0] == 0)
        return fw_fail(FW_ERR_OPTION, "lora_target_modules is empty; write all-linear or q_proj,v_proj");
    const bool names = strcmp(q->target_modules, "all-linear") != 0 && !fw_module_is_pattern(q->target_modules);
    if (names) FW_TRY(fw_module_names_read_list(&r->targets, q->target_modules, "lora_target_modules"));
    if (q->exclude_modules != NULL && !fw_module_is_pattern(q->exclude_modules))
        FW_TRY(fw_module_names_read_list(&r->excluded, q->exclude_modules, "lora_exclude_modules"));
    FW_TRY(fw_module_names_read_list(&r->saved, q->modules_to_save, "lora_modules_to_save"));
    FW_TRY(fw_module_names_read_list(&r->layers, q->layers_to_transform, "lora_layers_to_transform"));
    FW_TRY(fw_module_names_read_map(&r->ranks, q->rank_pattern, "lora_rank_pattern"));
    FW_TRY(fw_module_names_read_map(&r->alphas, q->alpha_pattern, "lora_alpha_pattern"));
    if (names && r->targets.n == 0)
        return fw_fail(FW_ERR_OPTION, "lora_target_modules is empty; write all-linear or q_proj,v_proj");
    return FW_OK;
}

fw_status fw_adapter_resolve(fw_adapter *a, const fw_adapter_request *request, const fw_model_config *config,
                             const fw_param_table *base) {
    *a = (fw_adapter){.request = *request};
    resolver r = {.a = a, .config = config, .base = base};
    bool *used = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(a->linear, (size_t)(config->L * FW_LINEAR_N)), done);
    FW_TRY_OR(FW_NEW_ARRAY(a->whole, (size_t)base->param_n), done);
    FW_TRY_OR(read_texts(&r, request), done);
    FW_TRY_OR(check_targets(&r), done);
    FW_TRY_OR(check_layers(&r), done);
    FW_TRY_OR(FW_NEW_ARRAY(used, (size_t)(r.targets.n + r.ranks.n + r.alphas.n + r.excluded.n)), done);
    FW_TRY_OR(choose_linears(&r, used), done);
    FW_TRY_OR(choose_whole(&r), done);
    FW_TRY_OR(choose_biases(&r), done);
done:
    fw_free(used);
    fw_module_names_fini(&r.targets);
    fw_module_names_fini(&r.excluded);
    fw_module_names_fini(&r.saved);
    fw_module_names_fini(&r.layers);
    fw_module_names_fini(&r.ranks);
    fw_module_names_fini(&r.alphas);
    return status;
}

void fw_adapter_fini(fw_adapter *a) {
    fw_free(a->linear);
    fw_free(a->whole);
    *a = (fw_adapter){0};
}
