#include "config/lookup.h"

#include "base/alloc.h"
#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

const char *fw_option_label(char *out, const char *name, fw_option_place place) {
    if (place.file == NULL)
        snprintf(out, FW_LABEL_BYTES, "--%.100s", name);
    else if (place.line == 0)
        snprintf(out, FW_LABEL_BYTES, "%.120s: %.100s", place.file, name);
    else
        snprintf(out, FW_LABEL_BYTES, "%.120s:%d: %.100s", place.file, place.line, name);
    return out;
}

/* "eval and generate": the commands of a mask. */
static void list_commands(char *out, size_t bytes, unsigned mask) {
    size_t used = 0;
    out[0] = 0;
    for (int c = 0; c < FW_COMMAND_N && used < bytes; c++) {
        if ((mask & (1u << c)) == 0) continue;
        const char *between = used == 0 ? "" : (mask >> c) > 1 ? ", " : " and ";
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", between, fw_command_get((fw_command)c).name);
    }
}

static const char *nearest_name(const char *name, fw_command command) {
    fw_nearest nearest;
    fw_nearest_start(&nearest, name);
    for (int i = 0; i < FW_OPTION_N; i++)
        if (fw_option_get((fw_option_id)i)->commands & (1u << command))
            fw_nearest_offer(&nearest, fw_option_get((fw_option_id)i)->name);
    const fw_option_spelling *spelling;
    for (size_t i = 0; (spelling = fw_option_spelling_at(i)) != NULL; i++)
        if (fw_option_get(spelling->id)->commands & (1u << command)) fw_nearest_offer(&nearest, spelling->name);
    return nearest.best;
}

/* An option by its name (*alias is NULL) or by another spelling of it; -1. */
static int find(const fw_option_spelling **alias, const char *name) {
    int found = fw_option_by_name(name);
    *alias = NULL;
    for (size_t i = 0; found < 0 && (*alias = fw_option_spelling_at(i)) != NULL; i++)
        if (strcmp((*alias)->name, name) == 0) found = (int)(*alias)->id;
    return found;
}

static bool is_of(fw_command command, const char *name) {
    const fw_option_spelling *alias;
    const int found = find(&alias, name);
    return found >= 0 && (fw_option_get((fw_option_id)found)->commands & (1u << command)) != 0;
}

fw_command fw_option_reader(fw_command command, const char *name) {
    const bool of_run_only = !is_of(command, name) && is_of(FW_COMMAND_TRAIN, name);
    const bool looks_at_runs = command == FW_COMMAND_PLAN || command == FW_COMMAND_DOCTOR;
    return looks_at_runs && of_run_only ? FW_COMMAND_TRAIN : command;
}

fw_status fw_option_find(fw_option_id *id, const fw_option_spelling **spelling, fw_command command, const char *name,
                         fw_option_place place) {
    char label[FW_LABEL_BYTES];
    fw_option_label(label, name, place);
    const char *command_name = fw_command_get(command).name;
    const fw_option_spelling *alias;
    const int found = find(&alias, name);
    if (found >= 0) {
        unsigned commands = fw_option_get((fw_option_id)found)->commands;
        if (commands & (1u << command)) {
            *id = (fw_option_id)found;
            *spelling = alias;
            return FW_OK;
        }
        /* a way of training that plan can work out already */
        if (commands == FW_FOR_PLAN && fw_option_get((fw_option_id)found)->group != FW_GROUP_PLANNING)
            return fw_fail(FW_ERR_OPTION, "%s is not supported yet by finewire %s; leave it out", label, command_name);
        char others[128];
        list_commands(others, sizeof others, commands);
        return fw_fail(FW_ERR_OPTION, "%s is an option of finewire %s, not of finewire %s", label, others,
                       command_name);
    }
    if (fw_option_comes_later(name))
        return fw_fail(FW_ERR_OPTION, "%s is not supported yet by finewire; leave it out", label);
    const char *nearest = nearest_name(name, command);
    if (nearest == NULL)
        return fw_fail(FW_ERR_OPTION, "%s is not an option of finewire %s; finewire help %s lists them", label,
                       command_name, command_name);
    return fw_fail(FW_ERR_OPTION, "%s is not an option of finewire %s; did you mean %s%s?", label, command_name,
                   place.file == NULL ? "--" : "", nearest);
}

