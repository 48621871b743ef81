/* The words that options take, as finewire and as other programs write them. */
#include "base/nearest.h"
#include "config/lookup.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST_WORD_BYTES = 64 };

static int folded(char c) { return c == '-' ? '_' : tolower((unsigned char)c); }

bool fw_words_equal(const char *a, const char *b) {
    while (*a != 0 && folded(*a) == folded(*b)) a++, b++;
    return folded(*a) == folded(*b);
}

int fw_choice_by_word(const char *const *choices, const char *word) {
    for (int value = 0; choices[value] != NULL; value++)
        if (fw_words_equal(choices[value], word)) return value;
    int value;
    const char *also;
    for (size_t i = 0; (also = fw_choice_also_at(i, choices, &value)) != NULL; i++)
        if (fw_words_equal(also, word)) return value;
    return -1;
}

/* Words are kept folded while the nearest is looked for. */
typedef struct fw_guess {
    char text[LONGEST_WORD_BYTES];
    fw_nearest nearest;
} fw_guess;

static void guess_start(fw_guess *g, const char *text) {
    size_t i = 0;
    for (; text[i] != 0 && i < sizeof g->text - 1; i++) g->text[i] = (char)folded(text[i]);
    g->text[text[i] == 0 && i > 1 ? i : 0] = 0; /* a single character and what is too long are near to nothing */
    fw_nearest_start(&g->nearest, g->text);
}

static fw_status refuse(const fw_guess *g, const char *label, const char *text, const char *list) {
    const char *best = g->nearest.best;
    return fw_fail(FW_ERR_OPTION, "%s is %.100s; it must be %s%s%s%s", label, text, list,
                   best != NULL ? "; did you mean " : "", best != NULL ? best : "", best != NULL ? "?" : "");
}

/* Optimizers of transformers' TrainingArguments that finewire does not have. */
static bool is_later_optim(const char *text) {
    static const char *const names[] = {"adamw_torch_xla",
                                        "adamw_torch_npu_fused",
                                        "adamw_anyprecision",
                                        "adamw_torch_4bit",
                                        "adamw_torch_8bit",
                                        "ademamix",
                                        "ademamix_8bit",
                                        "adagrad",
                                        "paged_ademamix_32bit",
                                        "paged_ademamix_8bit",
                                        "paged_lion_32bit",
                                        "paged_lion_8bit",
                                        "rmsprop",
                                        "rmsprop_bnb",
                                        "rmsprop_bnb_8bit",
                                        "rmsprop_bnb_32bit",
                                        "galore_adamw",
                                        "galore_adamw_8bit",
                                        "galore_adafactor",
                                        "galore_adamw_layerwise",
                                        "galore_adamw_8bit_layerwise",
                                        "galore_adafactor_layerwise",
                                        "lomo",
                                        "adalomo",
                                        "grokadamw",
                                        "schedule_free_radam",
                                        "schedule_free_adamw",
                                        "schedule_free_sgd",
                                        "apollo_adamw",
                                        "apollo_adamw_layerwise",
                                        "stable_adamw"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (fw_words_equal(names[i], text)) return true;
    return false;
}

fw_status fw_option_refuse_word(fw_option_id id, const char *label, const char *text) {
    const fw_option_info *info = fw_option_get(id);
    char list[256];
    if (id == FW_OPTION_optim && is_later_optim(text))
        return fw_fail(FW_ERR_OPTION, "%s is %s, an optimizer that finewire does not have yet; it has %s", label, text,
                       fw_option_bounds(id, list, sizeof list));
    fw_guess g;
    int value;
    const char *also;
    guess_start(&g, text);
    for (size_t i = 0; info->choices[i] != NULL; i++) fw_nearest_offer(&g.nearest, info->choices[i]);
    for (size_t i = 0; (also = fw_choice_also_at(i, info->choices, &value)) != NULL; i++)
        fw_nearest_offer(&g.nearest, also);
    return refuse(&g, label, text, fw_option_bounds(id, list, sizeof list));
}

/* Does this word hold under the name that was used? */
static bool applies(const fw_option_word *word, fw_option_id id, const fw_option_spelling *spelling) {
    if (word->only) return spelling != NULL && strcmp(word->name, spelling->name) == 0;
    return strcmp(word->name, fw_option_get(id)->name) == 0;
}

fw_status fw_option_translate(const char **meant, fw_option_id id, const fw_option_spelling *spelling,
                              const char *label, const char *text) {
    const fw_option_word *word, *last = NULL;
    *meant = text;
    for (size_t i = 0; (word = fw_option_word_at(i)) != NULL; i++) {
        if (!applies(word, id, spelling)) continue;
        if (fw_words_equal(word->written, text)) {
            *meant = word->meant;
            return FW_OK;
        }
        if (word->only) last = word;
    }
    if (last == NULL) return FW_OK;
    char list[256];
    size_t used = 0;
    fw_guess g;
    guess_start(&g, text);
    for (size_t i = 0; (word = fw_option_word_at(i)) != NULL; i++) {
        if (!word->only || !applies(word, id, spelling)) continue;
        char lower[LONGEST_WORD_BYTES];
        const char *between = used == 0 ? "" : word == last ? " or " : ", ";
        int n = snprintf(list + used, sizeof list - used, "%s%s", between, word->written);
        used += n > 0 && (size_t)n < sizeof list - used ? (size_t)n : 0;
        size_t k = 0;
        for (; word->written[k] != 0 && k < sizeof lower - 1; k++) lower[k] = (char)folded(word->written[k]);
        lower[k] = 0;
        const char *before = g.nearest.best;
        fw_nearest_offer(&g.nearest, lower);
        if (g.nearest.best != before) g.nearest.best = word->written;
    }
    return refuse(&g, label, text, list);
}
