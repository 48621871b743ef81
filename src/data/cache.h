/* Tokenised data sets kept on disk: tokenised once a machine, mapped by every run and rank that asks for the same.
 *
 * What is asked for is named by a key: a hash of the bytes of the files, of the tokenizer and the template, and of every
 * option that changes a token. A file KEY.fwdata holds, one after another,
 *
 *   ids (int32), flags (a byte each), samples (fw_sample), runs of weights (fw_weight_run), the report (counts, sources, dropped rows),
 *   a checksum for every 16 MiB of all that, and a footer that says where they stand.
 *
 * It appears under its name only when complete; one process at a time makes it, and others that want it wait. Before it is
 * used every checksum is compared; a file that is damaged or cut off is said to be, and made anew. Files that have not
 * been used for the longest time go when all together are larger than the limit. A mapped file may go at any time: who
 * has it mapped keeps it. */
#ifndef FW_DATA_CACHE_H
#define FW_DATA_CACHE_H

#include "data/dataset.h"

typedef struct fw_cache_key {
    uint64_t word[2];
} fw_cache_key;

/* What the ranks of a machine tell each other, so that one of them reads the files for it: who is told the key of a file that
 * another process has just checked takes it as it is. */
typedef struct fw_cache_told {
    fw_cache_key key;
    int is_known;
} fw_cache_told;

typedef struct fw_cache_options {
    const char *dir;       /* NULL: $XDG_CACHE_HOME/finewire/datasets, or ~/.cache/finewire/datasets */
    int64_t limit_bytes;   /* of all files together; 0: no cache, tokens are held in memory */
    const char *model_dir; /* of the tokenizer and the template: their files are part of the key */
    const char *extra;     /* further text that changes tokens; NULL: none */
    int machine_thread_n;  /* threads to tokenise with: the machine's, as others wait meanwhile; 0: those of options */
    fw_cache_told *told;   /* in: what was told; out: what can be told. NULL: nobody is there to tell */
} fw_cache_options;

/* fw_dataset_load_sources through the cache. When the default folder cannot be written, or the disk of whichever is full or
 * fails on the way, the data set is loaded into memory, with a warning; a folder that was named and cannot be used at all is an
 * error. */
fw_status fw_dataset_load_cached(fw_dataset **out, const fw_sources *sources, const fw_tokenizer *tokenizer,
                                 const fw_chat_template *chat, const fw_dataset_options *options,
                                 const fw_cache_options *cache);

/* ---- parts, for tests ---- */

/* Reads all files. chat: its settings; NULL: none. Errors: those of reading the files. */
fw_status fw_cache_find_key(fw_cache_key *out, const fw_sources *sources, const fw_chat_template *chat,
                            const fw_dataset_options *options, const fw_cache_options *cache);
/* The folder, heap. NULL when there is no home. */
fw_status fw_cache_find_dir(char **out, const fw_cache_options *cache);

/* Writes one file. Tokens are appended while the data set is made; commit takes the rest from it. */
typedef struct fw_cache_writer fw_cache_writer;
fw_status fw_cache_writer_create(fw_cache_writer **out, const char *path, const fw_cache_key *key);
fw_status fw_cache_writer_append(fw_cache_writer *w, const int32_t *id, const uint8_t *trained, int64_t n);
fw_status fw_cache_writer_commit(fw_cache_writer *w, const fw_dataset *d);
int fw_cache_writer_failed(const fw_cache_writer *w); /* did the disk refuse? Takes NULL */
void fw_cache_writer_destroy(fw_cache_writer *w);     /* takes NULL; what is not committed is removed */

/* Map a file. verify: compare the checksums of all of it, on the threads of options. Errors: FW_ERR_INPUT, saying what is
 * wrong with it. */
fw_status fw_cache_open(fw_dataset **out, const char *path, const fw_cache_key *key, const char *name,
                        const fw_dataset_options *options, int verify);

/* Remove the files used longest ago until all are within the limit; `keep` stays. */
fw_status fw_cache_clean(const char *dir, int64_t limit_bytes, const char *keep);
/* Remove what processes that were killed left half-written: nobody holds the lock of its path any more, on whichever machine that
 * shares the folder. held: a path whose lock is ours. */
fw_status fw_cache_remove_leftovers(const char *dir, const char *held);

/* One process at a time: waits for the lock of a path, until `stop` says otherwise. -1 in *fd after a failure. */
fw_status fw_cache_lock(int *fd, const char *path, int (*stop)(void));
void fw_cache_unlock(int fd, const char *path);

#endif
