/* How ranks meet: late, twice, under another world size or secret, among strangers; and when memory runs out. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/control_wire.h"
#include "support/waiting.h"
#include "support/world.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { CAST_N = 4 };

/* What each process of a test saw. */
typedef struct outcome {
    int ended, status, reports;
    char message[FW_TRAIL_MESSAGE_BYTES];
} outcome;
static outcome *outcomes;

/* A port that is free now, and stays so for the moments until rank 0 takes it. */
static int free_port(void) {
    int port = 0, fd = fw_test_listen(&port);
    assert_true(fd >= 0);
    close(fd);
    return port;
}

static fw_comm_options place(int rank, int world, int port) {
    fw_comm_options o = {.rank = rank, .world = world, .master_port = port, .connect_timeout_s = 60, .timeout_s = 60};
    o.local_rank = rank;
    o.local_world = world;
    snprintf(o.master_address, sizeof o.master_address, "127.0.0.1");
    snprintf(o.secret, sizeof o.secret, "a secret");
    return o;
}

/* A process that joins the group, sums once, and leaves its outcome in outcomes[index]. */
static pid_t send_rank(int index, fw_comm_options o, double late_s) {
    memset(&outcomes[index], 0, sizeof outcomes[index]);
    pid_t pid = fork();
    if (pid != 0) return pid;
    fw_comm *c;
    nap(late_s);
    fw_status status = fw_comm_create(&c, &o);
    if (status == FW_OK) {
        float x = 1;
        fw_comm_request request = {0};
        status = fw_comm_all_reduce(c, &x, 1, FW_F32, &request);
        if (status == FW_OK) status = fw_comm_wait(c, &request);
        if (status == FW_OK && x != (float)o.world) status = fw_fail(FW_ERR_INTERNAL, "the sum is %g", (double)x);
    }
    outcomes[index].status = (int)status;
    snprintf(outcomes[index].message, sizeof outcomes[index].message, "%s", status == FW_OK ? "" : fw_trail_message());
    outcomes[index].reports = fw_comm_reports_failure(c);
    outcomes[index].ended = 1;
    fw_comm_destroy(c);
    exit(0);
}

static void collect(pid_t pid, int index) {
    int state;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    assert_int_equal(state, 0);
    assert_int_equal(outcomes[index].ended, 1);
}

static void assert_message(int index, const char *text) {
    if (strstr(outcomes[index].message, text) == NULL)
        fail_msg("process %d: \"%s\" is not in: %s", index, text, outcomes[index].message);
}

static void assert_good(int index) {
    if (outcomes[index].status != FW_OK) fail_msg("process %d: %s", index, outcomes[index].message);
}

static void rank_0_may_start_late(void **state) {
    (void)state;
    int port = free_port();
    pid_t one = send_rank(1, place(1, 3, port), 0), two = send_rank(2, place(2, 3, port), 0.1);
    pid_t zero = send_rank(0, place(0, 3, port), 0.5);
    collect(zero, 0);
    collect(one, 1);
    collect(two, 2);
    for (int i = 0; i < 3; i++) assert_good(i);
}

static void who_does_not_come_is_named(void **state) {
    (void)state;
    int port = free_port();
    fw_comm_options zero = place(0, 4, port), one = place(1, 4, port);
    zero.connect_timeout_s = 3;
    one.connect_timeout_s = 30;
    pid_t a = send_rank(0, zero, 0), b = send_rank(1, one, 0);
    collect(a, 0);
    collect(b, 1);
    assert_int_equal(outcomes[0].status, FW_ERR_RANK);
    assert_message(0, "rank 2, 3 did not come to 127.0.0.1 port ");
    assert_message(0, "2 of 4 are here");
    assert_int_equal(outcomes[1].status, FW_ERR_RANK);
    assert_message(1, "rank 0 failed: rank 2, 3 did not come");
    assert_true(outcomes[0].reports && !outcomes[1].reports);
    /* nobody listens at all */
    one.connect_timeout_s = 0.5;
    collect(send_rank(1, one, 0), 1);
    assert_int_equal(outcomes[1].status, FW_ERR_RANK);
    assert_message(1, "rank 1 could not reach rank 0 at 127.0.0.1 port ");
    assert_message(1, "Connection refused");
    assert_true(outcomes[1].reports); /* nobody else says it */
    snprintf(one.master_address, sizeof one.master_address, "no-such-host.invalid");
    collect(send_rank(1, one, 0), 1);
    assert_message(1, "no-such-host.invalid");
    assert_message(1, "name not found");
}

