/* For tests that watch other processes: naps, and files that they write. */
#ifndef FW_TESTS_WAITING_H
#define FW_TESTS_WAITING_H

#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static inline void nap(double seconds) {
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* What is in folder/name so far; "" when it is not there. Returns text. */
static inline char *read_text_in(const char *folder, const char *name, char *text, size_t text_bytes) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    text[0] = 0;
    FILE *f = fopen(path, "re");
    if (f == NULL) return text;
    text[fread(text, 1, text_bytes - 1, f)] = 0;
    fclose(f);
    return text;
}

/* Until folder/name has so many bytes; 0 when a minute was not enough. */
static inline int wait_for_in(const char *folder, const char *name, off_t bytes) {
    char path[1024];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (int i = 0; i < 6000; i++) {
        if (stat(path, &s) == 0 && s.st_size >= bytes) return 1;
        nap(0.01);
    }
    fprintf(stderr, "%s did not come\n", path);
    return 0;
}

#endif
