/* The tables of options.def, choices.def, spellings.def and commands.def as data, and what can be said about them. */
#include "config/lookup.h"

#include <stdio.h>
#include <string.h>

#define FW_CHOICES_BEGIN(set) const char *const set##_words[] = {
#define FW_CHOICE(value, word) word,
#define FW_CHOICE_ALSO(set, value, word)
#define FW_CHOICES_END(set)                                                                                            \
    NULL                                                                                                               \
    }                                                                                                                  \
    ;
#include "config/choices.def"
#undef FW_CHOICES_BEGIN
#undef FW_CHOICE
#undef FW_CHOICE_ALSO
#undef FW_CHOICES_END

static const struct {
    const char *const *set;
    const char *word;
    int value;
} words_also[] = {
#define FW_CHOICES_BEGIN(set)
#define FW_CHOICE(value, word)
#define FW_CHOICE_ALSO(set, value, word) {set##_words, word, (int)(value)},
#define FW_CHOICES_END(set)
#include "config/choices.def"
#undef FW_CHOICES_BEGIN
#undef FW_CHOICE
#undef FW_CHOICE_ALSO
#undef FW_CHOICES_END
};
enum { WORDS_ALSO_N = sizeof words_also / sizeof words_also[0] };

/* Bounds stand in the column of the option's type; the others' are not used. */
#define BOUND_INT(type, bound) (FW_TYPE_##type == FW_TYPE_INT || FW_TYPE_##type == FW_TYPE_SIZE ? (int64_t)(bound) : 0)
static const fw_option_info options[FW_OPTION_N] = {
#define FW_OPTION(name, type, c_type, value, min, max, choices, commands, group, help)                                 \
    {#name,                                                                                                            \
     FW_TYPE_##type,                                                                                                   \
     FW_GROUP_##group,                                                                                                 \
     (commands),                                                                                                       \
     value,                                                                                                            \
     BOUND_INT(type, min),                                                                                             \
     BOUND_INT(type, max),                                                                                             \
     (double)(min),                                                                                                    \
     (double)(max),                                                                                                    \
     choices,                                                                                                          \
     help,                                                                                                             \
     offsetof(fw_options, name)},
#include "config/options.def"
#undef FW_OPTION
};

#define FW_ALIAS(spelling, option)
#define FW_ALIAS_BELOW(spelling, option, max)
#define FW_WORD(spelling, written, meant)
#define FW_WORD_MORE(option, written, meant)
#define FW_SHORT(letter, option)
#define FW_LATER(name)

static const fw_option_spelling spellings[] = {
#undef FW_ALIAS
#undef FW_ALIAS_BELOW
#define FW_ALIAS(spelling, option) {#spelling, FW_OPTION_##option, 0, false},
#define FW_ALIAS_BELOW(spelling, option, max) {#spelling, FW_OPTION_##option, max, true},
#include "config/spellings.def"
#undef FW_ALIAS
#undef FW_ALIAS_BELOW
#define FW_ALIAS(spelling, option)
#define FW_ALIAS_BELOW(spelling, option, max)
};
enum { SPELLING_N = sizeof spellings / sizeof spellings[0] };

static const fw_option_word words[] = {
#undef FW_WORD
#undef FW_WORD_MORE
#define FW_WORD(spelling, written, meant) {#spelling, written, meant, true},
#define FW_WORD_MORE(option, written, meant) {#option, written, meant, false},
#include "config/spellings.def"
#undef FW_WORD
#undef FW_WORD_MORE
#define FW_WORD(spelling, written, meant)
#define FW_WORD_MORE(option, written, meant)
};
enum { WORD_N = sizeof words / sizeof words[0] };

static const struct {
    char letter;
    fw_option_id id;
} shorts[] = {
#undef FW_SHORT
#define FW_SHORT(letter, option) {#letter[0], FW_OPTION_##option},
#include "config/spellings.def"
#undef FW_SHORT
#define FW_SHORT(letter, option)
};
enum { SHORT_N = sizeof shorts / sizeof shorts[0] };

static const char *const later[] = {
#undef FW_LATER
#define FW_LATER(name) #name,
#include "config/spellings.def"
};
enum { LATER_N = sizeof later / sizeof later[0] };

#undef FW_ALIAS
#undef FW_ALIAS_BELOW
#undef FW_WORD
#undef FW_WORD_MORE
#undef FW_SHORT
#undef FW_LATER

