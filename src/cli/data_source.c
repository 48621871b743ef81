#include "cli/data_source.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"
#include "model/model_config.h"

/* The size of the embedding, where the folder holds a whole model: ids beyond it are found here. */
static fw_status find_vocab(int64_t *vocab_size, const char *dir) {
    char *path;
    fw_status status = FW_OK;
    *vocab_size = 0;
    FW_TRY(fw_path_join(&path, dir, "config.json"));
    if (fw_file_exists(path)) {
        fw_model_config config;
        status = fw_model_config_load(&config, dir);
        if (status == FW_OK) *vocab_size = config.V;
    }
    fw_free(path);
    return status;
}

fw_status fw_cli_data_open(fw_data_source *s, const fw_options *o) {
    *s = (fw_data_source){0};
    FW_TRY(fw_threads_create_for_host(&s->threads));
    FW_TRY(fw_tokenizer_load(&s->tokenizer, o->model_name_or_path));
    FW_TRY(fw_chat_template_load(&s->chat, o->model_name_or_path));
    FW_TRY(fw_chat_template_set(&s->chat, o->chat_template_kwargs, o->chat_template_date, o->allow_special_in_content));
    s->prepare = (fw_prepare){.options = o,
                              .name = o->dataset_name,
                              .tokenizer = s->tokenizer,
                              .chat = &s->chat,
                              .threads = s->threads,
                              .all_tokens = !o->assistant_only_loss,
                              .for_report = 1};
    return find_vocab(&s->prepare.vocab_size, o->model_name_or_path);
}

void fw_cli_data_close(fw_data_source *s) {
    fw_chat_template_fini(&s->chat);
    fw_tokenizer_destroy(s->tokenizer);
    fw_threads_destroy(s->threads);
    *s = (fw_data_source){0};
}
