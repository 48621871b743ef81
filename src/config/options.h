/* Options: what the user asked for, from the command line and the recipe.
 *
 * One table, config/options.def, makes everything here: a field of fw_options for each option (same name,
 * o->learning_rate), the flags, the recipe keys, bounds, defaults, --help and docs/options.md. Other rooms
 * read the fields and nothing else. Life of one:
 *
 *     fw_options o;
 *     FW_TRY(fw_options_init(&o, FW_COMMAND_TRAIN));
 *     FW_TRY_OR(fw_options_parse(&o, argc, argv), out);    arguments after the command's name
 *     FW_TRY_OR(fw_options_check(&o), out);                rules between options; fills in what follows from others
 *     ...
 *     out: fw_options_fini(&o);
 *
 * The order of precedence is default, files of other programs, recipe, command line; each option remembers where its value came
 * from. All errors of users are FW_ERR_OPTION and name the flag or FILE:LINE, the value, and what is allowed. */
#ifndef FW_CONFIG_OPTIONS_H
#define FW_CONFIG_OPTIONS_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FW_COMMAND_TRAIN, ... and masks FW_FOR_TRAIN, ... */
typedef enum fw_command {
#define FW_COMMAND(ID, name, positional, summary) FW_COMMAND_##ID,
#include "config/commands.def"
#undef FW_COMMAND
    FW_COMMAND_N
} fw_command;
enum {
#define FW_COMMAND(ID, name, positional, summary) FW_FOR_##ID = 1 << FW_COMMAND_##ID,
#include "config/commands.def"
#undef FW_COMMAND
};

/* Words as enums: see config/choices.def. fw_lr_schedule_words[FW_LR_COSINE] is "cosine"; the list ends with NULL. */
#define FW_CHOICES_BEGIN(set) typedef enum set {
#define FW_CHOICE(value, word) value,
#define FW_CHOICE_ALSO(set, value, word)
#define FW_CHOICES_END(set)                                                                                            \
    }                                                                                                                  \
    set;                                                                                                               \
    extern const char *const set##_words[];
#include "config/choices.def"
#undef FW_CHOICES_BEGIN
#undef FW_CHOICE
#undef FW_CHOICE_ALSO
#undef FW_CHOICES_END

/* FW_OPTION_learning_rate, ... */
typedef enum fw_option_id {
#define FW_OPTION(name, type, c_type, value, min, max, choices, commands, group, help) FW_OPTION_##name,
#include "config/options.def"
#undef FW_OPTION
    FW_OPTION_N
} fw_option_id;

/* In the order of precedence. FW_FROM_FILE: settings of another program (config/foreign.h). */
typedef enum fw_option_origin { FW_FROM_DEFAULT, FW_FROM_FILE, FW_FROM_RECIPE, FW_FROM_COMMAND_LINE } fw_option_origin;

typedef struct fw_options {
    fw_command command;
    /* One field an option. Texts and paths are owned by this struct; NULL: not given. */
#define FW_OPTION(name, type, c_type, value, min, max, choices, commands, group, help) c_type name;
#include "config/options.def"
#undef FW_OPTION
    struct {
        fw_option_origin from;
        int line;         /* in the recipe or file; 0: not known */
        const char *file; /* FW_FROM_FILE: its name; lives as long as the options */
    } origin[FW_OPTION_N];
    bool help_asked; /* --help or -h was among the arguments; nothing else was checked then */
} fw_options;

/* All defaults. The struct may be given to fw_options_fini whatever the result. Errors: FW_ERR_NOMEM. */
fw_status fw_options_init(fw_options *o, fw_command command);
/* Frees the texts; takes a zeroed struct. */
void fw_options_fini(fw_options *o);

/* Read arguments: --name value, --name=value, dashes or underscores, --flag, --flag false, --no_flag, one
 * positional argument where the command has one. A recipe is read first, wherever it stands among them. */
fw_status fw_options_parse(fw_options *o, int argc, char *const *argv);
/* Read a recipe's text; `where` is its name in messages. Options given on the command line are left alone. */
fw_status fw_options_parse_recipe(fw_options *o, const char *text, size_t text_bytes, const char *where);

