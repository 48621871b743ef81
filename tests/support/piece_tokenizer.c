#include "support/piece_tokenizer.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"

#define SPACE "\xe2\x96\x81" /* U+2581 */

static const char *const normalizers[8] = {
    "null",
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}]}",
    "{\"type\":\"NFKC\"}",
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"StripAccents\"},{\"type\":\"Lowercase\"}]}",
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+|b*\"},\"content\":\"" SPACE "\"}",
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"},{\"type\":\"Strip\",\"strip_left\":true,\"strip_"
    "right\":"
    "true},{\"type\":\"NFC\"}]}",
    "{\"type\":\"ByteLevel\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"\"}",
};

static const char *const pre_tokenizers[8] = {
    "null",
    "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"always\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"first\",\"split\":false}",
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":false},"
    "{\"type\":\"Punctuation\",\"behavior\":\"MergedWithPrevious\"},{\"type\":\"WhitespaceSplit\"}]}",
    "{\"type\":\"Whitespace\"}",
    "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\",\"invert\":false}",
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true}"
    ","
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-c]+|\\\\S\"},\"behavior\":\"Contiguous\",\"invert\":true}]}",
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"c\"},"
    "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"never\"}]}",
};

static const char *const decoders[8] = {
    "null",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" SPACE
    "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}",
    "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"always\"}",
    "{\"type\":\"ByteFallback\"}",
    "{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[ab]"
    "\"},"
    "\"content\":\"x\"}]}",
    "{\"type\":\"Strip\",\"content\":\"a\",\"start\":2,\"stop\":3}",
    "{\"type\":\"ByteLevel\"}",
};

static const char *word(bool on) { return on ? "true" : "false"; }

static fw_status append_vocab(fw_strbuf *out, bool bytes_missing) {
    static const char *const tokens[] = {
        "<unk>",     "<s>",      SPACE,
        "a",         "b",        "c",
        "ab",        "abc",      SPACE "a",
        SPACE SPACE, "\xc3\xa9", "\xe4\xb8\xad",
        "\xc4\xa0",  "##a",      "##b",
        "##c",       "a</w>",    "##b</w>",
        "ab</w>",    "##bc",     "\xf0\x9f\x98\x80",
    };
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        FW_TRY(fw_strbuf_printf(out, "%s\"%s\":%zu", i ? "," : "", tokens[i], i));
    for (unsigned byte = 0; byte < 256; byte++)
        if (!(bytes_missing && byte % 5 == 0)) FW_TRY(fw_strbuf_printf(out, ",\"<0x%02X>\":%u", byte, 100 + byte));
    return FW_OK;
}

static fw_status append_file(fw_strbuf *out, unsigned variant) {
    bool prefix = variant >> 13 & 1;
    FW_TRY(fw_strbuf_printf(out,
                            "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true,\"rstrip\":true},"
                            "{\"id\":6,\"content\":\"ab\",\"special\":false,\"normalized\":true,\"single_word\":true,"
                            "\"lstrip\":true}],\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,",
                            normalizers[variant & 7], pre_tokenizers[variant >> 3 & 7], decoders[variant >> 6 & 7]));
    FW_TRY(fw_strbuf_printf(out,
                            "\"model\":{\"type\":\"BPE\",\"byte_fallback\":%s,\"fuse_unk\":%s,\"unk_token\":%s,"
                            "\"ignore_merges\":%s,\"continuing_subword_prefix\":\"%s\",\"end_of_word_suffix\":\"%s\",",
                            word(variant >> 9 & 1), word(variant >> 10 & 1), variant >> 11 & 1 ? "null" : "\"<unk>\"",
                            word(variant >> 12 & 1), prefix ? "##" : "", variant >> 14 & 1 ? "</w>" : ""));
    FW_TRY(fw_strbuf_puts(out, prefix ? "\"merges\":[\"a ##b\",\"##b ##c\",\"ab ##c\",\"a ##b</w>\"],\"vocab\":{"
                                      : "\"merges\":[[\"a\",\"b\"],[\"" SPACE "\",\"" SPACE
                                        "\"],[\"ab\",\"c\"],[\"" SPACE "\",\"a\"]],\"vocab\":{"));
    FW_TRY(append_vocab(out, variant >> 15 & 1));
    return fw_strbuf_puts(out, "}}}");
}

fw_status fw_test_write_piece_tokenizer(const char *dir, unsigned variant) {
    fw_strbuf text = {0};
    char *path = NULL;
    fw_status status;
    FW_TRY_OR(append_file(&text, variant), done);
    FW_TRY_OR(fw_path_join(&path, dir, "tokenizer.json"), done);
    FW_TRY_OR(fw_file_write(path, text.data, text.len_bytes), done);
done:
    fw_free(path);
    fw_strbuf_fini(&text);
    return status;
}
