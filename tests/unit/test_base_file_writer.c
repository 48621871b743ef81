/* base: what stands at the place that is written stays what it is, be it a link, a pipe or a device. */
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/scratch.h"

static char dir[FW_TEST_PATH_BYTES];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(dir);
    return 0;
}

typedef struct path {
    char text[FW_TEST_PATH_BYTES + 32];
} path;

static path in_dir(const char *name) {
    path p;
    snprintf(p.text, sizeof p.text, "%s/%s", dir, name);
    return p;
}

static mode_t kind(const char *at) {
    struct stat info;
    assert_int_equal(lstat(at, &info), 0);
    return info.st_mode & S_IFMT;
}

static void assert_holds(const char *at, const char *text) {
    fw_strbuf found = {0};
    assert_int_equal(fw_file_read(&found, at, 1000), FW_OK);
    assert_string_equal(fw_strbuf_text(&found), text);
    fw_strbuf_fini(&found);
}

static void assert_refused(const char *at, const char *why) {
    assert_int_equal(fw_file_write(at, "new", 3), FW_ERR_IO);
    assert_non_null(strstr(fw_trail_message(), why));
}

/* Nothing but the named files: no temporary file is left. */
static void assert_names(const char *first, const char *second) {
    char **names;
    size_t n;
    assert_int_equal(fw_dir_list(&names, &n, dir), FW_OK);
    assert_int_equal(n, second != NULL ? 2 : 1);
    assert_string_equal(names[0], first);
    if (second != NULL) assert_string_equal(names[1], second);
    fw_dir_list_free(names, n);
}

static void test_link(void **state) {
    (void)state;
    const path file = in_dir("file"), link = in_dir("link");
    assert_int_equal(fw_file_write(file.text, "old", 3), FW_OK);
    assert_int_equal(symlink("file", link.text), 0);
    assert_int_equal(fw_file_write(link.text, "new", 3), FW_OK);
    assert_int_equal(kind(link.text), S_IFLNK);
    assert_holds(file.text, "new");
    /* as atomic as without a link: what fails leaves the old */
    fw_file_fail_write_at(1);
    assert_int_equal(fw_file_write(link.text, "third", 5), FW_ERR_IO);
    fw_file_fail_write_at(0);
    assert_holds(file.text, "new");
    assert_names("file", "link");
}

static void test_link_to_nothing(void **state) {
    (void)state;
    const path link = in_dir("link");
    assert_int_equal(symlink("missing", link.text), 0);
    assert_refused(link.text, "link to a file that is not there");
    assert_int_equal(kind(link.text), S_IFLNK);
    assert_names("link", NULL);
}

static void test_pipe(void **state) {
    (void)state;
    const path pipe = in_dir("pipe"), link = in_dir("way");
    char got[8] = {0};
    assert_int_equal(mkfifo(pipe.text, 0600), 0);
    assert_int_equal(symlink("pipe", link.text), 0);
    const int reader = open(pipe.text, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(fw_file_write(pipe.text, "one", 3), FW_OK);
    assert_int_equal(fw_file_write(link.text, "two", 3), FW_OK);
    assert_int_equal(read(reader, got, sizeof got), 6);
    assert_string_equal(got, "onetwo");
    close(reader);
    assert_int_equal(kind(pipe.text), S_IFIFO);
    assert_int_equal(kind(link.text), S_IFLNK);
    assert_names("pipe", "way");
}

static void test_devices(void **state) {
    (void)state;
    const path null = in_dir("a-null"), full = in_dir("b-full");
    if (mknod(null.text, S_IFCHR | 0600, makedev(1, 3)) != 0 || mknod(full.text, S_IFCHR | 0600, makedev(1, 7)) != 0)
        skip(); /* root only */
    const int probe = open(null.text, O_WRONLY);
    if (probe < 0) skip(); /* the file system is mounted without devices */
    close(probe);
    assert_int_equal(fw_file_write(null.text, "text", 4), FW_OK);
    assert_refused(full.text, "No space left on device");
    assert_int_equal(kind(null.text), S_IFCHR);
    assert_int_equal(kind(full.text), S_IFCHR);
    assert_names("a-null", "b-full");
}

static void test_folder_and_socket(void **state) {
    (void)state;
    const path folder = in_dir("folder"), place = in_dir("socket");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(fw_dir_make(folder.text), FW_OK);
    assert_refused(folder.text, "it is a folder");
    assert_true(strlen(place.text) < sizeof address.sun_path);
    memcpy(address.sun_path, place.text, strlen(place.text) + 1);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_refused(place.text, "it is a socket");
    close(listener);
    assert_names("folder", "socket");
}

/* What is written to the file behind standard output follows what was printed, and does not take its place. */
static void test_standard_output(void **state) {
    (void)state;
    const path file = in_dir("out"), link = in_dir("stdout");
    assert_int_equal(symlink("/proc/self/fd/1", link.text), 0);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO), out = open(file.text, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
    printf("printed ");
    const fw_status status = fw_file_write(link.text, "written", 7);
    printf(" printed");
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(out);
    assert_int_equal(status, FW_OK);
    assert_holds(file.text, "printed written printed");
    assert_names("out", "stdout");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_link, setup, teardown),
        cmocka_unit_test_setup_teardown(test_link_to_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipe, setup, teardown),
        cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder_and_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(test_standard_output, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
