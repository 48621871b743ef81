/* Feeds every file of a folder to a libFuzzer driver, so that a plain build replays the corpus.
 * Each input is copied to an exact-size heap block: an over-read by one byte is seen by ASan. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    DIR *dir = opendir(argv[1]);
    if (dir == NULL) {
        fprintf(stderr, "no corpus at %s\n", argv[1]);
        return 1;
    }
    int file_n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        FILE *f = fopen(path, "rb");
        if (f == NULL) return 1;
        fseek(f, 0, SEEK_END);
        long bytes = ftell(f);
        rewind(f);
        uint8_t *data = malloc(bytes > 0 ? (size_t)bytes : 1);
        if (data == NULL || (bytes > 0 && fread(data, 1, (size_t)bytes, f) != (size_t)bytes)) return 1;
        fclose(f);
        LLVMFuzzerTestOneInput(data, (size_t)bytes);
        free(data);
        file_n++;
    }
    closedir(dir);
    printf("replayed %d inputs of %s\n", file_n, argv[1]);
    return file_n == 0; /* an empty corpus tests nothing */
}