static const struct {
    const char *name, *positional, *summary;
} commands_text[FW_COMMAND_N] = {
#define FW_COMMAND(ID, name, positional, summary) {#name, positional, summary},
#include "config/commands.def"
#undef FW_COMMAND
};

const fw_option_info *fw_option_get(fw_option_id id) {
    FW_ASSERT(id >= 0 && id < FW_OPTION_N);
    return &options[id];
}

int fw_option_by_name(const char *name) {
    for (int i = 0; i < FW_OPTION_N; i++)
        if (strcmp(options[i].name, name) == 0) return i;
    return -1;
}

const fw_option_spelling *fw_option_spelling_at(size_t i) { return i < SPELLING_N ? &spellings[i] : NULL; }

const fw_option_word *fw_option_word_at(size_t i) { return i < WORD_N ? &words[i] : NULL; }

const char *fw_choice_also_at(size_t i, const char *const *choices, int *value) {
    for (size_t k = 0; k < WORDS_ALSO_N; k++) {
        if (words_also[k].set != choices || i-- > 0) continue;
        *value = words_also[k].value;
        return words_also[k].word;
    }
    return NULL;
}

int fw_option_by_letter(char letter, fw_command command) {
    for (size_t i = 0; i < SHORT_N; i++)
        if (shorts[i].letter == letter && (fw_option_get(shorts[i].id)->commands & (1u << command)) != 0)
            return (int)shorts[i].id;
    return -1;
}

char fw_option_letter(fw_option_id id) {
    for (size_t i = 0; i < SHORT_N; i++)
        if (shorts[i].id == id) return shorts[i].letter;
    return 0;
}

bool fw_option_comes_later(const char *name) {
    for (size_t i = 0; i < LATER_N; i++)
        if (strcmp(later[i], name) == 0) return true;
    return false;
}

fw_command_info fw_command_get(fw_command command) {
    FW_ASSERT(command >= 0 && command < FW_COMMAND_N);
    return (fw_command_info){commands_text[command].name, commands_text[command].summary,
                             fw_option_by_name(commands_text[command].positional)};
}

/* Append to out[used..bytes), cut off where it ends. */
static size_t append(char *out, size_t bytes, size_t used, const char *text) {
    int n = snprintf(out + used, bytes - used, "%s", text);
    used += n < 0 ? 0 : (size_t)n;
    return used < bytes ? used : bytes - 1;
}

const char *fw_option_aliases(fw_option_id id, char *out, size_t bytes) {
    FW_ASSERT(bytes > 0);
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < SPELLING_N; i++) {
        if (spellings[i].id != id) continue;
        if (used > 0) used = append(out, bytes, used, ", ");
        used = append(out, bytes, used, spellings[i].name);
    }
    return out;
}

const char *fw_option_bounds(fw_option_id id, char *out, size_t bytes) {
    const fw_option_info *info = fw_option_get(id);
    FW_ASSERT(bytes > 0);
    size_t used = 0;
    out[0] = 0;
    switch (info->type) {
    case FW_TYPE_BOOL: append(out, bytes, 0, "true or false"); break;
    case FW_TYPE_INT:
        if (info->int_max == INT64_MAX)
            snprintf(out, bytes, "at least %lld", (long long)info->int_min);
        else
            snprintf(out, bytes, "from %lld to %lld", (long long)info->int_min, (long long)info->int_max);
        break;
    case FW_TYPE_SIZE:
        snprintf(out, bytes, "from %lld to %lld bytes, as 5GB or 512MiB", (long long)info->int_min,
                 (long long)info->int_max);
        break;
    case FW_TYPE_FLOAT: snprintf(out, bytes, "from %.9g to %.9g", info->float_min, info->float_max); break;
    case FW_TYPE_CHOICE:
        for (size_t i = 0; info->choices[i] != NULL; i++) {
            if (i > 0) used = append(out, bytes, used, info->choices[i + 1] != NULL ? ", " : " or ");
            used = append(out, bytes, used, info->choices[i]);
        }
        break;
    case FW_TYPE_TEXT:
    case FW_TYPE_PATH: break;
    }
    return out;
}

const char *fw_option_group_title(fw_option_group group) {
    static const char *const titles[FW_GROUP_N] = {
        "Files",      "Data",    "Training", "Optimizer",  "Reports, evaluation and saving",
        "Generation", "Machine", "Sharding", "Benchmarks", "Planning"};
    FW_ASSERT(group >= 0 && group < FW_GROUP_N);
    return titles[group];
}
