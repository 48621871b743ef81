/* Real ranks for tests: fw_test_world forks n processes, each of which joins one group and calls fn. */
#ifndef FW_TESTS_SUPPORT_WORLD_H
#define FW_TESTS_SUPPORT_WORLD_H

#include "comm/comm.h"

/* Runs in each rank's own process. What it returns is the rank's result. cmocka's assertions must not be used in
 * it: return 0 for good, or __LINE__ & 0xff for what went wrong (see FW_RANK_CHECK). */
typedef int (*fw_test_rank_fn)(fw_comm *c, void *context);

#define FW_RANK_CHECK(condition)                                                                                       \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s is false (rank %d: %s)\n", __FILE__, __LINE__, #condition, fw_comm_rank(c),     \
                    fw_trail_message());                                                                               \
            return 1 + __LINE__ % 199; /* never 0 */                                                                   \
        }                                                                                                              \
    } while (0)

typedef struct fw_test_rank_result {
    int exit_code; /* what fn returned; 251: the group could not be made; 252: the rank was still there at the deadline
                    */
    int signal;    /* that ended the process; 0 for none */
    double seconds;
} fw_test_rank_result;

/* Returns 0 when every rank returned 0. `results` (n of them) may be NULL. */
int fw_test_world(int n, fw_test_rank_fn fn, void *context);

/* The same with everything open to choice; `options` NULL: defaults (connect 60 s, wait 60 s). rank, world, address and
 * port are filled in. Ranks that have not ended after deadline_s (0: 120) are killed. */
int fw_test_world_run(int n, fw_test_rank_fn fn, void *context, const fw_comm_options *options, double deadline_s,
                      fw_test_rank_result *results);

/* A socket that listens on a free port of 127.0.0.1; *port is that port. -1 when there is none. */
int fw_test_listen(int *port);

#endif
