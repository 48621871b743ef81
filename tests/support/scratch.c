#include "support/scratch.h"

#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void need(int good, const char *what) {
    if (good) return;
    perror(what);
    abort();
}

void fw_test_scratch_make(char path[FW_TEST_PATH_BYTES]) {
    const char *base = getenv("TMPDIR");
    snprintf(path, FW_TEST_PATH_BYTES, "%s/fw-test-XXXXXX", base != NULL && base[0] != 0 ? base : "/tmp");
    need(mkdtemp(path) != NULL, path);
}

void fw_test_scratch_remove(const char *path) { need(fw_dir_remove(path) == FW_OK, path); }

const char *fw_test_path(const char *dir, const char *name) {
    static char **known;
    static size_t known_n;
    char text[2 * FW_TEST_PATH_BYTES];
    snprintf(text, sizeof text, "%s/%s", dir, name);
    for (size_t i = 0; i < known_n; i++)
        if (strcmp(known[i], text) == 0) return known[i];
    known = realloc(known, (known_n + 1) * sizeof *known);
    need(known != NULL && (known[known_n] = strdup(text)) != NULL, text);
    return known[known_n++];
}

void fw_test_write(const char *path, const void *bytes, size_t n_bytes) {
    FILE *f = fopen(path, "wb");
    need(f != NULL && fwrite(bytes, 1, n_bytes, f) == n_bytes && fclose(f) == 0, path);
}

void fw_test_write_safetensors(const char *path, const char *header, size_t data_bytes) {
    FILE *f = fopen(path, "wb");
    need(f != NULL, path);
    uint64_t n = strlen(header);
    for (int i = 0; i < 8; i++) fputc((int)(n >> (8 * i) & 255), f);
    fputs(header, f);
    for (size_t i = 0; i < data_bytes; i++) fputc((int)(i & 255), f);
    need(fclose(f) == 0, path);
}

int fw_test_count_entries(const char *dir) {
    DIR *d = opendir(dir);
    need(d != NULL, dir);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        n++;
        char path[2 * FW_TEST_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        struct stat info;
        if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) n += fw_test_count_entries(path);
    }
    closedir(d);
    return n;
}

void fw_test_flip_bit(const char *path, uint64_t byte) {
    FILE *f = fopen(path, "r+b");
    need(f != NULL && fseek(f, (long)byte, SEEK_SET) == 0, path);
    int c = fgetc(f);
    need(c != EOF && fseek(f, (long)byte, SEEK_SET) == 0, path);
    fputc(c ^ 4, f);
    need(fclose(f) == 0, path);
}

void fw_test_resize(const char *path, uint64_t bytes) { need(truncate(path, (off_t)bytes) == 0, path); }

uint64_t fw_test_file_bytes(const char *path) {
    struct stat info;
    need(stat(path, &info) == 0, path);
    return (uint64_t)info.st_size;
}