static void the_same_rank_twice_is_named(void **state) {
    (void)state;
    int port = free_port();
    /* before the group is complete: nobody knows which one is right, the job ends */
    fw_comm_options zero = place(0, 3, port);
    pid_t a = send_rank(0, zero, 0), b = send_rank(1, place(1, 3, port), 0), c = send_rank(2, place(1, 3, port), 0);
    collect(a, 0);
    collect(b, 1);
    collect(c, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(outcomes[i].status, FW_ERR_RANK);
        assert_message(i, "rank 1 is there twice");
    }
}

static int stays_until_told(fw_comm *c, void *context) {
    (void)context;
    /* rank 0 plays the latecomer itself, against its own group */
    if (fw_comm_rank(c) == 0) {
        for (int way = 0; way < 2; way++) {
            fw_comm_options late = place(1, 2, (int)outcomes[3].status);
            snprintf(late.secret, sizeof late.secret, "%s", way ? "another" : "job");
            fw_comm *second;
            FW_RANK_CHECK(fw_comm_create(&second, &late) == FW_ERR_RANK && second == NULL);
            FW_RANK_CHECK(
                strstr(fw_trail_message(), way ? "another job is at this address" : "rank 1 is there twice") != NULL);
        }
    }
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK);
    return 0;
}

static void a_latecomer_does_not_disturb_a_complete_group(void **state) {
    (void)state;
    int port = free_port(), bad = 0;
    pid_t pid[2];
    outcomes[3].status = port;
    for (int r = 0; r < 2; r++) {
        pid[r] = fork();
        if (pid[r] == 0) {
            fw_comm_options o = place(r, 2, port);
            snprintf(o.secret, sizeof o.secret, "job");
            fw_comm *c;
            int result = fw_comm_create(&c, &o) == FW_OK ? stays_until_told(c, NULL) : 1;
            fw_comm_destroy(c);
            exit(result);
        }
    }
    for (int r = 0; r < 2; r++) {
        int end;
        assert_int_equal(waitpid(pid[r], &end, 0), pid[r]);
        bad |= end;
    }
    assert_int_equal(bad, 0);
}

static void another_world_size_is_named(void **state) {
    (void)state;
    int port = free_port();
    pid_t a = send_rank(0, place(0, 2, port), 0), b = send_rank(1, place(1, 3, port), 0);
    collect(a, 0);
    collect(b, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(outcomes[i].status, FW_ERR_RANK);
        assert_message(i, "rank 1 was started with WORLD_SIZE=3 and rank 0 with 2");
    }
}

static void a_wrong_secret_is_turned_away_and_the_job_goes_on(void **state) {
    (void)state;
    int port = free_port();
    fw_comm_options stranger = place(1, 2, port);
    snprintf(stranger.secret, sizeof stranger.secret, "a secrex");
    pid_t a = send_rank(0, place(0, 2, port), 0), b = send_rank(1, stranger, 0);
    collect(b, 1);
    assert_int_equal(outcomes[1].status, FW_ERR_RANK);
    assert_message(1, "another job is at this address (its job secret differs)");
    pid_t c = send_rank(2, place(1, 2, port), 0);
    collect(c, 2);
    collect(a, 0);
    assert_good(0);
    assert_good(2);
}

static void a_busy_port_is_named(void **state) {
    (void)state;
    int port, fd = fw_test_listen(&port);
    fw_comm_options zero = place(0, 2, port);
    zero.connect_timeout_s = 0.3;
    collect(send_rank(0, zero, 0), 0);
    assert_int_equal(outcomes[0].status, FW_ERR_RANK);
    assert_message(0, "another job uses this one");
    /* a foreign service that accepts and says nothing, then something else */
    fw_comm_options one = place(1, 2, port);
    one.connect_timeout_s = 0.5;
    collect(send_rank(1, one, 0), 1);
    assert_message(1, "says nothing");
    close(fd);
}

/* Under torchrun the first port is taken; the ranks find one another on one of the next. */
static void ranks_find_each_other_on_the_next_ports(void **state) {
    (void)state;
    int port, fd = fw_test_listen(&port); /* the foreign service */
    fw_comm_options o[2] = {place(0, 2, port), place(1, 2, port)};
    for (int r = 0; r < 2; r++) {
        o[r].port_tries = 8;
        o[r].secret[0] = 0;
    }
    pid_t a = send_rank(0, o[0], 0), b = send_rank(1, o[1], 0);
    collect(a, 0);
    collect(b, 1);
    close(fd);
    assert_good(0);
    assert_good(1);
}

/* ---- strangers on the port ---- */

static int connect_to(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 3000; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
        close(fd);
        nap(0.01);
    }
    return -1;
}

