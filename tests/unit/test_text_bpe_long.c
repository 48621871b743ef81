/* Long words are merged by other means than short ones: the same symbols must come out, whatever the merges are. */
#include "base/alloc.h"
#include "support/bpe_plain.h"
#include "text/tokenizer_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

static uint64_t draw(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

/* A vocabulary of `letter_n` letters and up to merge_n merges of whatever is there already. Ranks are drawn: a token
 * comes about in several ways, and a pair of a young token may have a lower rank than what made it. */
static void make_vocabulary(fw_tokenizer *t, int letter_n, size_t merge_n, size_t longest) {
    char text[64][65];
    int32_t token_n = 0;
    uint32_t rank[256];
    *t = (fw_tokenizer){.unk_id = -1, .takes_bytes = true};
    assert_int_equal(fw_vocab_init(&t->vocab, 64), FW_OK);
    assert_int_equal(fw_vocab_init_merges(&t->vocab, merge_n), FW_OK);
    for (; token_n < letter_n; token_n++) {
        snprintf(text[token_n], sizeof text[0], "%c", 'a' + token_n);
        assert_int_equal(fw_vocab_add(&t->vocab, text[token_n], 1, token_n, FW_TOKEN_MODEL, "test"), FW_OK);
    }
    for (size_t i = 0; i < merge_n; i++) rank[i] = (uint32_t)i;
    for (size_t i = merge_n; i > 1; i--) {
        size_t k = (size_t)draw(i);
        uint32_t r = rank[k];
        rank[k] = rank[i - 1];
        rank[i - 1] = r;
    }
    for (size_t i = 0; i < merge_n; i++) {
        char joined[130];
        int32_t left = (int32_t)draw((uint64_t)token_n), right = (int32_t)draw((uint64_t)token_n);
        int n = snprintf(joined, sizeof joined, "%s%s", text[left], text[right]);
        if (n > (int)longest) continue;
        int32_t id = fw_vocab_find(&t->vocab, joined, (size_t)n);
        if (id < 0) {
            if (token_n == 64) continue;
            id = token_n++;
            snprintf(text[id], sizeof text[0], "%.64s", joined);
            assert_int_equal(fw_vocab_add(&t->vocab, joined, (size_t)n, id, FW_TOKEN_MODEL, "test"), FW_OK);
        }
        if (fw_vocab_merge(&t->vocab, left, right) == FW_NO_RANK)
            fw_vocab_add_merge(&t->vocab, left, right, rank[i], id);
    }
}

static void make_symbols(fw_bpe_symbol *symbol, const int32_t *id, size_t n) {
    for (size_t i = 0; i < n; i++) symbol[i] = (fw_bpe_symbol){.id = id[i], .start = (uint32_t)i};
}

/* The n symbols, of which those with id -1 are gone, against what is left of id. */
static void expect_list(const fw_bpe_symbol *symbol, size_t n, const int32_t *id, size_t left_n) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (symbol[i].id < 0) continue;
        assert_true(k < left_n);
        assert_int_equal(symbol[i].id, id[k++]);
    }
    assert_int_equal(k, left_n);
}

static void any_merges_give_the_same(void **state) {
    (void)state;
    enum { WORD_N = 400 };
    char word[WORD_N];
    int32_t id[WORD_N];
    fw_bpe_symbol symbol[WORD_N];
    fw_bpe_scratch scratch = {0};
    for (int round = 0; round < 1500; round++) {
        random_state = (uint64_t)round;
        fw_tokenizer t;
        int letter_n = 1 + round % 4;
        make_vocabulary(&t, letter_n, 1 + (size_t)draw(200), 2 + (size_t)draw(30));
        size_t n = (size_t)draw(WORD_N + 1), heap_n;
        for (size_t i = 0; i < n; i++) word[i] = (char)('a' + draw((uint64_t)letter_n));
        for (size_t i = 0; i < n; i++) id[i] = word[i] - 'a';
        make_symbols(symbol, id, n);
        assert_int_equal(fw_bpe_run(&scratch, &t, word, n, &heap_n), FW_OK);
        assert_int_equal(fw_bpe_merge_long(symbol, &t.vocab, n), FW_OK);
        size_t left_n = fw_test_merge_plainly(id, n, &t.vocab);
        expect_list(scratch.symbol, heap_n, id, left_n);
        expect_list(symbol, n, id, left_n);
        /* from any tokens, not letters only: then the same token comes about early here and late there */
        for (size_t i = 0; i < n; i++) id[i] = (int32_t)draw((uint64_t)t.vocab.token_n);
        make_symbols(symbol, id, n);
        assert_int_equal(fw_bpe_merge_long(symbol, &t.vocab, n), FW_OK);
        left_n = fw_test_merge_plainly(id, n, &t.vocab);
        expect_list(symbol, n, id, left_n);
        fw_vocab_fini(&t.vocab);
    }
    fw_bpe_scratch_fini(&scratch);
}

