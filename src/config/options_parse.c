/* The command line. */
#include "config/lookup.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/foreign.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 128, RECIPE_LIMIT_BYTES = 1 << 20 };

typedef struct fw_arguments {
    int argc, next;
    char *const *argv;
} fw_arguments;

static const fw_option_place command_line = {0};

static fw_status set(fw_options *o, fw_option_id id, const fw_option_spelling *spelling, const char *name,
                     const char *text) {
    FW_TRY(fw_option_set(o, id, spelling, name, text, command_line, true));
    o->origin[id].from = FW_FROM_COMMAND_LINE;
    return FW_OK;
}

/* "learning-rate=1" -> "learning_rate"; *value points behind the sign, NULL without one. */
static fw_status split(char name[NAME_BYTES], const char **value, const char *flag) {
    const char *sign = strchr(flag, '=');
    size_t name_n = sign != NULL ? (size_t)(sign - flag) : strlen(flag);
    if (name_n == 0 || name_n >= NAME_BYTES)
        return fw_fail(FW_ERR_OPTION, "--%.100s is not an option of finewire", flag);
    for (size_t i = 0; i < name_n; i++) name[i] = flag[i] == '-' ? '_' : flag[i];
    name[name_n] = 0;
    *value = sign != NULL ? sign + 1 : NULL;
    return FW_OK;
}

/* The word after a flag that stands alone: another option, or what the command takes as its bare argument, which must
 * be there. Anything else was meant as the flag's value, and would otherwise be said to be a missing file. `option`:
 * the flag without its "no". */
static fw_status check_following(const fw_options *o, const fw_arguments *a, const char *name, const char *option) {
    const char *word = a->next < a->argc ? a->argv[a->next] : NULL;
    if (word == NULL || (word[0] == '-' && word[1] != 0)) return FW_OK;
    fw_command_info command = fw_command_get(o->command);
    if (command.positional < 0)
        return fw_fail(FW_ERR_OPTION, "--%s is followed by \"%.100s\"; write --%s true, --%s false, or the flag alone",
                       name, word, option, option);
    if (fw_option_get((fw_option_id)command.positional)->type != FW_TYPE_PATH) return FW_OK; /* it says what is wrong */
    if (access(word, F_OK) == 0) return FW_OK;
    return fw_fail(FW_ERR_OPTION,
                   "--%s is followed by \"%.100s\", which is neither true nor false nor a %s that exists; write --%s "
                   "true, --%s false, or the flag alone",
                   name, word, fw_option_get((fw_option_id)command.positional)->name, option, option);
}

/* Does the word behind the flag of a switch read as its value? One that has words of its own takes what is no file, so that a
 * misspelt word is said to be one. */
static bool reads_as_value(const fw_option_info *info, const char *word) {
    bool ignored;
    if (info->type == FW_TYPE_BOOL) return fw_value_read_bool(&ignored, word) == NULL;
    return fw_choice_by_word(info->choices, word) >= 0 || (word[0] != '-' && access(word, F_OK) != 0);
}

/* --no_bf16, where bf16 is an option that may be true or false. */
static fw_status parse_negated(fw_options *o, const fw_arguments *a, const char *name, const char *value) {
    fw_option_id id;
    const fw_option_spelling *spelling;
    FW_TRY(fw_option_find(&id, &spelling, o->command, name + 3, command_line));
    if (!fw_option_is_switch(fw_option_get(id)))
        return fw_fail(FW_ERR_OPTION, "--%s: %s takes a value, there is no \"no\" to it", name, name + 3);
    if (value != NULL) return fw_fail(FW_ERR_OPTION, "--%s takes no value; write --%s %.100s", name, name + 3, value);
    FW_TRY(check_following(o, a, name, name + 3));
    return set(o, id, spelling, name, "false");
}

/* Set the option that was written as `name`, with the value behind its sign (NULL: none) or the word after it. */
static fw_status parse_value(fw_options *o, fw_arguments *a, fw_option_id id, const fw_option_spelling *spelling,
                             const char *name, const char *value) {
    const char *following = a->next < a->argc ? a->argv[a->next] : NULL;
    if (value == NULL && fw_option_is_switch(fw_option_get(id))) {
        /* the next argument is the value only when it reads as one: `--packing recipe.yaml` */
        if (following != NULL && reads_as_value(fw_option_get(id), following)) {
            value = following;
            a->next++;
        } else {
            FW_TRY(check_following(o, a, name, name));
            value = "true";
        }
    }
    if (value == NULL) {
        if (following == NULL || strncmp(following, "--", 2) == 0)
            return fw_fail(FW_ERR_OPTION, "--%s needs a value%s", name,
                           following == NULL ? "" : "; for one that begins with two dashes write --NAME=VALUE");
        value = following;
        a->next++;
    }
    return set(o, id, spelling, name, value);
}

