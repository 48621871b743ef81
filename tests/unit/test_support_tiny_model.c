/* The tiny models of tests/support: what is written is a valid folder of the size the config tells. */
#include "support/tiny_model.h"

#include "base/file.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Worked out by the script that made the reference numbers: the formula may not drift. */
static void test_weight(void **state) {
    (void)state;
    assert_true(fw_test_weight("model.embed_tokens.weight", 0) == -0x1.0798e00000000p-4f);
    assert_true(fw_test_weight("model.norm.weight", 5) == 0x1.0e60400000000p+0f);
    assert_true(fw_test_weight("model.layers.0.self_attn.q_proj.bias", 7) == 0x1.a04cb00000000p-5f);
    assert_true(fw_test_weight("model.layers.1.mlp.down_proj.weight", 1000) == -0x1.24522c0000000p-4f);
}

static void test_folder(void **state) {
    (void)state;
    char dir[64], path[128];
    snprintf(dir, sizeof dir, "/tmp/fw_tiny_%d", (int)getpid());
    for (int i = 0; fw_test_model_variants[i]; i++) {
        assert_int_equal(fw_test_write_model(dir, fw_test_model_variants[i], 400), FW_OK);
        snprintf(path, sizeof path, "%s/config.json", dir);
        json_t *config;
        assert_int_equal(fw_json_load(&config, path, 1 << 16), FW_OK);
        assert_int_equal(json_integer_value(json_object_get(config, "vocab_size")), 400);

        fw_mapping file;
        snprintf(path, sizeof path, "%s/model.safetensors", dir);
        assert_int_equal(fw_file_map(&file, path), FW_OK);
        uint64_t header_bytes;
        memcpy(&header_bytes, file.data, 8);
        json_t *header;
        assert_int_equal(fw_json_parse(&header, (const char *)file.data + 8, header_bytes, path, 1), FW_OK);
        json_int_t end = 0, rows, from, to;
        const char *name;
        json_t *entry;
        json_object_foreach(header, name, entry) {
            if (json_unpack(entry, "{s:[I*],s:[I,I]}", "shape", &rows, "data_offsets", &from, &to) != 0) continue;
            if (to > end) end = to;
            float first;
            memcpy(&first, file.data + 8 + header_bytes + from, sizeof first);
            assert_true(first == fw_test_weight(name, 0));
        }
        assert_int_equal(8 + header_bytes + (uint64_t)end, file.bytes);
        bool tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
        assert_int_equal(json_object_get(header, "lm_head.weight") == NULL, tied);
        json_decref(header);
        json_decref(config);
        fw_file_unmap(&file);
    }
    assert_int_equal(fw_dir_remove(dir), FW_OK);
    assert_int_equal(fw_test_write_model(dir, "no_such_variant", 0), FW_ERR_INPUT);
    assert_false(fw_dir_exists(dir));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_weight), cmocka_unit_test(test_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