/* Tokens without a letter, as a hostile file may have them: a merge makes the very pair again that it came from. */
static void empty_tokens_end_as_well(void **state) {
    (void)state;
    enum { N = 300 };
    fw_tokenizer t = {.unk_id = -1};
    assert_int_equal(fw_vocab_init(&t.vocab, 4), FW_OK);
    assert_int_equal(fw_vocab_init_merges(&t.vocab, 4), FW_OK);
    fw_vocab_add_merge(&t.vocab, 0, 1, 2, 0); /* a + "" = a */
    fw_vocab_add_merge(&t.vocab, 1, 1, 1, 1); /* "" + "" = "" */
    fw_vocab_add_merge(&t.vocab, 0, 0, 3, 2);
    fw_vocab_add_merge(&t.vocab, 2, 1, 0, 2);
    int32_t id[N];
    fw_bpe_symbol symbol[N];
    for (uint64_t round = 0; round < 200; round++) {
        random_state = round;
        for (size_t i = 0; i < N; i++) id[i] = (int32_t)draw(2);
        make_symbols(symbol, id, N);
        assert_int_equal(fw_bpe_merge_long(symbol, &t.vocab, N), FW_OK);
        size_t left_n = fw_test_merge_plainly(id, N, &t.vocab);
        expect_list(symbol, N, id, left_n);
    }
    fw_vocab_fini(&t.vocab);
}

/* From one length on the words are long; around it nothing changes, and a failing allocation is an error. */
static void the_border_cannot_be_seen(void **state) {
    (void)state;
    fw_tokenizer t;
    random_state = 7;
    make_vocabulary(&t, 3, 150, 12);
    fw_bpe_scratch scratch = {0};
    static char word[FW_BPE_LONG_N];
    static int32_t id[FW_BPE_LONG_N];
    static fw_bpe_symbol symbol[FW_BPE_LONG_N];
    size_t bytes = FW_BPE_LONG_N, run_n;
    for (size_t i = 0; i < bytes; i++) word[i] = (char)('a' + draw(3));
    for (size_t cut = 0; cut < 2; cut++) { /* cut 1: by the heap */
        for (size_t i = 0; i < bytes; i++) id[i] = word[i] - 'a';
        make_symbols(symbol, id, bytes - cut);
        assert_int_equal(fw_bpe_merge_long(symbol, &t.vocab, bytes - cut), FW_OK);
        assert_int_equal(fw_bpe_run(&scratch, &t, word, bytes - cut, &run_n), FW_OK);
        size_t n = 0;
        for (size_t i = 0; i < bytes - cut; i++)
            if (symbol[i].id >= 0) id[n++] = symbol[i].id;
        expect_list(scratch.symbol, run_n, id, n);
    }
    int failed_n = 0;
    for (uint64_t k = 1;; k++) {
        fw_alloc_fail_at(k);
        fw_status status = fw_bpe_run(&scratch, &t, word, bytes, &run_n);
        fw_alloc_fail_at(0);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
        failed_n++;
    }
    assert_true(failed_n >= 6);
    fw_bpe_scratch_fini(&scratch);
    fw_vocab_fini(&t.vocab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_merges_give_the_same),
        cmocka_unit_test(empty_tokens_end_as_well),
        cmocka_unit_test(the_border_cannot_be_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
