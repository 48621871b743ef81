#include "plan/advice.h"

#include "plan/solve.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool fw_plan_is_slow(const fw_plan_site *s) {
    if (s->world == 1 || s->card == NULL) return false;
    if (!s->inside.nvlink) return true;
    return s->world > s->node_n && s->between.real_rate < s->inside.real_rate / 4;
}

/* ---- words */

static void add(fw_plan_advice *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(fw_plan_advice *a, const char *format, ...) {
    const size_t used = strlen(a->reason);
    va_list list;
    va_start(list, format);
    vsnprintf(a->reason + used, sizeof a->reason - used, format, list);
    va_end(list);
}

static const char *method_name(const fw_plan_scenario *s, char out[64]) {
    if (s->method == FW_METHOD_FULL)
        snprintf(out, 64, "A full fine-tune");
    else
        snprintf(out, 64, "%s of rank %lld", s->method == FW_METHOD_LORA ? "LoRA" : "QLoRA", (long long)s->adapter_r);
    return out;
}

/* "21.30 GiB of 47.9" */
typedef struct need_text {
    char text[2 * FW_PLAN_SIZE_BYTES];
} need_text;
static need_text need(const fw_plan_case *c) {
    need_text out;
    char total[FW_PLAN_SIZE_BYTES], limit[FW_PLAN_SIZE_BYTES];
    snprintf(out.text, sizeof out.text, "%s of %s", fw_plan_size(total, c->total_bytes),
             fw_plan_size(limit, c->limit_bytes));
    return out;
}

static const char *device_word(const fw_plan_scenario *s) { return s->site.card != NULL ? "card" : "rank"; }

/* The link that a step waits for. */
static const char *link_word(const fw_plan_site *s) { return s->world > s->node_n ? s->between.name : s->inside.name; }

/* ---- the questions */

/* What one device alone would take. With recomputing where it is asked for, or where only that fits. */
static fw_status alone(fw_plan_case *c, fw_plan_scenario *s, const fw_plan_scenario *asked, fw_method method) {
    *s = *asked;
    s->method = method;
    fw_plan_site_resize(&s->site, 1);
    FW_TRY(fw_plan_case_make(c, s, FW_SHARD_DDP));
    if (c->fits || fw_plan_recomputes_all(s)) return FW_OK;
    fw_plan_recompute_all(s);
    return fw_plan_case_make(c, s, FW_SHARD_DDP);
}

fw_status fw_plan_lowest(fw_plan_advice *a, const fw_plan_scenario *s) {
    static const fw_shard_strategy order[] = {FW_SHARD_DDP, FW_SHARD_ZERO1, FW_SHARD_ZERO2, FW_SHARD_ZERO3};
    a->scenario = *s;
    a->method = s->method;
    if (s->strategy_said) {
        a->strategy = s->strategy;
        FW_TRY(fw_plan_case_make(&a->best, s, s->strategy));
        if (!a->best.possible)
            return fw_fail(FW_ERR_OPTION, "strategy %s: %s", fw_shard_strategy_name(s->strategy), a->best.why);
        a->fits = a->best.fits;
        return FW_OK;
    }
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        a->strategy = order[i];
        FW_TRY(fw_plan_case_make(&a->best, s, order[i]));
        if (a->best.fits) break;
    }
    a->fits = a->best.fits;
    if (!a->fits || a->strategy != FW_SHARD_ZERO3 || s->site.world == s->site.node_n) return FW_OK;
    /* Over several machines: gathers that stay inside one may be worth a copy of the model in each. */
    fw_plan_case hybrid;
    FW_TRY(fw_plan_case_make(&hybrid, s, FW_SHARD_HSDP));
    if (!hybrid.possible || !hybrid.fits || hybrid.times.step_ms >= a->best.times.step_ms) return FW_OK;
    a->best = hybrid;
    a->strategy = FW_SHARD_HSDP;
    return FW_OK;
}

static void say_wire(fw_plan_advice *a) {
    const fw_plan_case *c = &a->best;
    char size[FW_PLAN_SIZE_BYTES];
    add(a, " It sends %s a step, %.0f ms on %s beside %.0f ms of computing; %.0f ms of it are waited for.",
        fw_plan_size(size, c->wire.bytes), c->times.wire_ms, link_word(&a->scenario.site), c->times.compute_ms,
        c->times.exposed_ms);
}

/* What counts as faster. */
static const double gain_wanted = 1.05;

