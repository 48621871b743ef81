/* What the commands about data have in common: tokenizer, template and threads, without a model's weights. */
#ifndef FW_CLI_DATA_SOURCE_H
#define FW_CLI_DATA_SOURCE_H

#include "data/prepare.h"

typedef struct fw_data_source {
    fw_prepare prepare; /* filled in, but for what a command adds */
    fw_tokenizer *tokenizer;
    fw_chat_template chat;
    fw_threads *threads;
} fw_data_source;

fw_status fw_cli_data_open(fw_data_source *s, const fw_options *options);
void fw_cli_data_close(fw_data_source *s); /* takes a zeroed one */

#endif
