/* Tokens added beside the BPE model: found in the text before anything else is done to it. */
#ifndef FW_TEXT_ADDED_H
#define FW_TEXT_ADDED_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_added {
    int32_t id;
    bool special, normalized, lstrip, rstrip, single_word;
} fw_added;

/* A set of spellings in a trie: the leftmost match, then the longest. */
typedef struct fw_added_set {
    struct fw_added_node {
        int32_t child, sibling; /* -1: none */
        int32_t added;          /* index of the token that ends here, -1: none */
        unsigned char byte;
    } * node; /* node 0 is the root, when there is any */
    int32_t node_n, node_cap;
    uint8_t starts[256]; /* bytes that begin a spelling */
    int start_n;         /* how many there are */
    char only_start;     /* the one there is */
    fw_added *added;
    int32_t added_n, added_cap;
} fw_added_set;

/* Zero-initialise; release with fw_added_set_fini. Errors: FW_ERR_INPUT (the spelling is there already),
 * FW_ERR_NOMEM. */
fw_status fw_added_set_insert(fw_added_set *set, const char *spelling, size_t spelling_bytes, fw_added added);
void fw_added_set_fini(fw_added_set *set);

/* A walk over text: the caller sets set, text, text_bytes, find_special; the rest is zero. */
typedef struct fw_added_walk {
    const fw_added_set *set;
    const char *text;
    size_t text_bytes;
    bool find_special; /* false: a special token's spelling is passed over as text */
    /* Or NULL. Is there to be a special token at [start, end)? If not, its spelling is passed over too. */
    bool (*is_trusted)(void *context, size_t start, size_t end);
    void *context;
    size_t searched;   /* where the search goes on */
    size_t taken;      /* up to here the text belongs to earlier pieces */
    size_t spaces_end; /* where the last run of stripped spaces ends */
} fw_added_walk;

/* The next token and the text before it: [*text_start, *text_end) is ordinary text (maybe empty), then
 * comes token *id; *id = -1 at the end of the text, where the walk ends. */
void fw_added_next(fw_added_walk *walk, size_t *text_start, size_t *text_end, int32_t *id);

#endif