/* Fewer and larger steps where the wire is slow, if what that takes still fits and makes it faster by worth_it. */
static fw_status accumulate(fw_plan_advice *a, double worth_it) {
    fw_plan_scenario more = a->scenario;
    fw_plan_case c;
    if (!fw_plan_is_slow(&more.site) || more.micro_n >= FW_PLAN_SLOW_MICRO_N) return FW_OK;
    if (more.shard.gradient_t == FW_BF16) return FW_OK; /* not to be added up in bf16: training refuses it */
    more.micro_n = FW_PLAN_SLOW_MICRO_N;
    FW_TRY(fw_plan_case_make(&c, &more, a->strategy));
    if (!c.fits) return FW_OK;
    const double before = a->best.times.tokens_per_s;
    if (c.times.tokens_per_s < worth_it * before) return FW_OK;
    a->scenario = more;
    a->best = c;
    add(a, " The wire is slow (%s): gradient_accumulation_steps %d makes %.0f tokens/s of %.0f.", link_word(&more.site),
        FW_PLAN_SLOW_MICRO_N, c.times.tokens_per_s, before);
    if (c.wire.gather_bytes > 0) add(a, " Weights are still gathered for every micro-batch.");
    if (c.wire.reduce_each)
        add(a, " Gradients are summed for every micro-batch, since holding all of them does not fit.");
    if (c.times.tokens_per_s >= gain_wanted * before) return FW_OK;
    int64_t batch;
    FW_TRY(fw_plan_largest_batch(&batch, &a->scenario, a->strategy));
    if (batch > a->scenario.batch)
        add(a, " More tokens in a micro-batch help more: per_device_train_batch_size up to %lld fits.",
            (long long)batch);
    return FW_OK;
}

/* It fits on one device. */
static fw_status advise_copies(fw_plan_advice *a, const fw_plan_scenario *asked, const fw_plan_case *one,
                               const fw_plan_scenario *one_scenario) {
    char name[64];
    fw_plan_scenario s = *asked;
    s.method = one_scenario->method;
    s.recompute = one_scenario->recompute;
    s.recompute_every = one_scenario->recompute_every;
    FW_TRY(fw_plan_lowest(a, &s));
    a->one_job_each = true;
    add(a, "%s fits on one %s: %s%s.", method_name(&s, name), device_word(&s), need(one).text,
        fw_plan_recomputes_all(&s) && !fw_plan_recomputes_all(asked) ? ", when blocks are recomputed" : "");
    if (s.site.world == 1) return FW_OK;
    if (!a->fits) { /* what several bring with them does not */
        a->scenario = *one_scenario;
        a->best = *one;
        a->strategy = FW_SHARD_DDP;
        a->fits = true;
        add(a, " Run one job per %s; one run over all does not fit.", device_word(&s));
        return FW_OK;
    }
    if (s.site.world == 2)
        add(a, " The other is");
    else
        add(a, " The other %d are", s.site.world - 1);
    add(a, " for throughput: one job per %s uses no wire at all; %s makes one run finish sooner.", device_word(&s),
        fw_shard_strategy_name(a->strategy));
    FW_TRY(accumulate(a, gain_wanted));
    say_wire(a);
    return FW_OK;
}

/* How many would do, when the method is open: an adapter first. */
static fw_status advise_more_of_any(fw_plan_advice *a, const fw_plan_scenario *s, bool *any) {
    static const fw_method order[] = {FW_METHOD_LORA, FW_METHOD_QLORA, FW_METHOD_FULL};
    char name[64];
    *any = false;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        fw_plan_scenario tried = *s;
        int fewest;
        tried.method = order[i];
        fw_plan_recompute_all(&tried);
        FW_TRY(fw_plan_fewest_devices(&fewest, &tried, FW_SHARD_ZERO3));
        if (fewest == 0) continue;
        add(a, *any ? ", %s on %d" : " Under zero3 %s would fit on %d", method_name(&tried, name), fewest);
        *any = true;
    }
    if (*any) add(a, " of these %ss.", device_word(s));
    return FW_OK;
}

static fw_status advise_more(fw_plan_advice *a, const fw_plan_scenario *s, bool open) {
    int full = 0, adapter = 0;
    fw_plan_scenario tried = *s;
    bool any = false;
    if (open) FW_TRY(advise_more_of_any(a, s, &any));
    if (any) return FW_OK;
    fw_plan_recompute_all(&tried);
    FW_TRY(fw_plan_fewest_devices(&full, &tried, FW_SHARD_ZERO3));
    if (full > 0)
        add(a, " %d of these %ss would do under zero3.", full, device_word(s));
    else
        add(a,
            " No number of these %ss does: activations, gathered units and headroom do not shrink with more of them; "
            "use a smaller per_device_train_batch_size or max_length.",
            device_word(s));
    if (s->method != FW_METHOD_FULL) return FW_OK;
    tried.method = FW_METHOD_QLORA;
    FW_TRY(fw_plan_fewest_devices(&adapter, &tried, FW_SHARD_DDP));
    if (adapter > 0) add(a, " QLoRA would fit on one.");
    return FW_OK;
}