/* All that a scanner may send; odd connections stay open. */
static void bother(int port, int *open_fds, int open_n) {
    static const char http[] = "GET / HTTP/1.0\r\n\r\n";
    char noise[4096];
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)(i * 7 + 3);
    fw_hello hello;
    memset(&hello, 0xff, sizeof hello); /* texts without an end, numbers out of range */
    memcpy(hello.magic, FW_HELLO_MAGIC, sizeof hello.magic);
    hello.protocol = FW_CONTROL_PROTOCOL;
    for (int i = 0; i < open_n; i++) {
        int fd = connect_to(port);
        open_fds[i] = fd;
        if (fd < 0) continue;
        ssize_t n = 0;
        if (i % 6 == 0) n = send(fd, http, sizeof http - 1, MSG_NOSIGNAL);
        if (i % 6 == 1) n = send(fd, noise, sizeof noise, MSG_NOSIGNAL);
        if (i % 6 == 2) n = send(fd, FW_HELLO_MAGIC, 8, MSG_NOSIGNAL); /* and never more */
        if (i % 6 == 3) n = send(fd, &hello, sizeof hello, MSG_NOSIGNAL);
        if (i % 6 == 4) shutdown(fd, SHUT_RDWR);
        if (n < 0) continue; /* turned away already */
    }
}

static void strangers_do_not_hurt(void **state) {
    (void)state;
    enum { STRANGER_N = 150 };
    int port = free_port(), fds[2][STRANGER_N];
    pid_t zero = send_rank(0, place(0, 2, port), 0);
    bother(port, fds[0], STRANGER_N); /* before the other rank comes */
    pid_t one = send_rank(1, place(1, 2, port), 0);
    collect(zero, 0);
    collect(one, 1);
    assert_good(0);
    assert_good(1);
    for (int i = 0; i < STRANGER_N; i++)
        if (fds[0][i] >= 0) close(fds[0][i]);
}

static int bothers_itself(fw_comm *c, void *context) {
    int port = *(int *)context, fds[120];
    if (fw_comm_rank(c) == 0) bother(port, fds, 120);
    float x[3] = {1, 1, 1};
    fw_comm_request request = {0};
    for (int k = 0; k < 50; k++) {
        FW_RANK_CHECK(fw_comm_all_reduce(c, x, 3, FW_F32, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
        FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK);
        nap(0.002);
    }
    FW_RANK_CHECK(fw_comm_abort_origin(c) == -1);
    return 0;
}

static void strangers_do_not_hurt_a_running_job(void **state) {
    (void)state;
    int port = free_port(), bad = 0;
    pid_t pid[2];
    for (int r = 0; r < 2; r++) {
        pid[r] = fork();
        if (pid[r] == 0) {
            fw_comm_options o = place(r, 2, port);
            fw_comm *c;
            int result = fw_comm_create(&c, &o) == FW_OK ? bothers_itself(c, &port) : 1;
            fw_comm_destroy(c);
            exit(result);
        }
    }
    for (int r = 0; r < 2; r++) {
        int end;
        assert_int_equal(waitpid(pid[r], &end, 0), pid[r]);
        bad |= end;
    }
    assert_int_equal(bad, 0);
}

/* The text of rank 0's refusal of this hello. */
static void refusal(int port, const fw_hello *hello, size_t bytes, char *text, size_t text_bytes) {
    fw_frame_reader reader = {0};
    int fd = connect_to(port);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, hello, bytes, MSG_NOSIGNAL), bytes);
    fw_read_result result;
    for (int i = 0; (result = fw_frame_read(fd, &reader)) == FW_READ_NOTHING && i < 6000; i++) nap(0.01);
    assert_int_equal(result, FW_READ_FRAME);
    assert_int_equal(reader.frame.head.kind, FW_FRAME_REJECT);
    snprintf(text, text_bytes, "%s", reader.frame.payload);
    close(fd);
}

static void another_version_is_named(void **state) {
    (void)state;
    int port = free_port();
    char text[FW_FRAME_PAYLOAD + 1];
    fw_comm_options one = place(1, 2, port);
    pid_t zero = send_rank(0, place(0, 2, port), 0);
    fw_hello hello;
    fw_hello_fill(&hello, &one);
    hello.protocol = 99;
    refusal(port, &hello, 12, text, sizeof text); /* another layout behind the number */
    assert_non_null(strstr(text, "control protocol 99"));
    hello.protocol = FW_CONTROL_PROTOCOL;
    snprintf(hello.version, sizeof hello.version, "9.9.9");
    refusal(port, &hello, sizeof hello, text, sizeof text);
    assert_non_null(strstr(text, "rank 1 runs finewire 9.9.9"));
    collect(zero, 0);
    assert_int_equal(outcomes[0].status, FW_ERR_RANK);
    assert_message(0, "rank 1 runs finewire 9.9.9");
}