/* Rules that involve more than one option; then fills in those that follow from others (data_seed, eval_steps).
 * Needs: model (train, eval, generate, plan), dataset (train, eval), output_dir (train), prompt (generate), file and output (import). */
fw_status fw_options_check(fw_options *o);
/* Fill in what train_batch_size leaves open, now that the number of ranks is known: gradient_accumulation_steps, and
 * per_device_train_batch_size where neither was given (then one micro-batch a step). Errors: FW_ERR_OPTION when the
 * product is another or does not divide. */
fw_status fw_options_resolve_batch(fw_options *o, int world);
/* Warn of options that are allowed together but have no effect. Apart from the check, so that a job of several
 * ranks says it once. */
void fw_options_warn(const fw_options *o);
/* The same of options that have none with the strategy that is run, where that is not the one asked for: auto chose it, or
 * there is one rank. */
void fw_options_warn_of_choice(const fw_options *o, fw_strategy chosen);

/* *out = the same, with texts of its own, to be given to fw_options_fini whatever the result. Errors: FW_ERR_NOMEM. */
fw_status fw_options_copy(fw_options *out, const fw_options *o);
/* Set one option as `--name value` on the command line would: names and values are read in the same way. */
fw_status fw_options_set(fw_options *o, const char *name, const char *value);

/* Was it given, or is it the default? */
bool fw_options_given(const fw_options *o, fw_option_id id);
/* "the default", "recipe.yaml:3" or "the command line"; at most `bytes` of text. Returns `out`. */
const char *fw_options_origin(const fw_options *o, fw_option_id id, char *out, size_t bytes);

/* Steps of warm-up out of total_steps: warmup_steps, or ceil(warmup_steps * total_steps) when it is below 1. */
int64_t fw_options_warmup_steps(const fw_options *o, int64_t total_steps);

/* The resolved configuration, every option of the command in the order of the table: choices as words, texts
 * not given as null. *out is owned by the caller (json_decref). Errors: FW_ERR_NOMEM. */
fw_status fw_options_to_json(json_t **out, const fw_options *o);

/* ---- the table, for help and documentation ---- */

typedef enum fw_option_type {
    FW_TYPE_BOOL,
    FW_TYPE_INT,
    FW_TYPE_FLOAT,
    FW_TYPE_SIZE,
    FW_TYPE_CHOICE,
    FW_TYPE_TEXT,
    FW_TYPE_PATH
} fw_option_type;

typedef enum fw_option_group {
    FW_GROUP_FILES,
    FW_GROUP_DATA,
    FW_GROUP_TRAINING,
    FW_GROUP_OPTIMIZER,
    FW_GROUP_REPORTS,
    FW_GROUP_GENERATION,
    FW_GROUP_MACHINE,
    FW_GROUP_SHARDING,
    FW_GROUP_BENCH,
    FW_GROUP_PLANNING,
    FW_GROUP_N
} fw_option_group;

typedef struct fw_option_info {
    const char *name;
    fw_option_type type;
    fw_option_group group;
    unsigned commands; /* FW_FOR_* */
    const char *value; /* default as text; NULL: none */
    int64_t int_min, int_max;
    double float_min, float_max;
    const char *const *choices; /* NULL-terminated; FW_TYPE_CHOICE only */
    const char *help;
    size_t offset; /* of the field in fw_options */
} fw_option_info;

const fw_option_info *fw_option_get(fw_option_id id);
/* May it stand alone, meaning true, and with "no" before it? True or false, whatever words it takes beside them. */
bool fw_option_is_switch(const fw_option_info *info);
/* Other spellings of the option, "model, model_path"; "" when there are none. At most `bytes`; returns `out`. */
const char *fw_option_aliases(fw_option_id id, char *out, size_t bytes);
/* Its letter on the command line; 0: none. */
char fw_option_letter(fw_option_id id);
/* What values are allowed: "from 0 to 10", "at least 1", "auto, cpu or ref"; "" when any text is. */
const char *fw_option_bounds(fw_option_id id, char *out, size_t bytes);
const char *fw_option_group_title(fw_option_group group);

typedef struct fw_command_info {
    const char *name, *summary;
    int positional; /* fw_option_id, or -1 */
} fw_command_info;
fw_command_info fw_command_get(fw_command command);

#endif