/* `-b 8`, where the command has such a letter. */
static fw_status parse_letter(fw_options *o, fw_arguments *a, const char *argument) {
    int id = argument[2] == 0 ? fw_option_by_letter(argument[1], o->command) : -1;
    if (id < 0)
        return fw_fail(FW_ERR_OPTION, "%.100s is not an option of finewire; options begin with two dashes", argument);
    return parse_value(o, a, (fw_option_id)id, NULL, fw_option_get((fw_option_id)id)->name, NULL);
}

static fw_status parse_flag(fw_options *o, fw_arguments *a, const char *flag) {
    char name[NAME_BYTES];
    const char *value = NULL;
    fw_option_id id;
    const fw_option_spelling *spelling;
    FW_TRY(split(name, &value, flag));
    if (strncmp(name, "no_", 3) == 0 && !fw_option_comes_later(name)) return parse_negated(o, a, name, value);
    FW_TRY(fw_option_find(&id, &spelling, o->command, name, command_line));
    return parse_value(o, a, id, spelling, name, value);
}

/* A list grows: `finewire data stats a.jsonl b.jsonl` is a.jsonl,b.jsonl. A comma in the name of what is there is one of the
 * name; else the argument is a list itself. */
static fw_status add_to_list(fw_options *o, fw_option_id id, const char *argument) {
    char *const *field = (char *const *)(const void *)((const char *)o + fw_option_get(id)->offset);
    fw_strbuf list = {0};
    fw_status status;
    if (*field != NULL && fw_options_given(o, id)) {
        FW_TRY_OR(fw_strbuf_puts(&list, *field), done);
        FW_TRY_OR(fw_strbuf_putc(&list, ','), done);
    }
    const bool is_name = access(argument, F_OK) == 0;
    for (const char *c = argument; *c != 0; c++) {
        if (is_name && (*c == ',' || *c == '\\')) FW_TRY_OR(fw_strbuf_putc(&list, '\\'), done);
        FW_TRY_OR(fw_strbuf_putc(&list, *c), done);
    }
    FW_TRY_OR(set(o, id, NULL, fw_option_get(id)->name, fw_strbuf_text(&list)), done);
done:
    fw_strbuf_fini(&list);
    return status;
}

static fw_status parse_bare(fw_options *o, const char *argument) {
    fw_command_info command = fw_command_get(o->command);
    if (command.positional < 0)
        return fw_fail(FW_ERR_OPTION, "finewire %s does not know what to do with \"%.100s\"; options are --NAME VALUE",
                       command.name, argument);
    fw_option_id id = (fw_option_id)command.positional;
    const char *name = fw_option_get(id)->name;
    if (id == FW_OPTION_dataset_name) return add_to_list(o, id, argument);
    if (fw_options_given(o, id))
        return fw_fail(FW_ERR_OPTION, "finewire %s takes one %s; \"%.100s\" is a second one", command.name, name,
                       argument);
    return set(o, id, NULL, name, argument);
}

static fw_status parse_arguments(fw_options *o, fw_arguments *a) {
    bool only_bare = false; /* after "--" */
    while (a->next < a->argc) {
        const char *argument = a->argv[a->next++];
        if (only_bare)
            FW_TRY(parse_bare(o, argument));
        else if (strcmp(argument, "--") == 0)
            only_bare = true;
        else if (strncmp(argument, "--", 2) == 0)
            FW_TRY(parse_flag(o, a, argument + 2));
        else if (argument[0] == '-' && argument[1] != 0)
            FW_TRY(parse_letter(o, a, argument));
        else
            FW_TRY(parse_bare(o, argument));
    }
    return FW_OK;
}

static fw_status read_recipe(fw_options *o) {
    if (access(o->recipe, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return fw_fail(FW_ERR_OPTION,
                       "there is no recipe %s; check the path (a recipe is a YAML file of options, finewire help %s "
                       "lists them), or give the options as --NAME VALUE",
                       o->recipe, fw_command_get(o->command).name);
    fw_strbuf text = {0};
    fw_status status;
    status = fw_file_read(&text, o->recipe, RECIPE_LIMIT_BYTES);
    if (status == FW_ERR_INPUT) status = fw_fail_context(FW_ERR_OPTION, "reading the recipe: ");
    FW_TRY_OR(status, done);
    FW_TRY_OR(fw_options_parse_recipe(o, fw_strbuf_text(&text), text.len_bytes, o->recipe), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

fw_status fw_options_parse(fw_options *o, int argc, char *const *argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        o->help_asked = true;
        return FW_OK;
    }
    FW_TRY(parse_arguments(o, &(fw_arguments){argc, 0, argv}));
    if (o->recipe != NULL) FW_TRY(read_recipe(o));
    return fw_options_read_foreign(o);
}
