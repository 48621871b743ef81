#include "cli/ranks.h"

#include "base/alloc.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "comm/launcher.h"

#include <stdlib.h>
#include <unistd.h>

fw_status fw_cli_must_launch(bool *must, int process_n) {
    const char *rank = getenv("RANK"), *world = getenv("WORLD_SIZE"), *mpirun = getenv("OMPI_COMM_WORLD_SIZE");
    *must = process_n > 1 && rank == NULL && world == NULL && mpirun == NULL;
    if (process_n > 1 && rank == NULL && world == NULL && mpirun != NULL && atoi(mpirun) != process_n)
        return fw_fail(FW_ERR_OPTION, "--num_processes is %d, but mpirun has started %.20s: leave --num_processes out",
                       process_n, mpirun);
    if (process_n > 1 && rank != NULL && world != NULL && world[0] != 0 && atoi(world) != process_n)
        return fw_fail(FW_ERR_OPTION,
                       "--num_processes is %d, but the launcher that started this rank has WORLD_SIZE=%s: leave "
                       "--num_processes out, or unset RANK and WORLD_SIZE",
                       process_n, world);
    return FW_OK;
}

/* Ranks speak for themselves; what they cannot say (killed by a signal) is said here. */
static void on_event(void *context, const fw_launch_event *event) {
    (void)context;
    if (event->message[0] == 0) return;
    if (event->kind == FW_LAUNCH_EXITED && !event->expected)
        fw_log_error("%s", event->message);
    else if (event->kind == FW_LAUNCH_KILLED)
        fw_log_warning("%s", event->message);
    else
        fw_log_info("%s", event->message);
}

fw_status fw_cli_status_of_exit_code(int code) {
    static const fw_status all[] = {FW_OK,       FW_ERR_OPTION, FW_ERR_INPUT,      FW_ERR_FIT,
                                    FW_ERR_RANK, FW_ERR_IO,     FW_ERR_INTERRUPTED};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (fw_status_exit_code(all[i]) == code) return all[i];
    return FW_ERR_RANK;
}

fw_status fw_cli_launch_ranks(int process_n, bool keeps_nothing, int *exit_code) {
    fw_terminal_set_rank(-1, process_n); /* the launcher: rank 0 has the bar */
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return fw_fail(FW_ERR_IO, "cannot find the program to start ranks of: /proc/self/exe cannot be read");
    self[n] = 0;
    char *const *given = fw_cli_arguments();
    size_t argc = 0;
    while (given[argc] != NULL) argc++;
    char **argv;
    FW_TRY(FW_NEW_ARRAY(argv, argc + 1));
    for (size_t i = 1; i < argc; i++) argv[i] = given[i];
    argv[0] = self; /* this very file, wherever PATH leads by now */
    fw_launch_options options = {.process_n = process_n, .on_event = on_event, .keeps_nothing = keeps_nothing};
    fw_status status = fw_launch(&options, argv, exit_code);
    fw_free(argv);
    return status;
}

fw_status fw_cli_launch(int process_n, bool keeps_nothing) {
    int exit_code = 0;
    FW_TRY(fw_cli_launch_ranks(process_n, keeps_nothing, &exit_code));
    const fw_status status = fw_cli_status_of_exit_code(exit_code);
    if (status != FW_OK) {
        fw_terminal_error_was_shown();
        return fw_fail(status, "a rank ended with exit code %d", exit_code);
    }
    return FW_OK;
}
