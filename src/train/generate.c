#include "train/generate.h"

#include "base/alloc.h"
#include "base/host.h"
#include "train/forward.h"
#include "train/interrupt.h"
#include "train/sampler.h"

#include <string.h>

/* The running answer. Keys and values of a block: rows [capacity, 2 K D]. */
typedef struct generation {
    fw_job job;
    fw_ids ids; /* prompt, then answer */
    int64_t prompt_n, capacity;
    fw_forward_cache cache;
    size_t kv_bytes;
    float *logits; /* device */
    float *host_logits;
    fw_sampler sampler;
    fw_encoder *encoder;
} generation;

static fw_status encode_prompt(generation *g, const fw_options *o) {
    FW_TRY(fw_encoder_create(&g->encoder, g->job.tokenizer));
    if (o->raw) return fw_tokenizer_encode(g->encoder, &g->ids, o->prompt, strlen(o->prompt), FW_ENCODE_ADD_SPECIAL);
    fw_chat_rendering rendering = {0};
    fw_offsets offsets = {0};
    fw_trained trained = {0};
    fw_conversation c = {.messages = json_array()};
    fw_status status;
    bool made = true;
    if (o->system_prompt != NULL)
        made =
            json_array_append_new(c.messages, json_pack("{ssss}", "role", "system", "content", o->system_prompt)) == 0;
    made = made && json_array_append_new(c.messages, json_pack("{ssss}", "role", "user", "content", o->prompt)) == 0;
    status = made ? FW_OK : fw_fail(FW_ERR_OPTION, "the prompt is not valid UTF-8, or memory ran out");
    FW_TRY_OR(status, done);
    FW_TRY_OR(fw_chat_encode(g->encoder, &g->job.chat, &c, FW_CHAT_GENERATION_PROMPT, &rendering, &g->ids, &offsets,
                             &trained),
              done);
done:
    fw_chat_rendering_fini(&rendering);
    fw_offsets_fini(&offsets);
    fw_trained_fini(&trained);
    json_decref(c.messages);
    return status;
}

static fw_status check_prompt(generation *g, const fw_options *o) {
    const fw_model_config *c = &g->job.model.config;
    g->prompt_n = (int64_t)g->ids.n;
    if (g->prompt_n == 0)
        return fw_fail(FW_ERR_OPTION, "--prompt is empty: with --raw there must be something to continue");
    if (g->prompt_n >= c->max_position)
        return fw_fail(FW_ERR_OPTION,
                       "the prompt has %lld tokens; the model's context ends at %lld (max_position_embeddings)",
                       (long long)g->prompt_n, (long long)c->max_position);
    for (int64_t i = 0; i < g->prompt_n; i++)
        if (g->ids.id[i] >= c->V)
            return fw_fail(FW_ERR_INPUT,
                           "token id %d of the prompt is outside the model's vocabulary of %lld; does the tokenizer "
                           "belong to this model?",
                           g->ids.id[i], (long long)c->V);
    g->capacity = g->prompt_n + o->max_new_tokens;
    if (g->capacity > c->max_position) g->capacity = c->max_position;
    return FW_OK;
}

static fw_status take_memory(generation *g, const fw_options *o) {
    const fw_model *m = &g->job.model;
    g->cache.block_bytes = (size_t)(g->capacity * 2 * m->config.K * m->config.D) * fw_dtype_bytes(m->t);
    g->kv_bytes = g->cache.block_bytes * (size_t)m->config.L;
    FW_TRY(fw_device_alloc(g->job.device, (void **)&g->cache.kv, g->kv_bytes, "keys and values"));
    FW_TRY(fw_device_alloc(g->job.device, (void **)&g->logits, (size_t)m->config.V * sizeof(float), "logits"));
    FW_TRY(FW_NEW_ARRAY(g->host_logits, (size_t)m->config.V));
    FW_TRY(fw_sampler_init(&g->sampler, o->temperature, o->top_p, (uint64_t)o->seed, m->config.V));
    fw_activation_options a = {
        .mode = FW_ACTIVATIONS_FORWARD, .N_max = g->prompt_n, .n_max = 1, .chunk_n = 1, .P = g->capacity};
    FW_TRY(fw_job_allocate(&g->job, o, &a, false, g->kv_bytes, 0));
    return fw_job_load_weights(&g->job);
}

