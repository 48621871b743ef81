#include "data/prepare.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/log.h"
#include "data/selection.h"

_Static_assert((int)FW_DATASET_FORMAT_TEXT == (int)FW_SHAPE_TEXT &&
                   (int)FW_DATASET_FORMAT_PROMPT == (int)FW_SHAPE_PROMPT,
               "config/choices.def and data/shape.h list the shapes in one order");
_Static_assert((int)FW_SAMPLE_BY_DOCUMENT == (int)FW_TEXT_DOCUMENT && (int)FW_TRUNCATION_DROP == (int)FW_TRUNCATE_DROP,
               "config/choices.def lists units of text and truncations in the order of room data");

enum { SAY_EVERY_S = 10 };

/* Tokenising may take long: how far it is, now and then. */
static void say_progress(void *context, int64_t done_n, int64_t all_n) {
    uint64_t *said_ns = context;
    const uint64_t now_ns = fw_host_now_ns();
    if (now_ns - *said_ns < SAY_EVERY_S * 1000000000ull) return;
    *said_ns = now_ns;
    fw_log_info("data      %lld of %lld rows of the files so far tokenised", (long long)done_n, (long long)all_n);
}

fw_dataset_options fw_data_options(const fw_prepare *p) {
    const fw_options *o = p->options;
    return (fw_dataset_options){
        .max_length = o->max_length,
        .truncation = (fw_truncation)o->truncation_mode,
        .vocab_size = p->vocab_size,
        .threads = p->threads,
        .labels = {.all_tokens = p->all_tokens, .last_turn = p->options->mask_history},
        .reader = {.shape = (fw_shape)o->dataset_format,
                   .rows = {.text_field = o->dataset_text_field, .text_unit = (fw_text_unit)o->sample_by}},
        .allow_dropped = o->allow_dropped || p->for_report,
        .allow_empty = p->for_report,
        .stop = p->stop};
}

static fw_status weigh(fw_dataset **d, const fw_sources *sources, uint64_t seed) {
    double *weight;
    fw_dataset *given = *d;
    FW_TRY(FW_NEW_ARRAY(weight, (size_t)sources->set_n));
    for (int32_t i = 0; i < sources->set_n; i++) weight[i] = sources->set[i].weight;
    fw_status status = fw_dataset_weigh(d, given, weight, sources->set_n, seed);
    fw_free(weight);
    return status;
}

fw_status fw_data_prepare(fw_dataset **out, fw_dataset **held_out, const fw_prepare *p) {
    const fw_options *o = p->options;
    const fw_cache_options cache = {.dir = o->dataset_cache_dir,
                                    .limit_bytes = o->dataset_cache_size,
                                    .model_dir = o->model_name_or_path,
                                    .machine_thread_n = p->machine_thread_n,
                                    .told = p->told};
    uint64_t said_ns = fw_host_now_ns();
    fw_dataset_options options = fw_data_options(p);
    options.progress = say_progress;
    options.progress_context = &said_ns;
    const uint64_t seed = (uint64_t)o->data_seed;
    fw_sources sources;
    fw_dataset *d = NULL, *val = NULL;
    fw_status status;
    *out = NULL;
    if (held_out != NULL) *held_out = NULL;
    FW_TRY(fw_sources_find(&sources, p->name));
    sources.max_samples = o->max_samples;
    if (p->told == NULL || !p->told->is_known) fw_sources_say_aside(&sources); /* one rank of a machine says it */
    FW_TRY_OR(fw_dataset_load_cached(&d, &sources, p->tokenizer, p->chat, &options, &cache), done);
    if (held_out != NULL && o->val_size > 0 && d->sample_n > 0) {
        fw_dataset *all = d;
        FW_TRY_OR(fw_dataset_split(&d, &val, all, o->val_size, seed), done);
    }
    if (d->sample_n > 0) FW_TRY_OR(weigh(&d, &sources, seed), done);
    *out = d;
    if (held_out != NULL) *held_out = val;
    d = val = NULL;
done:
    fw_dataset_destroy(d);
    fw_dataset_destroy(val);
    fw_sources_fini(&sources);
    return status;
}
