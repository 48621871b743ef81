/* Words that start as whole characters end as the same tokens as words that start as bytes, whatever the merges are. */
#include "support/bpe_plain.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static uint64_t random_state;

static uint64_t draw(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

/* Characters that share bytes, so that merges across their edges come about. */
static const char *const letters[] = {
    "a", " ", "\xc3\xa9", "\xc3\xa4", "\xe4\xb8\xad", "\xe4\xb8\x82", "\xe4\xad\xb8", "\xe5\xb8\xad"};
enum { LETTER_N = sizeof letters / sizeof *letters, MERGE_N = 120, TEXT_MAX = 12 };

static size_t draw_word(char *word, size_t letter_n) {
    size_t bytes = 0;
    for (; letter_n > 0; letter_n--) {
        const char *letter = letters[draw(LETTER_N)];
        memcpy(word + bytes, letter, strlen(letter));
        bytes += strlen(letter);
    }
    return bytes;
}

static void add_token(fw_vocab *vocab, const char *bytes, size_t n, int32_t id) {
    char spelling[64];
    size_t spelling_bytes = 0;
    for (size_t i = 0; i < n; i++)
        spelling_bytes += fw_utf8_put(spelling + spelling_bytes, fw_vocab_byte_char((unsigned char)bytes[i]));
    assert_int_equal(fw_vocab_add(vocab, spelling, spelling_bytes, id, FW_TOKEN_MODEL, "test"), FW_OK);
}

/* A piece of a drawn text that is no token yet and that two tokens make; false: none was met. Ranks rise as tokens come
 * about, as training gives them (in_order), or are drawn, as no training would. */
static bool add_merge(fw_tokenizer *t, char token[][TEXT_MAX + 1], size_t *token_bytes, int32_t *token_n,
                      uint32_t rank) {
    char text[64];
    for (int attempt = 0; attempt < 200; attempt++) {
        size_t text_bytes = draw_word(text, 4), n = 2 + draw(7);
        if (n > text_bytes) continue;
        size_t at = draw(text_bytes - n + 1), cut = 1 + draw(n - 1);
        int32_t left = -1, right = -1, whole = -1;
        for (int32_t i = 0; i < *token_n; i++) {
            if (token_bytes[i] == cut && memcmp(token[i], text + at, cut) == 0) left = i;
            if (token_bytes[i] == n - cut && memcmp(token[i], text + at + cut, n - cut) == 0) right = i;
            if (token_bytes[i] == n && memcmp(token[i], text + at, n) == 0) whole = i;
        }
        if (left < 0 || right < 0 || fw_vocab_merge(&t->vocab, left, right) != FW_NO_RANK) continue;
        if (whole < 0) {
            whole = (*token_n)++;
            memcpy(token[whole], text + at, n);
            token_bytes[whole] = n;
            add_token(&t->vocab, text + at, n, whole);
        }
        fw_vocab_add_merge(&t->vocab, left, right, rank, whole);
        return true;
    }
    return false;
}

static void make_vocabulary(fw_tokenizer *t, bool in_order) {
    static char token[256 + MERGE_N][TEXT_MAX + 1];
    static size_t token_bytes[256 + MERGE_N];
    uint32_t rank[MERGE_N];
    int32_t token_n = 0;
    *t = (fw_tokenizer){.unk_id = -1, .takes_bytes = true};
    assert_int_equal(fw_vocab_init(&t->vocab, 256), FW_OK);
    assert_int_equal(fw_vocab_init_merges(&t->vocab, MERGE_N), FW_OK);
    for (; token_n < 256; token_n++) {
        token[token_n][0] = (char)token_n;
        token_bytes[token_n] = 1;
        add_token(&t->vocab, token[token_n], 1, token_n);
    }
    for (uint32_t i = 0; i < MERGE_N; i++) rank[i] = i;
    for (size_t i = MERGE_N - 1; !in_order && i > 0; i--) {
        size_t k = draw(i + 1);
        uint32_t swapped = rank[i];
        rank[i] = rank[k];
        rank[k] = swapped;
    }
    for (size_t i = 0; i < MERGE_N; i++)
        if (!add_merge(t, token, token_bytes, &token_n, rank[i])) break;
    assert_int_equal(fw_bpe_atoms_create(&t->atoms, &t->vocab), FW_OK);
}

static void check(const fw_tokenizer *t, fw_bpe_scratch *scratch, const char *word, size_t bytes) {
    int32_t id[4 * 512];
    size_t n, at = 0;
    for (size_t i = 0; i < bytes; i++) id[i] = t->vocab.byte_id[(unsigned char)word[i]];
    size_t left_n = fw_test_merge_plainly(id, bytes, &t->vocab);
    assert_int_equal(fw_bpe_run(scratch, t, word, bytes, &n), FW_OK);
    assert_int_equal(n, left_n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(scratch->symbol[i].id, id[i]);
        assert_int_equal(scratch->symbol[i].start, at);
        at += t->vocab.byte_n[id[i]];
    }
}

static void any_merges_give_the_same(void **state) {
    (void)state;
    fw_bpe_scratch scratch = {0};
    int atom_n = 0, with_set_n = 0;
    for (int round = 0; round < 600; round++) {
        random_state = (uint64_t)round;
        fw_tokenizer t;
        make_vocabulary(&t, round % 2 == 0);
        for (uint32_t code = 0; code < FW_ATOM_CODE_N; code++) {
            atom_n += t.atoms->id[code] >= 0;
            with_set_n += t.atoms->id[code] >= 0 && (t.atoms->not_after[code] || t.atoms->not_before[code]);
        }
        for (int i = 0; i < 60; i++) {
            char word[4 * 512];
            check(&t, &scratch, word, draw_word(word, i < 58 ? 1 + draw(20) : 300));
        }
        fw_bpe_atoms_destroy(t.atoms);
        fw_vocab_fini(&t.vocab);
    }
    fw_bpe_scratch_fini(&scratch);
    assert_true(atom_n > 500); /* else this test says nothing */
    assert_true(with_set_n > 100 && with_set_n < atom_n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_merges_give_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