/* It fits on none alone: share it out. */
static fw_status advise_shares(fw_plan_advice *a, const fw_plan_scenario *asked, fw_method method) {
    fw_plan_scenario s = *asked;
    char name[64], size[FW_PLAN_SIZE_BYTES];
    s.method = method;
    FW_TRY(fw_plan_lowest(a, &s));
    if (!a->fits && !fw_plan_recomputes_all(&s)) {
        fw_plan_recompute_all(&s);
        FW_TRY(fw_plan_lowest(a, &s));
    }
    if (!a->fits) return FW_OK;
    add(a, " %s fits under %s, %s: %s a %s%s.", method_name(&s, name), fw_shard_strategy_name(a->strategy),
        s.strategy_said ? "as asked" : "the lowest sharding that does", need(&a->best).text, device_word(&s),
        fw_plan_recomputes_all(&s) && !fw_plan_recomputes_all(asked) ? ", when blocks are recomputed" : "");
    for (int lower = FW_SHARD_DDP; !s.strategy_said && lower < (int)FW_SHARD_ZERO3 && lower < (int)a->strategy;
         lower++) {
        fw_plan_case c;
        FW_TRY(fw_plan_case_make(&c, &s, (fw_shard_strategy)lower));
        add(a, "%s%s under %s", lower == FW_SHARD_DDP ? " It would need " : ", ", fw_plan_size(size, c.total_bytes),
            fw_shard_strategy_name((fw_shard_strategy)lower));
    }
    if (!s.strategy_said && a->strategy > FW_SHARD_DDP) add(a, ".");
    FW_TRY(accumulate(a, 1));
    say_wire(a);
    return FW_OK;
}

fw_status fw_plan_advise(fw_plan_advice *a, const fw_plan_scenario *asked) {
    static const fw_method by_itself[] = {FW_METHOD_FULL, FW_METHOD_LORA, FW_METHOD_QLORA};
    const bool choose = asked->method == FW_METHOD_AUTO;
    const int method_n = choose ? 3 : 1;
    *a = (fw_plan_advice){0};
    char refused[512] = "", name[64];
    for (int i = 0; i < method_n; i++) {
        fw_plan_case one;
        fw_plan_scenario s;
        FW_TRY(alone(&one, &s, asked, choose ? by_itself[i] : asked->method));
        if (one.fits) {
            memcpy(a->reason, refused, sizeof refused);
            if (i > 0) add(a, " ");
            FW_TRY(advise_copies(a, asked, &one, &s));
            if (i > 0) add(a, " If it must be all weights: --method full.");
            return FW_OK;
        }
        const size_t used = strlen(refused);
        snprintf(refused + used, sizeof refused - used, "%s%s does not fit on one %s (%s).", used > 0 ? " " : "",
                 method_name(&s, name), device_word(&s), need(&one).text);
    }
    memcpy(a->reason, refused, sizeof refused);
    if (asked->site.world > 1) {
        static const fw_method in_shares[] = {FW_METHOD_LORA, FW_METHOD_QLORA, FW_METHOD_FULL};
        for (int i = 0; i < method_n && !a->fits; i++)
            FW_TRY(advise_shares(a, asked, choose ? in_shares[i] : asked->method));
    }
    if (a->fits) return FW_OK;
    a->method = choose ? FW_METHOD_FULL : asked->method;
    a->scenario = *asked;
    a->scenario.method = a->method;
    fw_plan_recompute_all(&a->scenario);
    a->strategy = asked->strategy_said ? asked->strategy : FW_SHARD_ZERO3;
    FW_TRY(fw_plan_case_make(&a->best, &a->scenario, a->strategy));
    if (asked->site.world > 1)
        add(a, " Nor do %d share it out: %s needs %s.", asked->site.world, fw_shard_strategy_name(a->strategy),
            need(&a->best).text);
    if (asked->strategy_said) {
        fw_plan_scenario open = a->scenario;
        fw_plan_advice other;
        open.strategy_said = false;
        FW_TRY(fw_plan_lowest(&other, &open));
        if (other.fits) {
            add(a, " Under %s it would fit.", fw_shard_strategy_name(other.strategy));
            return FW_OK;
        }
    }
    return advise_more(a, &a->scenario, choose);
}
