/* finewire generate: the answer on the standard output as it comes; with --json one object at the end. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "train/generate.h"

#include <jansson.h>

static fw_status stream(void *context, const char *text, size_t text_bytes) {
    (void)context;
    return fw_terminal_write(text, text_bytes);
}

static fw_status collect(void *context, const char *text, size_t text_bytes) {
    return fw_strbuf_append(context, text, text_bytes);
}

static fw_status print_json(const fw_strbuf *answer, const fw_generate_result *r) {
    json_t *object = json_pack("{s:s%, s:I, s:I, s:b, s:f, s:f}", "text", fw_strbuf_text(answer), answer->len_bytes,
                               "prompt_tokens", (json_int_t)r->prompt_n, "answer_tokens", (json_int_t)r->answer_n,
                               "ended", (int)r->ended, "prompt_s", r->prompt_s, "answer_s", r->answer_s);
    char *text = object == NULL ? NULL : json_dumps(object, 0);
    json_decref(object);
    if (text == NULL) return fw_fail(FW_ERR_NOMEM, "out of memory while writing the answer");
    fw_status status = fw_terminal_printf("%s\n", text);
    fw_free(text);
    return status;
}

fw_status fw_cli_generate(const fw_options *options) {
    fw_strbuf answer = {0};
    fw_generate_result result;
    fw_status status;
    FW_TRY_OR(fw_generate_run(options, options->json ? collect : stream, &answer, &result), done);
    if (options->json)
        FW_TRY_OR(print_json(&answer, &result), done);
    else {
        FW_TRY_OR(fw_terminal_write("\n", 1), done);
        if (fw_terminal_stderr_is_tty())
            fw_log_info("%lld token%s of prompt in %.2f s, %lld of answer, %.1f tokens/s%s", (long long)result.prompt_n,
                        fw_plural(result.prompt_n), result.prompt_s, (long long)result.answer_n,
                        (double)result.answer_n / (result.answer_s + 1e-9),
                        result.ended         ? ""
                        : result.interrupted ? "; interrupted"
                                             : "; cut off at the limit");
    }
    if (result.interrupted) status = fw_fail(FW_ERR_INTERRUPTED, "stopped by a signal");
done:
    fw_strbuf_fini(&answer);
    return status;
}
