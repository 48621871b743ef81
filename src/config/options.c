/* Life of fw_options, where values came from, and the configuration as JSON. */
#include "config/options.h"

#include "base/alloc.h"
#include "base/json.h"
#include "config/lookup.h"

#include <stdio.h>
#include <string.h>

static bool takes(const fw_options *o, int id) {
    return (fw_option_get((fw_option_id)id)->commands & (1u << o->command)) != 0;
}

fw_status fw_options_init(fw_options *o, fw_command command) {
    *o = (fw_options){.command = command};
    for (int i = 0; i < FW_OPTION_N; i++) {
        const fw_option_info *info = fw_option_get((fw_option_id)i);
        if (info->value == NULL) continue;
        FW_TRY(fw_option_set(o, (fw_option_id)i, NULL, info->name, info->value, (fw_option_place){0}, true));
    }
    return FW_OK;
}

static char *text_of(const fw_options *o, const fw_option_info *info) {
    char *text;
    memcpy(&text, (const char *)o + info->offset, sizeof text);
    return text;
}

void fw_options_fini(fw_options *o) {
    for (int i = 0; i < FW_OPTION_N; i++) {
        const fw_option_info *info = fw_option_get((fw_option_id)i);
        if (info->type == FW_TYPE_TEXT || info->type == FW_TYPE_PATH) fw_free(text_of(o, info));
    }
    *o = (fw_options){0};
}

fw_status fw_options_copy(fw_options *out, const fw_options *o) {
    *out = *o;
    fw_status status = FW_OK;
    for (int i = 0; i < FW_OPTION_N; i++) {
        const fw_option_info *info = fw_option_get((fw_option_id)i);
        if (info->type != FW_TYPE_TEXT && info->type != FW_TYPE_PATH) continue;
        char *copy = NULL; /* to the end, whatever fails: nothing is owned twice */
        if (status == FW_OK && text_of(o, info) != NULL) status = fw_strdup(&copy, text_of(o, info));
        memcpy((char *)out + info->offset, &copy, sizeof copy);
    }
    return status;
}

fw_status fw_options_set(fw_options *o, const char *name, const char *value) {
    fw_option_id id;
    const fw_option_spelling *spelling;
    FW_TRY(fw_option_find(&id, &spelling, o->command, name, (fw_option_place){0}));
    FW_TRY(fw_option_set(o, id, spelling, name, value, (fw_option_place){0}, true));
    o->origin[id].from = FW_FROM_COMMAND_LINE;
    return FW_OK;
}

bool fw_options_given(const fw_options *o, fw_option_id id) { return o->origin[id].from != FW_FROM_DEFAULT; }

const char *fw_options_origin(const fw_options *o, fw_option_id id, char *out, size_t bytes) {
    switch (o->origin[id].from) {
    case FW_FROM_DEFAULT: snprintf(out, bytes, "the default"); break;
    case FW_FROM_FILE:
        if (o->origin[id].line > 0)
            snprintf(out, bytes, "%s:%d", o->origin[id].file, o->origin[id].line);
        else
            snprintf(out, bytes, "%s", o->origin[id].file);
        break;
    case FW_FROM_RECIPE:
        snprintf(out, bytes, "%s:%d", o->recipe != NULL ? o->recipe : "the recipe", o->origin[id].line);
        break;
    case FW_FROM_COMMAND_LINE: snprintf(out, bytes, "the command line"); break;
    }
    return out;
}

/* NULL when memory ran out. */
static json_t *value_to_json(const fw_options *o, const fw_option_info *info) {
    const char *field = (const char *)o + info->offset;
    bool truth;
    int64_t whole;
    double number;
    int choice;
    switch (info->type) {
    case FW_TYPE_BOOL: memcpy(&truth, field, sizeof truth); return json_boolean(truth);
    case FW_TYPE_INT:
    case FW_TYPE_SIZE: memcpy(&whole, field, sizeof whole); return json_integer(whole);
    case FW_TYPE_FLOAT: memcpy(&number, field, sizeof number); return json_real(number);
    case FW_TYPE_CHOICE: memcpy(&choice, field, sizeof choice); return json_string(info->choices[choice]);
    case FW_TYPE_TEXT:
    case FW_TYPE_PATH: return text_of(o, info) != NULL ? json_string(text_of(o, info)) : json_null();
    }
    return NULL;
}

fw_status fw_options_to_json(json_t **out, const fw_options *o) {
    json_t *object;
    *out = NULL;
    FW_TRY(fw_json_parse(&object, "{}", 2, "options", 1)); /* not json_object(): this installs our allocator */
    for (int i = 0; i < FW_OPTION_N; i++) {
        const fw_option_info *info = fw_option_get((fw_option_id)i);
        if (!takes(o, i)) continue;
        if (json_object_set_new(object, info->name, value_to_json(o, info)) != 0) {
            json_decref(object);
            return fw_fail(FW_ERR_NOMEM, "out of memory while writing down the options");
        }
    }
    *out = object;
    return FW_OK;
}
