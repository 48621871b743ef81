/* From arguments to a command: the table of commands, and what happens around each of them. */
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <string.h>

/* Commands that take options, in the order of config/commands.def: fw_cli_NAME of cli/cmd_NAME.c. */
static const fw_cli_command runners[FW_COMMAND_N] = {
    [FW_COMMAND_TRAIN] = fw_cli_train,
    [FW_COMMAND_EVAL] = fw_cli_eval,
    [FW_COMMAND_GENERATE] = fw_cli_generate,
    [FW_COMMAND_MERGE] = fw_cli_merge,
    [FW_COMMAND_IMPORT] = fw_cli_import,
    [FW_COMMAND_BENCH] = fw_cli_bench,
    [FW_COMMAND_BENCH_STEP] = fw_cli_bench_step,
    [FW_COMMAND_PLAN] = fw_cli_plan,
    [FW_COMMAND_TOPO] = fw_cli_topo,
    [FW_COMMAND_DOCTOR] = fw_cli_doctor,
    [FW_COMMAND_CKPT_LS] = fw_cli_ckpt_ls,
    [FW_COMMAND_CKPT_VERIFY] = fw_cli_ckpt_verify,
    [FW_COMMAND_CKPT_EXPORT] = fw_cli_ckpt_export,
    [FW_COMMAND_CKPT_RESHARD] = fw_cli_ckpt_reshard,
    [FW_COMMAND_CKPT_RM] = fw_cli_ckpt_rm,
    [FW_COMMAND_CKPT_DIFF] = fw_cli_ckpt_diff,
    [FW_COMMAND_DATA_SHOW] = fw_cli_data_show,
    [FW_COMMAND_DATA_STATS] = fw_cli_data_stats,
    [FW_COMMAND_DATA_CHECK] = fw_cli_data_check,
};

static fw_status run_with_options(fw_command command, int argc, char *const *argv) {
    fw_options options;
    fw_status status;
    FW_TRY_OR(fw_options_init(&options, command), done);
    FW_TRY_OR(fw_options_parse(&options, argc, argv), done);
    if (options.help_asked) {
        status = fw_cli_help_command(command);
        goto done;
    }
    FW_TRY_OR(fw_options_check(&options), done);
    if (runners[command] == NULL)
        status = fw_fail(FW_ERR_INTERNAL, "no function runs finewire %s", fw_command_get(command).name);
    else
        FW_TRY_OR(runners[command](&options), done);
done:
    fw_options_fini(&options);
    return status;
}

/* "bench step" begins with the words "bench", "step". */
static int words_of(const char *name, int argc, char *const *argv) {
    int word_n = 0;
    while (*name != 0) {
        const size_t bytes = strcspn(name, " ");
        if (word_n == argc || strlen(argv[word_n]) != bytes || memcmp(argv[word_n], name, bytes) != 0) return 0;
        word_n++;
        name += bytes + (name[bytes] == ' ');
    }
    return word_n;
}

/* "finewire data" alone: its second words. *asked = 0 when no command begins with the word. */
static fw_status ask_for_second_word(const char *word, int *asked) {
    char list[256] = "";
    const size_t bytes = strlen(word);
    *asked = 0;
    for (int c = 0; c < FW_COMMAND_N; c++) {
        const char *known = fw_command_get((fw_command)c).name;
        if (strncmp(known, word, bytes) != 0 || known[bytes] != ' ') continue;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", known + bytes + 1);
        ++*asked;
    }
    return *asked == 0 ? FW_OK
                       : fw_fail(FW_ERR_OPTION, "finewire %s needs a second word: %s; finewire help %s WORD says more",
                                 word, list, word);
}

fw_status fw_cli_find_command(fw_command *out, int *word_n, int argc, char *const *argv) {
    const char *name = argv[0];
    fw_nearest nearest;
    fw_nearest_start(&nearest, name);
    *word_n = 0;
    for (int c = 0; c < FW_COMMAND_N; c++) {
        const char *known = fw_command_get((fw_command)c).name;
        const int n = words_of(known, argc, argv);
        if (n > *word_n) {
            *out = (fw_command)c;
            *word_n = n;
        }
        fw_nearest_offer(&nearest, known);
    }
    if (*word_n > 0) return FW_OK;
    int asked;
    FW_TRY(ask_for_second_word(name, &asked));
    fw_nearest_offer(&nearest, "help");
    fw_nearest_offer(&nearest, "version");
    if (nearest.best != NULL)
        return fw_fail(FW_ERR_OPTION, "\"%.100s\" is not a command of finewire; did you mean %s?", name, nearest.best);
    return fw_fail(FW_ERR_OPTION, "\"%.100s\" is not a command of finewire; finewire help lists them", name);
}

static fw_status run(int argc, char **argv) {
    if (argc < 2) {
        FW_TRY(fw_cli_help_overview());
        return fw_fail(FW_ERR_OPTION, "no command given");
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return fw_cli_help(argc - 2, argv + 2);
    if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) return fw_cli_version(argc - 2, argv + 2);
    if (name[0] == '-')
        return fw_fail(FW_ERR_OPTION, "the command comes first: finewire COMMAND %.100s; finewire help lists them",
                       name);
    fw_command command;
    int word_n;
    FW_TRY(fw_cli_find_command(&command, &word_n, argc - 1, argv + 1));
    return run_with_options(command, argc - 1 - word_n, argv + 1 + word_n);
}

static char *const *arguments;

char *const *fw_cli_arguments(void) { return arguments; }

static int good_exit_code;

void fw_cli_set_exit_code(int code) { good_exit_code = code; }

int fw_cli_main(int argc, char **argv) {
    arguments = argv;
    const int code = fw_terminal_report(run(argc, argv));
    return code == 0 ? good_exit_code : code;
}
