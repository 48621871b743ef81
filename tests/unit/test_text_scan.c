/* The matchers written by hand against the regex library: every code point between neighbours, and drawn texts. */
#include "base/strbuf.h"
#include "support/scan_pair.h"
#include "text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static fw_scan_pairs pairs;

static void compare(const fw_strbuf *text) {
    for (size_t i = 0; i < pairs.n; i++) {
        bool same;
        size_t at;
        assert_int_equal(fw_scan_pair_compare(&pairs, i, fw_strbuf_text(text), text->len_bytes, &same, &at), FW_OK);
        if (!same) fail_msg("%s: match %zu differs in \"%s\"", pairs.pair[i].pattern, at, fw_strbuf_text(text));
    }
}

static void put(fw_strbuf *text, uint32_t code) {
    char bytes[4];
    assert_int_equal(fw_strbuf_append(text, bytes, fw_utf8_put(bytes, code)), FW_OK);
}

/* Each alone, beside itself, and between characters of other classes. */
static void every_code_point(void **state) {
    (void)state;
    static const char beside[] = "a A1 .\n'";
    fw_strbuf text = {0};
    for (uint32_t code = 0; code < 0x110000; code++) {
        if (code >= 0xd800 && code < 0xe000) continue;
        if (code >= 0x34000 && code < 0xe0000) code = 0xe0000;                  /* no character was ever put there */
        if (code >= 0xe1000) code = code < 0x10c000 ? code + 0x3fff : 0x10ffff; /* nor there, but for private use */
        for (size_t i = 0; i + 1 < sizeof beside; i++) {
            put(&text, (unsigned char)beside[i]);
            put(&text, code);
            if (i == 2) put(&text, code);
        }
        if (code % 64 != 63 && code != 0x10ffff) continue;
        compare(&text);
        fw_strbuf_clear(&text);
    }
    compare(&text);
    fw_strbuf_fini(&text);
}

static uint64_t random_state;

static uint32_t draw(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static void drawn_texts(void **state) {
    (void)state;
    static const char *const pieces[] = {
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\xc2\xa0",
        "'",
        "'s",
        "'S",
        "'\xc5\xbf",
        "'re",
        "'lL",
        "'v",
        "a",
        "Bc",
        "D",
        "ab",
        "1",
        "12",
        "345",
        "\xd9\xa3",
        "\xc2\xbd",
        ".",
        "/",
        "!?",
        "$",
        "_",
        "\\",
        "\xe2\x82\xac",
        "\xef\xbc\x8c",
        "\xe6\x97\xa5",
        "\xe3\x82\xab",
        "\xe4\xb8\x80",
        "\xe9\xbe\xa6",
        "\xcc\x81",
        "e\xcc\x81",
        "\xc7\x85",
        "\xca\xb0",
        "\xe0\xa4\x95\xe0\xa5\x8d",
        "\xf0\x9f\x98\x80",
        "\x7f",
        "\x01",
        "\xe2\x80\x8b",
        "\xe1\xa0\x8e",
        "\xf0\x90\xb5\x80",
        "\xc2\x85",
        "\xe2\x80\xa8",
        "\xe1\xb2\x89",
    };
    fw_strbuf text = {0};
    random_state = 1;
    for (int round = 0; round < 20000; round++) {
        fw_strbuf_clear(&text);
        for (uint32_t n = 1 + draw(20); n > 0; n--)
            assert_int_equal(fw_strbuf_puts(&text, pieces[draw(sizeof pieces / sizeof *pieces)]), FW_OK);
        compare(&text);
    }
    fw_strbuf_fini(&text);
}

/* Any other text is no pattern of these. */
static void only_exact_patterns(void **state) {
    (void)state;
    assert_true(pairs.n >= 9);
    assert_null(fw_scan_find(""));
    assert_null(fw_scan_find("\\p{N}"));
    assert_null(fw_scan_find("\\p{N}{1,3}|"));
    assert_null(fw_scan_pattern(pairs.n));
}

int main(void) {
    if (fw_scan_pairs_init(&pairs) != FW_OK) {
        fprintf(stderr, "%s\n", fw_trail_message());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(drawn_texts),
        cmocka_unit_test(only_exact_patterns),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fw_scan_pairs_fini(&pairs);
    return failed;
}
