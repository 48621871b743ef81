#include "cli/show_adapter.h"

#include "base/log.h"
#include "base/strbuf.h"
#include "cli/terminal.h"
#include "train/job_adapter.h"

#include <string.h>

/* What the modules with an adapter have in common, and what not: patterns may give each another r and alpha. */
typedef struct spread {
    bool has[FW_LINEAR_N];
    int64_t r_min, r_max, block_n, module_n;
    double alpha_min, alpha_max;
} spread;

static spread look(const fw_adapter *a, int64_t layer_n) {
    spread s = {0};
    for (int64_t layer = 0; layer < layer_n; layer++) {
        const int64_t before_n = s.module_n;
        for (int i = 0; i < FW_LINEAR_N; i++) {
            const fw_adapted_linear *l = fw_adapter_linear(a, layer, (fw_linear)i);
            if (l->r == 0) continue;
            const bool first = s.module_n++ == 0;
            s.has[i] = true;
            if (first || l->r < s.r_min) s.r_min = l->r;
            if (first || l->r > s.r_max) s.r_max = l->r;
            if (first || l->alpha < s.alpha_min) s.alpha_min = l->alpha;
            if (first || l->alpha > s.alpha_max) s.alpha_max = l->alpha;
        }
        s.block_n += s.module_n > before_n;
    }
    return s;
}

/* " r 16", " r 4 to 16" */
static fw_status say_range(fw_strbuf *out, const char *name, double min, double max) {
    FW_TRY(fw_strbuf_printf(out, "%s %g", name, min));
    return min == max ? FW_OK : fw_strbuf_printf(out, " to %g", max);
}

static fw_status say_modules(fw_strbuf *out, const spread *s, int64_t layer_n) {
    FW_TRY(fw_strbuf_puts(out, ", on"));
    for (int i = 0; i < FW_LINEAR_N; i++)
        if (s->has[i]) FW_TRY(fw_strbuf_printf(out, " %s", strrchr(fw_linear_name((fw_linear)i), '.') + 1));
    FW_TRY(fw_strbuf_puts(out, " of "));
    if (s->block_n < layer_n) FW_TRY(fw_strbuf_printf(out, "%lld of ", (long long)s->block_n));
    return fw_strbuf_printf(out, "%lld block%s", (long long)layer_n, layer_n == 1 ? "" : "s");
}

static fw_status describe(fw_strbuf *out, const fw_model *m) {
    static const char *const biases[] = {
        [FW_ADAPTER_BIAS_NONE] = "none", [FW_ADAPTER_BIAS_ALL] = "all", [FW_ADAPTER_BIAS_LORA_ONLY] = "lora_only"};
    const fw_adapter_request *q = &m->adapter.request;
    const spread s = look(&m->adapter, m->config.L);
    FW_TRY(fw_strbuf_puts(out, q->dora ? (q->rslora ? "DoRA with rsLoRA's scale" : "DoRA")
                                       : (q->rslora ? "rsLoRA" : "LoRA")));
    FW_TRY(say_range(out, " r", (double)s.r_min, (double)s.r_max));
    FW_TRY(say_range(out, ", alpha", s.alpha_min, s.alpha_max));
    if (q->dropout > 0) FW_TRY(fw_strbuf_printf(out, ", dropout %g", q->dropout));
    FW_TRY(say_modules(out, &s, m->config.L));
    if (q->bias != FW_ADAPTER_BIAS_NONE) FW_TRY(fw_strbuf_printf(out, ", biases %s", biases[q->bias]));
    if (q->modules_to_save != NULL && q->modules_to_save[0] != 0)
        FW_TRY(fw_strbuf_printf(out, ", %s whole", q->modules_to_save));
    const double trained = (double)m->trained.parameter_n, all = trained + (double)m->frozen.parameter_n;
    char trained_text[FW_HUMAN_BYTES], all_text[FW_HUMAN_BYTES];
    return fw_strbuf_printf(out, ": %s trained of %s (%.2g %%)", fw_human_count(trained_text, trained),
                            fw_human_count(all_text, all), 100 * trained / all);
}

/* Bytes are those of all ranks together, or of each rank that keeps the whole. */
static void show_packed(const fw_job *job) {
    const fw_packed_table *p = &job->packed;
    char packed[FW_HUMAN_BYTES], frozen[FW_HUMAN_BYTES], kept[FW_HUMAN_BYTES], plain[FW_HUMAN_BYTES];
    fw_log_info("packed    %s in blocks of %lld: %s of %s frozen weights in 4 bits; all frozen weights %s, in %s %s",
                fw_job_quantization(job), (long long)p->options.block, fw_human_count(packed, (double)p->packed_n),
                fw_human_count(frozen, (double)p->frozen->parameter_n),
                fw_human_size(kept, (uint64_t)p->words.total_n * FW_PACKED_WORD_BYTES), fw_dtype_name(p->t),
                fw_human_size(plain, (uint64_t)p->frozen->total_n * fw_dtype_bytes(p->t)));
}

fw_status fw_cli_show_adapter(const fw_job *job) {
    if (!job->model.adapted) return FW_OK;
    fw_strbuf text = {0};
    const fw_status status = describe(&text, &job->model);
    if (status == FW_OK) fw_log_info("adapter   %s", fw_strbuf_text(&text));
    fw_strbuf_fini(&text);
    if (status == FW_OK && job->is_packed) show_packed(job);
    return status;
}