/* A rank of another host: same job, other kernel. */
static void another_host_is_named(void **state) {
    (void)state;
    int port = free_port();
    fw_comm_options one = place(1, 2, port);
    pid_t zero = send_rank(0, place(0, 2, port), 0);
    fw_hello hello;
    fw_hello_fill(&hello, &one);
    snprintf(hello.host_id, sizeof hello.host_id, "another boot");
    snprintf(hello.host_name, sizeof hello.host_name, "farhost");
    int fd = connect_to(port);
    assert_int_equal(send(fd, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    collect(zero, 0);
    close(fd);
    assert_int_equal(outcomes[0].status, FW_ERR_RANK);
    assert_message(0, "and rank 1 on farhost");
    assert_message(0, "one host only");
}

/* A rank that is killed while the ranks meet. */
static void die_while_meeting(int own_launcher) {
    int port = free_port();
    fw_comm_options one = place(1, 3, port), zero_options = place(0, 3, port);
    zero_options.own_launcher = own_launcher;
    pid_t zero = send_rank(0, zero_options, 0);
    fw_hello hello;
    fw_hello_fill(&hello, &one);
    int fd = connect_to(port);
    assert_int_equal(send(fd, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 1); /* the welcome */
    close(fd);
    collect(zero, 0);
    assert_int_equal(outcomes[0].status, FW_ERR_RANK);
    assert_message(0, "rank 1 died");
    assert_int_equal(outcomes[0].reports, !own_launcher); /* our launcher says how it died */
}

static void a_death_while_meeting_is_named(void **state) {
    (void)state;
    die_while_meeting(0);
    die_while_meeting(1);
}

/* ---- the n-th allocation fails ---- */

typedef struct shortage {
    int rank;
    uint64_t n;
} shortage;

static int create_short_of_memory(const fw_comm_options *o, const shortage *s) {
    fw_comm *c;
    if (o->rank == s->rank) fw_alloc_fail_at(s->n);
    fw_status status = fw_comm_create(&c, o);
    fw_alloc_fail_at(0);
    if (status == FW_OK) { /* another rank failed later than this one's creation */
        fw_comm_request request = {0};
        float x = 0;
        status = fw_comm_all_reduce(c, &x, 1, FW_F32, &request);
        if (status == FW_OK) status = fw_comm_wait(c, &request);
    }
    fw_comm_destroy(c);
    return status == FW_ERR_NOMEM || status == FW_ERR_RANK ? 0 : status == FW_OK ? 200 : 201;
}

static void each_failing_allocation_is_an_error_everywhere(void **state) {
    (void)state;
    fw_comm *c;
    fw_alloc_fail_at(0);
    fw_comm_options alone = {.world = 1};
    assert_int_equal(fw_comm_create(&c, &alone), FW_OK);
    uint64_t self_n = fw_alloc_count();
    void *p;
    fw_alloc_fail_at(1);
    assert_int_equal(fw_comm_alloc(c, &p, 100, "x"), FW_ERR_NOMEM);
    fw_alloc_fail_at(0);
    fw_comm_destroy(c);
    for (uint64_t n = 1; n <= self_n; n++) {
        fw_alloc_fail_at(n);
        assert_int_equal(fw_comm_create(&c, &alone), FW_ERR_NOMEM);
        assert_null(c);
    }
    fw_alloc_fail_at(0);
    /* group, control plane, shared memory: three allocations on each rank */
    for (int rank = 0; rank < 2; rank++)
        for (uint64_t n = 1; n <= 3; n++) {
            int port = free_port(), end;
            shortage s = {rank, n};
            pid_t pid[2];
            for (int r = 0; r < 2; r++) {
                pid[r] = fork();
                if (pid[r] == 0) {
                    fw_comm_options o = place(r, 2, port);
                    o.connect_timeout_s = 1; /* a rank that failed before it came is missed until then */
                    exit(create_short_of_memory(&o, &s));
                }
            }
            for (int r = 0; r < 2; r++) {
                assert_int_equal(waitpid(pid[r], &end, 0), pid[r]);
                assert_int_equal(end, 0);
            }
        }
}

int main(void) {
    outcomes = mmap(NULL, CAST_N * sizeof *outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcomes == MAP_FAILED) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_may_start_late),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(the_same_rank_twice_is_named),
        cmocka_unit_test(a_latecomer_does_not_disturb_a_complete_group),
        cmocka_unit_test(another_world_size_is_named),
        cmocka_unit_test(a_wrong_secret_is_turned_away_and_the_job_goes_on),
        cmocka_unit_test(a_busy_port_is_named),
        cmocka_unit_test(ranks_find_each_other_on_the_next_ports),
        cmocka_unit_test(strangers_do_not_hurt),
        cmocka_unit_test(strangers_do_not_hurt_a_running_job),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(another_host_is_named),
        cmocka_unit_test(a_death_while_meeting_is_named),
        cmocka_unit_test(each_failing_allocation_is_an_error_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
