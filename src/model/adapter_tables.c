/* The tables of frozen and trained parameters, and what adapters begin with. Trained, in a unit:
 *
 *   whole parameters, in the order of the model | for each linear module with an adapter: A | B | (magnitude) */
#include "base/alloc.h"
#include "base/hash.h"
#include "base/rng.h"
#include "model/adapter.h"
#include "model/param_builder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char prefix[] = "base_model.model.";

/* A tied embedding that is trained leaves the old one to the head, unless the head is trained apart as well. */
static bool stays_frozen(const fw_adapter *a, const fw_param_table *base, int32_t p, bool tied) {
    const bool head_too = tied && p == 0 && !a->tied_head; /* parameter 0 is the embedding */
    return !a->whole[p] || (head_too && strcmp(base->param[p].name, "model.embed_tokens.weight") == 0);
}

/* `replaced`: the end of the base's name that `suffix` takes the place of. */
static void make_name(fw_param *p, const char *base_name, const char *replaced, const char *suffix) {
    const size_t kept = strlen(base_name) - strlen(replaced);
    int n = snprintf(p->name, sizeof p->name, "%s%.*s%s", prefix, (int)kept, base_name, suffix);
    FW_ASSERT(n > 0 && n < FW_PARAM_NAME_BYTES);
}

static void append_whole(fw_param_builder *b, const fw_adapter *a, const fw_param_table *base, int32_t i) {
    fw_param p = base->param[i];
    const fw_linear linear = fw_linear_of_name(p.name);
    p.joined = p.joined && i > 0 && a->whole[i - 1];
    /* peft keeps an adapted module's own parameters one level down */
    const bool wrapped = linear < FW_LINEAR_N && fw_adapter_linear(a, p.unit - 1, linear)->r > 0;
    char name[FW_PARAM_NAME_BYTES];
    snprintf(name, sizeof name, "%s", p.name);
    make_name(&p, name, wrapped ? ".bias" : "", wrapped ? ".base_layer.bias" : "");
    fw_param_builder_append(b, &p);
}

static void append_adapter(fw_param_builder *b, const fw_adapter *a, const fw_param_table *base, int32_t weight,
                           const fw_adapted_linear *l) {
    const fw_param *w = &base->param[weight];
    fw_param p = {.kind = FW_PARAM_LORA_A, .base = weight, .rows = l->r, .cols = w->cols, .decay = true};
    make_name(&p, w->name, ".weight", ".lora_A.weight");
    fw_param_builder_append(b, &p);
    p.kind = FW_PARAM_LORA_B;
    p.rows = w->rows;
    p.cols = l->r;
    make_name(&p, w->name, ".weight", ".lora_B.weight");
    fw_param_builder_append(b, &p);
    if (!a->request.dora) return;
    p.kind = FW_PARAM_MAGNITUDE;
    p.cols = 0;
    make_name(&p, w->name, ".weight", ".lora_magnitude_vector");
    fw_param_builder_append(b, &p);
}

static void append_tied_head(fw_param_builder *b, const fw_param_table *base) {
    fw_param p = base->param[0];
    p.kind = FW_PARAM_TIED_HEAD;
    snprintf(p.name, sizeof p.name, "%slm_head.weight", prefix);
    fw_param_builder_append(b, &p);
}

static void append_trained_unit(fw_param_builder *b, const fw_adapter *a, const fw_param_table *base, int32_t unit) {
    const int32_t first = base->unit_first[unit], end = base->unit_first[unit + 1];
    for (int32_t i = first; i < end; i++)
        if (a->whole[i]) append_whole(b, a, base, i);
    if (unit == 0 && a->tied_head) append_tied_head(b, base);
    for (int32_t i = first; unit > 0 && i < end; i++) {
        const fw_linear linear = fw_linear_of_name(base->param[i].name);
        if (linear == FW_LINEAR_N || base->param[i].cols == 0) continue;
        const fw_adapted_linear *l = fw_adapter_linear(a, unit - 1, linear);
        if (l->r > 0) append_adapter(b, a, base, i, l);
    }
}

fw_status fw_adapter_tables(const fw_adapter *a, const fw_param_table *base, fw_param_table *frozen,
                            fw_param_table *trained) {
    fw_param_builder f, t;
    const bool tied = base->unit_first[1] == 2; /* embedding and norm */
    *frozen = *trained = (fw_param_table){0};
    FW_TRY(fw_param_builder_start(&f, frozen, base->unit_n, base->param_n));
    FW_TRY(fw_param_builder_start(&t, trained, base->unit_n,
                                  (int64_t)base->param_n + 1 + (int64_t)(base->unit_n - 1) * FW_LINEAR_N * 3));
    for (int32_t unit = 0; unit < base->unit_n; unit++) {
        for (int32_t i = base->unit_first[unit]; i < base->unit_first[unit + 1]; i++) {
            fw_param p = base->param[i];
            p.joined = p.joined && i > 0 && !a->whole[i - 1];
            if (stays_frozen(a, base, i, tied)) fw_param_builder_append(&f, &p);
        }
        fw_param_builder_end_unit(&f);
        append_trained_unit(&t, a, base, unit);
        fw_param_builder_end_unit(&t);
    }
    return FW_OK;
}

/* ---- the beginning */

void fw_adapter_fill_initial(const fw_adapter *a, const fw_param *p, uint64_t seed, int64_t first_n, int64_t n,
                             float *out) {
    const bool is_a = p->kind == FW_PARAM_LORA_A;
    FW_ASSERT(is_a || p->kind == FW_PARAM_LORA_B);
    const uint64_t stream = fw_hash_bytes(p->name, strlen(p->name));
    if (!is_a && a->request.init != FW_ADAPTER_INIT_RANDOM) {
        memset(out, 0, (size_t)n * sizeof *out);
    } else if (a->request.init == FW_ADAPTER_INIT_GAUSSIAN) {
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(fw_rng_normal(seed, stream, (uint64_t)(first_n + i)) / (double)p->rows);
    } else { /* Kaiming with a = sqrt 5: the bound is sqrt(6 / (1 + 5) / inputs) */
        const double bound = 1 / sqrt((double)p->cols);
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)((2 * fw_rng_uniform(seed, stream, (uint64_t)(first_n + i)) - 1) * bound);
    }
}
