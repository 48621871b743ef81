/* The recipe: a flat YAML map from option names to values.
 *
 * Source: YAML 1.1 as libyaml reads it. Taken: one document, one map, scalars in any style, comments. An option
 * without a value (`seed:`, `seed: ~`, `seed: null`) counts as not given.
 * fsdp_config, deepspeed and gradient_checkpointing_kwargs may be maps, as TrainingArguments take them (config/foreign.h).
 * What names modules of an adapter may be a list or a map, and is then the text "a,b" or "a=1,b=2".
 * Refused, each with file and line: other lists and maps, anchors, aliases, merges, tags, a second document, a key given
 * twice (under any of its names). Events are handled one by one and maps are bounded in depth, so a hostile file costs
 * no memory beyond its own size. */
#include "base/strbuf.h"
#include "config/foreign.h"
#include "config/lookup.h"
#include "config/yaml_events.h"

#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 128 };

typedef struct fw_recipe {
    fw_options *o;
    const char *where;
    yaml_parser_t parser;
    int line_of[FW_OPTION_N];             /* where an option was given; 0: not yet */
    char name_of[FW_OPTION_N][KEY_BYTES]; /* and under which name */
    fw_leaves fsdp, deepspeed, recompute; /* maps of other programs' settings; applied at the end */
} fw_recipe;

static const char *const advice = "a recipe is one `name: value` a line";

static fw_status refuse(const fw_recipe *r, const yaml_event_t *event, const char *what) {
    return fw_yaml_refuse(event, r->where, what, advice);
}

static fw_status read_key(fw_recipe *r, const yaml_event_t *e, char key[KEY_BYTES], fw_option_place *place) {
    if (e->type != YAML_SCALAR_EVENT) return refuse(r, e, "a list or a map is not a name");
    const char *text = (const char *)e->data.scalar.value;
    *place = (fw_option_place){r->where, fw_yaml_line(&e->start_mark)};
    if (strcmp(text, "<<") == 0) return refuse(r, e, "a merge (<<) is not taken");
    if (text[0] == 0) return refuse(r, e, "a name is empty");
    size_t i = 0;
    for (; text[i] != 0 && i < KEY_BYTES - 1; i++) key[i] = text[i] == '-' ? '_' : text[i];
    key[i] = 0;
    return FW_OK;
}

/* Where the leaves of an option go that may be a map; NULL: it may not. */
static fw_leaves *map_of(fw_recipe *r, fw_option_id id) {
    switch (id) {
    case FW_OPTION_fsdp_config: return &r->fsdp;
    case FW_OPTION_deepspeed: return &r->deepspeed;
    case FW_OPTION_gradient_checkpointing_kwargs: return &r->recompute;
    default: return NULL;
    }
}

/* "a,b" of a list, "a=1,b=2" of a map, of leaves that were read without a path before them. */
static fw_status join(fw_strbuf *out, const fw_leaves *l, bool map, const char *label) {
    for (size_t i = 0; i < l->n; i++) {
        const fw_leaf *leaf = &l->leaf[i];
        if (leaf->path[0] == 0) return FW_OK; /* empty */
        const bool deep = !map && strchr(leaf->path, '.') != NULL;
        if (deep || leaf->null || leaf->text[0] == 0 || strpbrk(leaf->text, " ,[{") != NULL)
            return fw_fail(FW_ERR_OPTION, "%s: \"%s\" has no place in a list of names", label, leaf->text);
        FW_TRY(fw_strbuf_printf(out, "%s%s%s%s", i > 0 ? "," : "", map ? leaf->path : "", map ? "=" : "", leaf->text));
    }
    return FW_OK;
}

/* Where a list or a map stands for one text, it is read to its end. */
static fw_status read_names(fw_recipe *r, const yaml_event_t *value, fw_strbuf *out, const char *label) {
    fw_leaves leaves = {0};
    fw_status status = fw_leaves_add_node(&leaves, &r->parser, value, "", r->where);
    if (status == FW_OK) status = join(out, &leaves, value->type == YAML_MAPPING_START_EVENT, label);
    fw_leaves_fini(&leaves);
    return status;
}

static bool takes_names(fw_option_id id, yaml_event_type_t type) {
    if (type == YAML_MAPPING_START_EVENT)
        return id == FW_OPTION_lora_rank_pattern || id == FW_OPTION_lora_alpha_pattern;
    return id == FW_OPTION_lora_target_modules || id == FW_OPTION_lora_exclude_modules ||
           id == FW_OPTION_lora_modules_to_save || id == FW_OPTION_lora_layers_to_transform;
}

