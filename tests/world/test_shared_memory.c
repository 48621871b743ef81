/* Where the shared memory comes from: nowhere that is small, full, or left over from a dead run; and two runs that do
 * not see each other. */
#include "base/host.h"
#include "support/world.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 5 * 1000 * 1000 };

/* Each rank maps memfds and nothing of /dev/shm. */
static int maps_are_clean(fw_comm *c) {
    char line[512];
    int memfd_n = 0, named_n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    FW_RANK_CHECK(f != NULL);
    while (fgets(line, sizeof line, f) != NULL) {
        memfd_n += strstr(line, "/memfd:finewire") != NULL;
        named_n += strstr(line, "/dev/shm") != NULL;
    }
    fclose(f);
    FW_RANK_CHECK(memfd_n >= 2 && named_n == 0);
    return 0;
}

static int sums_much(fw_comm *c, void *context) {
    const float add = *(const float *)context;
    float *x;
    fw_comm_request request = {.label = "much"};
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&x, N * sizeof *x, "x") == FW_OK);
    int result = maps_are_clean(c);
    if (result != 0) return result;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N; i++) x[i] = (float)fw_comm_rank(c) + add;
        FW_RANK_CHECK(fw_comm_all_reduce(c, x, N, FW_F32, &request) == FW_OK);
        FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
        for (int i = 0; i < N; i++) FW_RANK_CHECK(x[i] == 1 + 2 * add);
    }
    return 0;
}

static int write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd < 0) return 0;
    int good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

/* A /dev/shm of this process alone, `size` bytes, filled to the last. 0: this machine does not allow it. */
static int enter_small_shm(const char *size) {
    char map[64], options[64], block[4096] = {1};
    uid_t uid = getuid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 0;
        snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
        if (!write_text("/proc/self/uid_map", map)) return 0;
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 0;
    snprintf(options, sizeof options, "size=%s", size);
    if (mount("tmpfs", "/dev/shm", "tmpfs", 0, options) != 0) return 0;
    int fd = open("/dev/shm/full", O_CREAT | O_WRONLY, 0600);
    if (fd < 0) return 0;
    while (write(fd, block, sizeof block) > 0) {
    }
    close(fd);
    return 1;
}

static void a_small_and_full_dev_shm_is_no_matter(void **state) {
    (void)state;
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    if (pid == 0) {
        float add = 1;
        if (!enter_small_shm("64k")) _exit(77);
        _exit(fw_test_world(2, sums_much, &add) == 0 ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 77) {
        print_message("no mount namespace here: only the maps of the ranks are looked at\n");
        float add = 1;
        assert_int_equal(fw_test_world(2, sums_much, &add), 0);
        return;
    }
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static int count_left_over(void) {
    DIR *d = opendir("/dev/shm");
    int n = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e != NULL; e = readdir(d))
        n += strstr(e->d_name, "finewire") != NULL;
    if (d != NULL) closedir(d);
    return n;
}

static int dies_at_work(fw_comm *c, void *context) {
    (void)context;
    float *x;
    fw_comm_request request = {0};
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&x, N * sizeof *x, "x") == FW_OK);
    (void)fw_comm_all_reduce(c, x, N, FW_F32, &request); /* an error for who comes when the other is dead already */
    kill(getpid(), SIGKILL);                             /* all ranks, in the middle of a collective */
    return 1;
}

static void nothing_is_left_of_a_killed_run(void **state) {
    (void)state;
    fw_test_rank_result results[2];
    fw_comm_options o = {.secret = "the same secret", .timeout_s = 60, .connect_timeout_s = 60};
    for (int again = 0; again < 3; again++) {
        assert_int_not_equal(fw_test_world_run(2, dies_at_work, NULL, &o, 60, results), 0);
        assert_true(results[0].signal == SIGKILL && results[1].signal == SIGKILL);
        assert_int_equal(count_left_over(), 0);
        float add = (float)again;
        assert_int_equal(fw_test_world_run(2, sums_much, &add, &o, 60, NULL), 0);
    }
}

static void two_runs_at_once_do_not_meet(void **state) {
    (void)state;
    pid_t pid[3];
    fflush(stdout);
    fflush(stderr);
    for (int k = 0; k < 3; k++) {
        pid[k] = fork();
        if (pid[k] != 0) continue;
        float add = (float)(10 * k);
        fw_comm_options o = {.secret = "all the same", .timeout_s = 60, .connect_timeout_s = 60};
        _exit(fw_test_world_run(2, sums_much, &add, &o, 100, NULL) == 0 ? 0 : 1);
    }
    for (int k = 0; k < 3; k++) {
        int how;
        assert_int_equal(waitpid(pid[k], &how, 0), pid[k]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_and_full_dev_shm_is_no_matter),
        cmocka_unit_test(nothing_is_left_of_a_killed_run),
        cmocka_unit_test(two_runs_at_once_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