/* A value read but not yet stored. */
typedef struct fw_value {
    bool truth;
    int64_t whole;
    double number;
    int choice;
} fw_value;

/* NULL, or what is wrong with the text; bounds are checked by the caller. */
static const char *read_value(fw_value *v, const fw_option_info *info, const char *text) {
    switch (info->type) {
    case FW_TYPE_BOOL: return fw_value_read_bool(&v->truth, text);
    case FW_TYPE_INT: return fw_value_read_int(&v->whole, text);
    case FW_TYPE_SIZE: return fw_value_read_size(&v->whole, text);
    case FW_TYPE_FLOAT: return fw_value_read_float(&v->number, text);
    case FW_TYPE_CHOICE: v->choice = fw_choice_by_word(info->choices, text); return NULL;
    case FW_TYPE_TEXT: return fw_value_check_text(text);
    case FW_TYPE_PATH: return text[0] == 0 ? "it is empty" : fw_value_check_text(text);
    }
    return NULL;
}

static bool is_out_of_bounds(const fw_value *v, const fw_option_info *info) {
    switch (info->type) {
    case FW_TYPE_INT:
    case FW_TYPE_SIZE: return v->whole < info->int_min || v->whole > info->int_max;
    case FW_TYPE_FLOAT: return v->number < info->float_min || v->number > info->float_max;
    default: return false;
    }
}

bool fw_option_is_switch(const fw_option_info *info) {
    if (info->type == FW_TYPE_BOOL) return true;
    return info->type == FW_TYPE_CHOICE && fw_choice_by_word(info->choices, "true") >= 0 &&
           fw_choice_by_word(info->choices, "false") >= 0;
}

fw_status fw_option_set(fw_options *o, fw_option_id id, const fw_option_spelling *spelling, const char *name,
                        const char *text, fw_option_place place, bool store) {
    const fw_option_info *info = fw_option_get(id);
    char label[FW_LABEL_BYTES], bounds[128];
    fw_value value = {0};
    fw_option_label(label, name, place);
    const char *meant;
    FW_TRY(fw_option_translate(&meant, id, spelling, label, text));
    const char *wrong = read_value(&value, info, meant);
    if (wrong != NULL) return fw_fail(FW_ERR_OPTION, "%s is \"%.100s\": %s", label, text, wrong);
    if (info->type == FW_TYPE_CHOICE && value.choice < 0) return fw_option_refuse_word(id, label, text);
    if (is_out_of_bounds(&value, info))
        return fw_fail(FW_ERR_OPTION, "%s is %.100s; it must be %s", label, text,
                       fw_option_bounds(id, bounds, sizeof bounds));
    if (spelling != NULL && spelling->has_max && value.number > spelling->max)
        return fw_fail(FW_ERR_OPTION, "%s is %.100s; it must be from %g to %g", label, text, info->float_min,
                       spelling->max);
    if (!store) return FW_OK;

    char *field = (char *)o + info->offset;
    switch (info->type) {
    case FW_TYPE_BOOL: memcpy(field, &value.truth, sizeof value.truth); break;
    case FW_TYPE_INT:
    case FW_TYPE_SIZE: memcpy(field, &value.whole, sizeof value.whole); break;
    case FW_TYPE_FLOAT: memcpy(field, &value.number, sizeof value.number); break;
    case FW_TYPE_CHOICE: memcpy(field, &value.choice, sizeof value.choice); break; /* enums are ints here */
    case FW_TYPE_TEXT:
    case FW_TYPE_PATH: {
        char *copy, *old;
        FW_TRY(fw_strdup(&copy, meant));
        memcpy(&old, field, sizeof old);
        fw_free(old);
        memcpy(field, &copy, sizeof copy);
        break;
    }
    }
    return FW_OK;
}
