#include "support/text_lab.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_ok(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

static void make_dir(char *dir, size_t dir_bytes) {
    const char *base = getenv("TMPDIR");
    snprintf(dir, dir_bytes, "%.30s/fw_text_XXXXXX", base && strlen(base) <= 30 ? base : "/tmp");
    assert_non_null(mkdtemp(dir));
}

static void save(const char *dir, const json_t *value) {
    char *path;
    expect_ok(fw_path_join(&path, dir, "tokenizer.json"));
    expect_ok(fw_json_save(value, path));
    fw_free(path);
}

void fw_text_lab_init(fw_text_lab *lab, fw_test_tokenizer_style style) {
    *lab = (fw_text_lab){0};
    make_dir(lab->dir, sizeof lab->dir);
    expect_ok(fw_test_write_tokenizer(lab->dir, style));
    expect_ok(fw_tokenizer_load(&lab->tokenizer, lab->dir));
    expect_ok(fw_encoder_create(&lab->encoder, lab->tokenizer));
    expect_ok(fw_chat_template_load(&lab->chat, lab->dir));
}

void fw_text_lab_init_file(fw_text_lab *lab, const json_t *tokenizer_json) {
    *lab = (fw_text_lab){0};
    make_dir(lab->dir, sizeof lab->dir);
    save(lab->dir, tokenizer_json);
    expect_ok(fw_tokenizer_load(&lab->tokenizer, lab->dir));
    expect_ok(fw_encoder_create(&lab->encoder, lab->tokenizer));
}

void fw_text_lab_fini(fw_text_lab *lab) {
    fw_chat_template_fini(&lab->chat);
    fw_encoder_destroy(lab->encoder);
    fw_tokenizer_destroy(lab->tokenizer);
    expect_ok(fw_dir_remove(lab->dir));
}

json_t *fw_text_lab_file(fw_test_tokenizer_style style) {
    char dir[64], *path;
    json_t *file;
    make_dir(dir, sizeof dir);
    expect_ok(fw_test_write_tokenizer(dir, style));
    expect_ok(fw_path_join(&path, dir, "tokenizer.json"));
    expect_ok(fw_json_load(&file, path, 1 << 20));
    fw_free(path);
    expect_ok(fw_dir_remove(dir));
    return file;
}

const char *fw_text_lab_refusal(const json_t *tokenizer_json) {
    char dir[64];
    make_dir(dir, sizeof dir);
    save(dir, tokenizer_json);
    fw_tokenizer *tokenizer = NULL;
    fw_status status = fw_tokenizer_load(&tokenizer, dir);
    fw_tokenizer_destroy(tokenizer);
    fw_trail trail;
    fw_trail_copy(&trail);
    expect_ok(fw_dir_remove(dir));
    fw_trail_restore(&trail);
    if (status == FW_OK) return "";
    assert_int_equal(status, FW_ERR_INPUT);
    return fw_trail_message();
}
