/* Run a program as a user would: arguments in, output and exit code out. */
#ifndef FW_TESTS_SUPPORT_COMMAND_H
#define FW_TESTS_SUPPORT_COMMAND_H

#include "base/strbuf.h"

#include <sys/types.h>

typedef struct fw_test_command {
    pid_t pid;
    int out_fd, err_fd;
    fw_strbuf out, err; /* after finish */
    int exit_code;      /* 128 + signal when a signal ended it */
} fw_test_command;

/* Start argv (NULL-terminated); environment entries "NAME=value" (NULL-terminated, may be NULL) are added. Returns 0.
 */
int fw_test_command_start(fw_test_command *c, const char *const *argv, const char *const *environment);
/* Wait until it has ended and its output is read; killed after deadline_s. Returns the exit code. */
int fw_test_command_finish(fw_test_command *c, double deadline_s);
/* Both; prints what it wrote to stderr when the code is not the one expected. */
int fw_test_command_run(fw_test_command *c, const char *const *argv, int expected, double deadline_s);
void fw_test_command_fini(fw_test_command *c);

#endif
