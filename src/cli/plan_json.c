/* The plan as one JSON object. Bytes and milliseconds are numbers; keys never change their meaning. */
#include "base/json.h"
#include "cli/plan_output.h"

/* Sets are remembered as failed when memory runs out, and looked at once at the end. */
typedef struct writer {
    bool failed;
} writer;

static void put(writer *w, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0) w->failed = true;
}

static json_t *child(writer *w, json_t *object, const char *key) {
    json_t *made = json_object();
    put(w, object, key, made);
    return json_object_get(object, key);
}

static json_t *whole(uint64_t value) { return json_integer((json_int_t)(value > INT64_MAX ? INT64_MAX : value)); }

static void put_case(writer *w, json_t *o, const fw_plan_case *c) {
    put(w, o, "possible", json_boolean(c->possible));
    if (!c->possible) put(w, o, "why", json_string(c->why));
    for (int part = 0; part < FW_PLAN_PART_N; part++)
        put(w, o, fw_plan_part_key((fw_plan_part)part), whole(c->part[part]));
    put(w, o, "total_bytes", whole(c->total_bytes));
    put(w, o, "arena_bytes", whole(c->arena_bytes));
    put(w, o, "limit_bytes", whole(c->limit_bytes));
    put(w, o, "host_bytes", whole(c->host_bytes));
    put(w, o, "disk_bytes", whole(c->disk_bytes));
    put(w, o, "fits", json_boolean(c->possible && c->fits));
    put(w, o, "gradients_held", json_boolean(c->held));
    put(w, o, "wire_bytes", whole(c->wire.bytes));
    put(w, o, "wire_all_gather_bytes", whole(c->wire.gather_bytes + c->wire.update_bytes));
    put(w, o, "wire_reduce_scatter_bytes", whole(c->wire.scatter_bytes));
    put(w, o, "wire_all_reduce_bytes", whole(c->wire.across_bytes));
    put(w, o, "wire_ms", json_real(c->times.wire_ms));
    put(w, o, "wire_headline_ms", json_real(c->times.wire_headline_ms));
    put(w, o, "compute_ms", json_real(c->times.compute_ms));
    put(w, o, "update_ms", json_real(c->times.update_ms));
    put(w, o, "exposed_ms", json_real(c->times.exposed_ms));
    put(w, o, "step_ms", json_real(c->times.step_ms));
    put(w, o, "tokens_per_s", json_real(c->times.tokens_per_s));
}

static void put_table(writer *w, json_t *o, const fw_plan_table *t) {
    if (o == NULL) return;
    for (int i = 0; i < FW_PLAN_STRATEGY_N; i++) {
        json_t *row = child(w, o, fw_shard_strategy_name(t->row[i].strategy));
        if (row != NULL) put_case(w, row, &t->row[i]);
    }
}

static void put_split(writer *w, json_t *o, const fw_plan_split *s) {
    if (o == NULL) return;
    put(w, o, "way", json_integer(s->way));
    put(w, o, "wire_bytes", whole(s->wire_bytes));
    put(w, o, "wire_ms", json_real(s->wire_ms));
    put(w, o, "bubble", json_real(s->bubble));
    put(w, o, "ruled_in", json_boolean(s->ruled_in));
    put(w, o, "reason", json_string(s->reason));
}

static json_t *recompute_word(fw_recompute recompute) {
    return recompute == FW_RECOMPUTE_SELECTIVE ? json_string("selective") : json_boolean(recompute == FW_RECOMPUTE_ON);
}

static void put_advice(writer *w, json_t *o, const fw_plan_advice *a) {
    if (o == NULL) return;
    put(w, o, "fits", json_boolean(a->fits));
    put(w, o, "method", json_string(fw_method_words[a->method]));
    put(w, o, "strategy", json_string(a->fits ? fw_shard_strategy_name(a->strategy) : "none"));
    put(w, o, "reason", json_string(a->reason));
    put(w, o, "one_job_per_device", json_boolean(a->one_job_each));
    put(w, o, "gradient_accumulation_steps", json_integer(a->scenario.micro_n));
    put(w, o, "gradient_checkpointing", recompute_word(a->scenario.recompute));
    put(w, o, "gradient_checkpointing_every",
        json_integer(a->scenario.recompute_every > 0 ? a->scenario.recompute_every : 1));
    json_t *best = child(w, o, "case");
    if (best != NULL) put_case(w, best, &a->best);
}

static void put_recompute(writer *w, json_t *o, const fw_plan_report *r) {
    json_t *list = json_array();
    put(w, o, "recompute", list);
    for (int i = 0; i < r->recompute_n && !w->failed; i++) {
        const fw_plan_recompute *way = &r->recompute[i];
        json_t *entry = json_object();
        if (json_array_append_new(list, entry) != 0) {
            w->failed = true;
            return;
        }
        put(w, entry, "gradient_checkpointing", recompute_word(way->recompute));
        put(w, entry, "gradient_checkpointing_every", json_integer(way->every));
        put(w, entry, "activations_bytes", whole(way->one.part[FW_PLAN_ACTIVATIONS]));
        put(w, entry, "total_bytes", whole(way->one.total_bytes));
        put(w, entry, "fits", json_boolean(way->one.fits));
        put(w, entry, "extra_operations", json_real(way->one.again_n));
        put(w, entry, "extra_bytes_moved", json_real(way->one.again_bytes));
        put(w, entry, "operations", json_real(way->one.work_n));
        put(w, entry, "step_ms", json_real(way->one.times.step_ms));
    }
}