static fw_status apply(fw_recipe *r, const char *key, const yaml_event_t *value, fw_option_place place) {
    fw_option_id id;
    const fw_option_spelling *spelling;
    char label[FW_LABEL_BYTES];
    FW_TRY(fw_option_find(&id, &spelling, fw_option_reader(r->o->command, key), key, place));
    fw_option_label(label, key, place);
    if (id == FW_OPTION_recipe) return fw_fail(FW_ERR_OPTION, "%s: a recipe cannot name another recipe", label);
    if (r->line_of[id] != 0)
        return fw_fail(FW_ERR_OPTION, "%s is given twice: line %d says %s; keep one", label, r->line_of[id],
                       r->name_of[id]);
    r->line_of[id] = place.line;
    snprintf(r->name_of[id], KEY_BYTES, "%s", key);
    fw_leaves *map = map_of(r, id);
    if (value->type == YAML_MAPPING_START_EVENT && map != NULL)
        return fw_leaves_add_node(map, &r->parser, value, "", r->where);
    const bool scalar = value->type == YAML_SCALAR_EVENT;
    if (!scalar && !takes_names(id, value->type))
        return fw_fail(FW_ERR_OPTION, "%s takes one value, not a list or a map", label);
    if (scalar && fw_yaml_is_null(value)) return FW_OK; /* as if the line were not there */
    fw_strbuf names = {0};
    fw_status status = scalar ? FW_OK : read_names(r, value, &names, label);
    const char *text = scalar ? (const char *)value->data.scalar.value : fw_strbuf_text(&names);
    bool wins = r->o->origin[id].from != FW_FROM_COMMAND_LINE; /* else: checked, and left as it is */
    if (status == FW_OK) status = fw_option_set(r->o, id, spelling, key, text, place, wins);
    fw_strbuf_fini(&names);
    if (status == FW_OK && wins) {
        r->o->origin[id].from = FW_FROM_RECIPE;
        r->o->origin[id].line = place.line;
    }
    return status;
}

/* One `name: value`; *last when the map ends instead. */
static fw_status read_entry(fw_recipe *r, bool *last) {
    yaml_event_t key_event, value_event = {0};
    fw_status status;
    char key[KEY_BYTES];
    fw_option_place place;
    FW_TRY_OR(fw_yaml_next(&r->parser, &key_event, r->where), done);
    *last = key_event.type == YAML_MAPPING_END_EVENT;
    if (*last) goto done;
    FW_TRY_OR(fw_yaml_check_plain(&key_event, r->where, advice), done);
    FW_TRY_OR(read_key(r, &key_event, key, &place), done);
    FW_TRY_OR(fw_yaml_next(&r->parser, &value_event, r->where), done);
    FW_TRY_OR(fw_yaml_check_plain(&value_event, r->where, advice), done);
    FW_TRY_OR(apply(r, key, &value_event, place), done);
done:
    yaml_event_delete(&key_event);
    yaml_event_delete(&value_event);
    return status;
}

static fw_status expect(fw_recipe *r, yaml_event_type_t type, const char *otherwise) {
    return fw_yaml_expect(&r->parser, type, r->where, otherwise, advice);
}

static fw_status read_document(fw_recipe *r) {
    FW_TRY(expect(r, YAML_STREAM_START_EVENT, "the file is not YAML"));
    FW_TRY(expect(r, YAML_DOCUMENT_START_EVENT, "the recipe is empty"));
    FW_TRY(expect(r, YAML_MAPPING_START_EVENT, "there are no names here"));
    for (bool last = false; !last;) FW_TRY(read_entry(r, &last));
    FW_TRY(expect(r, YAML_DOCUMENT_END_EVENT, "the recipe goes on after its end"));
    return expect(r, YAML_STREAM_END_EVENT, "a second document is not taken");
}

fw_status fw_options_parse_recipe(fw_options *o, const char *text, size_t text_bytes, const char *where) {
    fw_recipe r = {.o = o, .where = where};
    FW_TRY(fw_yaml_open(&r.parser, text, text_bytes, where));
    fw_status status = read_document(&r);
    if (status == FW_OK) status = fw_foreign_fsdp(o, &r.fsdp, where, FW_FROM_RECIPE);
    if (status == FW_OK) status = fw_foreign_deepspeed(o, &r.deepspeed, where, FW_FROM_RECIPE);
    if (status == FW_OK) status = fw_foreign_checkpointing(o, &r.recompute, where, FW_FROM_RECIPE);
    fw_leaves_fini(&r.fsdp);
    fw_leaves_fini(&r.deepspeed);
    fw_leaves_fini(&r.recompute);
    yaml_parser_delete(&r.parser);
    return status;
}