/* Push tokens ids[length .. length + n) through the model; g->host_logits = logits after the last of them. */
static fw_status advance(generation *g, int64_t n) {
    fw_forward_cache *c = &g->cache;
    FW_TRY(fw_forward(&g->job, g->ids.id + c->length, n, c, 1, g->logits));
    FW_TRY(fw_copy(g->job.device, g->host_logits, g->logits, (size_t)g->job.model.config.V * sizeof(float)));
    c->length += n;
    return FW_OK;
}

static fw_status answer(generation *g, const fw_options *o, fw_text_sink sink, void *context, fw_generate_result *r) {
    int32_t eos = fw_tokenizer_eos_id(g->job.tokenizer);
    int32_t end_of_turn = o->raw ? eos : fw_chat_end_of_turn_id(g->job.tokenizer, &g->job.chat);
    fw_decoder decoder;
    fw_decoder_init(&decoder, g->job.tokenizer, true);
    fw_strbuf text = {0};
    fw_status status;
    uint64_t start_ns = fw_host_now_ns();
    FW_TRY_OR(advance(g, g->prompt_n), done);
    r->prompt_s = (double)(fw_host_now_ns() - start_ns) * 1e-9;
    start_ns = fw_host_now_ns();
    while (g->cache.length < g->capacity) {
        int32_t id;
        FW_TRY_OR(fw_sampler_next(&g->sampler, &id, g->host_logits, (uint64_t)r->answer_n), done);
        if (id == eos || id == end_of_turn) {
            r->ended = true;
            break;
        }
        FW_TRY_OR(fw_ids_push(&g->ids, id), done);
        r->answer_n++;
        FW_TRY_OR(fw_decoder_push(&decoder, &text, id), done);
        if (text.len_bytes > 0) FW_TRY_OR(sink(context, text.data, text.len_bytes), done);
        fw_strbuf_clear(&text);
        if (r->answer_n == o->max_new_tokens) break;
        r->interrupted = fw_interrupt_requested();
        if (r->interrupted) break;
        FW_TRY_OR(advance(g, 1), done);
    }
    FW_TRY_OR(fw_decoder_finish(&decoder, &text), done);
    if (text.len_bytes > 0) FW_TRY_OR(sink(context, text.data, text.len_bytes), done);
    r->answer_s = (double)(fw_host_now_ns() - start_ns) * 1e-9;
done:
    fw_decoder_fini(&decoder);
    fw_strbuf_fini(&text);
    return status;
}

fw_status fw_generate_run(const fw_options *o, fw_text_sink sink, void *context, fw_generate_result *result) {
    generation *g;
    FW_TRY(FW_NEW(g));
    *result = (fw_generate_result){0};
    fw_interrupt_install();
    fw_status status;
    FW_TRY_OR(fw_job_open(&g->job, o, (fw_job_needs){.chat = !o->raw}), done);
    FW_TRY_OR(encode_prompt(g, o), done);
    FW_TRY_OR(check_prompt(g, o), done);
    FW_TRY_OR(take_memory(g, o), done);
    result->prompt_n = g->prompt_n;
    FW_TRY_OR(answer(g, o, sink, context, result), done);
done:
    if (g->job.device != NULL) {
        fw_device_free(g->job.device, g->cache.kv, g->kv_bytes);
        fw_device_free(g->job.device, g->logits, (size_t)g->job.model.config.V * sizeof(float));
    }
    fw_free(g->host_logits);
    fw_sampler_fini(&g->sampler);
    fw_encoder_destroy(g->encoder);
    fw_ids_fini(&g->ids);
    fw_job_close(&g->job);
    fw_free(g);
    return status;
}
