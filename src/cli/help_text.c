#include "cli/help_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LEFT_COLUMNS = 36, ALL_COLUMNS = 100 };

static const char *placeholder(const fw_option_info *info) {
    switch (info->type) {
    case FW_TYPE_BOOL: return "";
    case FW_TYPE_INT: return " N";
    case FW_TYPE_FLOAT: return " X";
    case FW_TYPE_SIZE: return " SIZE";
    case FW_TYPE_CHOICE: return " WORD";
    case FW_TYPE_TEXT: return " TEXT";
    case FW_TYPE_PATH: return " PATH";
    }
    return "";
}

fw_status fw_help_wrap(fw_strbuf *text, const char *sentence, size_t left_columns, size_t all_columns) {
    size_t column = left_columns;
    for (const char *word = sentence; *word != 0;) {
        size_t word_n = strcspn(word, " ");
        if (column > left_columns && column + 1 + word_n > all_columns) {
            FW_TRY(fw_strbuf_printf(text, "\n%*s", (int)left_columns, ""));
            column = left_columns;
        } else if (column > left_columns) {
            FW_TRY(fw_strbuf_putc(text, ' '));
            column++;
        }
        FW_TRY(fw_strbuf_append(text, word, word_n));
        column += word_n;
        word += word_n + strspn(word + word_n, " ");
    }
    return fw_strbuf_putc(text, '\n');
}

static fw_status option_line(fw_strbuf *text, fw_option_id id) {
    const fw_option_info *info = fw_option_get(id);
    char left[128], sentence[1024], bounds[256], aliases[256];
    const char letter[] = {'-', fw_option_letter(id), ',', ' ', 0};
    snprintf(left, sizeof left, "  %s--%s%s%s", letter[1] != 0 ? letter : "", fw_option_is_switch(info) ? "[no_]" : "",
             info->name, placeholder(info));
    FW_TRY(fw_strbuf_printf(text, "%-*s", LEFT_COLUMNS, left));
    if (strlen(left) >= LEFT_COLUMNS) FW_TRY(fw_strbuf_printf(text, "\n%*s", LEFT_COLUMNS, ""));
    fw_option_bounds(id, bounds, sizeof bounds);
    if (info->type == FW_TYPE_BOOL) bounds[0] = 0;
    fw_option_aliases(id, aliases, sizeof aliases);
    snprintf(sentence, sizeof sentence, "%s (%s%s%s%s)", info->help, bounds, bounds[0] != 0 ? "; " : "",
             info->value != NULL ? "default " : "no default", info->value != NULL ? info->value : "");
    if (aliases[0] != 0) {
        size_t used = strlen(sentence);
        snprintf(sentence + used, sizeof sentence - used, "; also --%s", aliases);
    }
    return fw_help_wrap(text, sentence, LEFT_COLUMNS, ALL_COLUMNS);
}

fw_status fw_help_overview(fw_strbuf *text) {
    FW_TRY(fw_strbuf_puts(text, "finewire " FW_VERSION ": fine-tune language models\n\n"
                                "usage: finewire COMMAND [--NAME VALUE ...]\n\ncommands:\n"));
    for (int c = 0; c < FW_COMMAND_N; c++) {
        fw_command_info info = fw_command_get((fw_command)c);
        FW_TRY(fw_strbuf_printf(text, "  %-10s %s\n", info.name, info.summary));
    }
    return fw_strbuf_puts(
        text, "  help       The options of a command: finewire help train\n"
              "  version    The version of this program\n\n"
              "Exit codes: 0 done, 2 bad option or recipe, 3 bad input file, 4 does not fit into memory,\n"
              "5 a rank failed, 6 disk or network, 130 interrupted after a full save.\n"
              "finewire doctor: 0 clean, 1 warnings, 2 broken.\n"
              "With FINEWIRE_TRACE=1 in the environment an error also says where in the program it arose.\n");
}

fw_status fw_help_command(fw_strbuf *text, fw_command command) {
    fw_command_info info = fw_command_get(command);
    FW_TRY(fw_strbuf_printf(text, "usage: finewire %s ", info.name));
    if (info.positional >= 0) {
        FW_TRY(fw_strbuf_putc(text, '['));
        for (const char *c = fw_option_get((fw_option_id)info.positional)->name; *c != 0; c++)
            FW_TRY(fw_strbuf_putc(text, (char)toupper((unsigned char)*c)));
        FW_TRY(fw_strbuf_puts(text, "] "));
    }
    FW_TRY(fw_strbuf_printf(text, "[--NAME VALUE ...]\n\n%s.\nNames may be written with dashes or underscores.\n",
                            info.summary));
    for (int group = 0; group < FW_GROUP_N; group++) {
        bool titled = false;
        for (int i = 0; i < FW_OPTION_N; i++) {
            const fw_option_info *option = fw_option_get((fw_option_id)i);
            if ((int)option->group != group || (option->commands & (1u << command)) == 0) continue;
            if (!titled) FW_TRY(fw_strbuf_printf(text, "\n%s:\n", fw_option_group_title((fw_option_group)group)));
            titled = true;
            FW_TRY(option_line(text, (fw_option_id)i));
        }
    }
    return FW_OK;
}

static fw_status markdown_row(fw_strbuf *text, fw_option_id id) {
    const fw_option_info *info = fw_option_get(id);
    char bounds[256], aliases[256];
    fw_option_aliases(id, aliases, sizeof aliases);
    FW_TRY(fw_strbuf_printf(text, "| `%s` | %s%s%s | %s | ", info->name, info->value != NULL ? "`" : "",
                            info->value != NULL ? info->value : "", info->value != NULL ? "`" : "",
                            fw_option_bounds(id, bounds, sizeof bounds)));
    const char *between = "";
    for (int c = 0; c < FW_COMMAND_N; c++) {
        if ((info->commands & (1u << c)) == 0) continue;
        FW_TRY(fw_strbuf_printf(text, "%s%s", between, fw_command_get((fw_command)c).name));
        between = ", ";
    }
    FW_TRY(fw_strbuf_printf(text, " | %s.%s%s%s |\n", info->help, aliases[0] != 0 ? " Also: `" : "", aliases,
                            aliases[0] != 0 ? "`" : ""));
    return FW_OK;
}

fw_status fw_help_markdown(fw_strbuf *text) {
    FW_TRY(fw_strbuf_puts(
        text,
        "# Options\n\nMade by `make docs` from `src/config/options.def`; do not edit by hand.\n\n"
        "The same names stand on the command line (`--learning_rate 1e-5`, dashes accepted, `--no_bf16` for\n"
        "`--bf16 false`) and in the recipe (`learning_rate: 1e-5`); the command line wins. Names and defaults are\n"
        "those of Hugging Face TrainingArguments and TRL SFTConfig.\n"));
    for (int group = 0; group < FW_GROUP_N; group++) {
        FW_TRY(fw_strbuf_printf(text, "\n## %s\n\n| option | default | values | commands | |\n|---|---|---|---|---|\n",
                                fw_option_group_title((fw_option_group)group)));
        for (int i = 0; i < FW_OPTION_N; i++)
            if ((int)fw_option_get((fw_option_id)i)->group == group) FW_TRY(markdown_row(text, (fw_option_id)i));
    }
    return FW_OK;
}