static void put_site(writer *w, json_t *o, const fw_plan_site *s) {
    if (o == NULL) return;
    put(w, o, "device", s->card != NULL ? json_string(s->card->name) : json_string("cpu"));
    put(w, o, "devices", json_integer(s->world));
    put(w, o, "devices_per_machine", json_integer(s->node_n));
    put(w, o, "memory_bytes", whole(s->memory_bytes));
    put(w, o, "compute_rate", json_real(s->compute_rate));
    put(w, o, "compute_source", json_string(s->compute_source));
    put(w, o, "link", json_string(s->inside.name));
    put(w, o, "link_headline_rate", json_real(s->inside.headline_rate));
    put(w, o, "link_rate", json_real(s->inside.real_rate));
    put(w, o, "link_source", json_string(s->link_source));
    put(w, o, "network_headline_rate", json_real(s->between.headline_rate));
    put(w, o, "network_rate", json_real(s->between.real_rate));
}

static void put_fewest(writer *w, json_t *o, const int *fewest) {
    for (int i = 0; i < FW_PLAN_STRATEGY_N; i++)
        put(w, o, fw_shard_strategy_name(fw_plan_strategies[i]), json_integer(fewest[i]));
}

static void put_answers(writer *w, json_t *o, const fw_plan_report *r) {
    if (o == NULL) return;
    json_t *devices = child(w, o, "fewest_devices");
    if (devices != NULL) put_fewest(w, devices, r->fewest_devices);
    for (int k = 0; k < r->other_n && devices != NULL; k++) { /* where the method was left open */
        json_t *of_method = child(w, devices, fw_method_words[r->other[k].method]);
        if (of_method != NULL) put_fewest(w, of_method, r->fewest_other[k]);
    }
    put(w, o, "longest_length", json_integer(r->longest_length));
    put(w, o, "made_for_length", json_integer(r->model.config.max_position));
    put(w, o, "largest_batch", json_integer(r->largest_batch));
}

static void put_changes(writer *w, json_t *o, const fw_plan_report *r) {
    if (r->change_n == 0) return;
    put_advice(w, child(w, o, "as_asked"), &r->unchanged);
    json_t *list = json_array();
    put(w, o, "what_if", list);
    for (int i = 0; i < r->change_n && !w->failed; i++) {
        json_t *entry = json_object();
        if (json_array_append_new(list, entry) != 0) {
            w->failed = true;
            return;
        }
        put(w, entry, "change", json_string(r->change[i].text));
        put_advice(w, entry, &r->change[i].advice);
    }
}

fw_status fw_plan_write_json(fw_strbuf *out, const fw_plan_report *r) {
    json_t *o;
    writer w = {0};
    const fw_model *m = &r->model;
    FW_TRY(fw_json_parse(&o, "{}", 2, "plan", 1)); /* not json_object(): this installs our allocator */
    put(&w, o, "model", json_string(r->name));
    put(&w, o, "parameters", json_integer(m->table.parameter_n));
    put(&w, o, "tied_embeddings", json_boolean(m->config.tied));
    put(&w, o, "parameters_stored_twice",
        json_integer(m->table.parameter_n + (m->config.tied ? m->config.V * m->config.C : 0)));
    put(&w, o, "checkpoint_bytes", whole(r->checkpoint_bytes));
    put(&w, o, "save_async_bytes_a_rank", whole(r->copy_bytes));
    put(&w, o, "final_model_bytes", whole(r->final_bytes));
    put(&w, o, "method", json_string(fw_method_words[r->table.method]));
    put_site(&w, child(&w, o, "machine"), &r->asked.site);
    put_table(&w, child(&w, o, "strategies"), &r->table);
    for (int i = 0; i < r->other_n; i++) {
        json_t *others = json_object_get(o, "methods");
        if (others == NULL) others = child(&w, o, "methods");
        if (others != NULL) put_table(&w, child(&w, others, fw_method_words[r->other[i].method]), &r->other[i]);
    }
    put_advice(&w, child(&w, o, "recommendation"), &r->advice);
    put_recompute(&w, o, r);
    put_split(&w, child(&w, o, "tensor_parallel"), &r->tensor);
    put_split(&w, child(&w, o, "pipeline_parallel"), &r->pipeline);
    put_answers(&w, child(&w, o, "answers"), r);
    put_changes(&w, o, r);
    fw_status status =
        w.failed ? fw_fail(FW_ERR_NOMEM, "out of memory while writing the plan") : fw_json_dump(out, o, JSON_INDENT(2));
    json_decref(o);
    return status == FW_OK ? fw_strbuf_putc(out, '\n') : status;
}
