/* What finewire bench step needs besides running: which strategies, on what, the results read back, and the choice. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/bench_step.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <string.h>

enum { RESULT_LIMIT_BYTES = 1 << 16, WORD_BYTES = 32 };

/* ---- which strategies ---- */

static fw_status add_word(fw_strategy out[FW_BENCH_STRATEGY_N], int *n, const char *word) {
    int found = -1;
    for (int i = 0; fw_strategy_words[i] != NULL; i++)
        if (i != FW_STRATEGY_AUTO && strcmp(fw_strategy_words[i], word) == 0) found = i;
    if (found < 0)
        return fw_fail(
            FW_ERR_OPTION,
            "strategies names \"%.40s\"; it must be a list of ddp, zero1, zero2, zero3, hsdp and hsdp_zero2, "
            "with commas between",
            word);
    for (int i = 0; i < *n; i++)
        if (out[i] == (fw_strategy)found) return fw_fail(FW_ERR_OPTION, "strategies names %s twice", word);
    out[(*n)++] = (fw_strategy)found;
    return FW_OK;
}

fw_status fw_bench_step_strategies(fw_strategy out[FW_BENCH_STRATEGY_N], int *n, const fw_options *o) {
    *n = 0;
    for (const char *at = o->strategies; at != NULL;) {
        char word[WORD_BYTES];
        const size_t bytes = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(bytes < sizeof word ? bytes : sizeof word), at);
        FW_TRY(add_word(out, n, word));
        at = at[bytes] == ',' ? at + bytes + 1 : NULL;
    }
    if (*n > 0) return FW_OK;
    out[(*n)++] = FW_STRATEGY_DDP;
    if (o->num_processes == 1) return FW_OK; /* one rank has nothing to share */
    out[(*n)++] = FW_STRATEGY_ZERO1;
    out[(*n)++] = FW_STRATEGY_ZERO2;
    out[(*n)++] = FW_STRATEGY_ZERO3;
    if (o->shard_group_size > 1 && o->shard_group_size < o->num_processes) out[(*n)++] = FW_STRATEGY_HSDP;
    return FW_OK;
}

/* ---- on what ---- */

/* An answer of at least max_length tokens, whatever the tokenizer makes of it: words of random letters. */
static fw_status append_conversation(fw_strbuf *text, const fw_options *o, uint64_t *state) {
    FW_TRY(fw_strbuf_puts(text, "{\"messages\": [{\"role\": \"user\", \"content\": \"Go on.\"}, "
                                "{\"role\": \"assistant\", \"content\": \""));
    for (int64_t i = 0; i < o->max_length * 2; i++) {
        char word[4];
        for (int k = 0; k < 3; k++) {
            *state = *state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
            word[k] = (char)('a' + (*state >> 33) % 26);
        }
        word[3] = ' ';
        FW_TRY(fw_strbuf_append(text, word, sizeof word));
    }
    return fw_strbuf_puts(text, "\"}]}\n");
}

fw_status fw_bench_step_make_dataset(const fw_options *o, const char *path) {
    fw_strbuf text = {0};
    fw_file_writer file = {.fd = -1};
    fw_status status;
    uint64_t state = 1;
    const int64_t n =
        o->num_processes * o->per_device_train_batch_size * o->gradient_accumulation_steps * o->bench_steps;
    FW_TRY_OR(fw_file_writer_open(&file, path), done);
    for (int64_t i = 0; i < n; i++) {
        fw_strbuf_clear(&text);
        FW_TRY_OR(append_conversation(&text, o, &state), done);
        FW_TRY_OR(fw_file_writer_write(&file, text.data, text.len_bytes), done);
    }
    FW_TRY_OR(fw_file_writer_commit(&file), done);
done:
    fw_file_writer_close(&file);
    fw_strbuf_fini(&text);
    return status;
}

/* ---- what came out ---- */

static fw_status read_figures(fw_bench_step_row *r, const json_t *file, const char *path) {
    const char *message;
    FW_TRY(fw_json_get_string(&message, file, "does_not_fit", NULL, path));
    r->fits = message == NULL;
    snprintf(r->message, sizeof r->message, "%s", message != NULL ? message : "");
    FW_TRY(fw_json_get_double(&r->tokens_per_s, file, "tokens_per_s", 0, 0, 1e18, path));
    FW_TRY(fw_json_get_double(&r->step_s, file, "step_s", 0, 0, 1e18, path));
    FW_TRY(fw_json_get_double(&r->waited_s, file, "waited_s", 0, 0, 1e18, path));
    FW_TRY(fw_json_get_int(&r->sent_bytes, file, "sent_bytes", 0, 0, INT64_MAX, path));
    FW_TRY(fw_json_get_int(&r->planned_bytes, file, "planned_bytes", 0, 0, INT64_MAX, path));
    FW_TRY(fw_json_get_int(&r->peak_bytes, file, "peak_bytes", 0, 0, INT64_MAX, path));
    return fw_json_get_double(&r->loss, file, "loss", 0, -1e300, 1e300, path);
}

fw_status fw_bench_step_read(fw_bench_step_row *out, const char *folder) {
    char *path = NULL;
    json_t *file = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&path, folder, "result.json"), done);
    if (!fw_file_exists(path))
        FW_TRY_OR(fw_fail(FW_ERR_RANK, "the ranks ended without a result under %s", fw_strategy_words[out->strategy]),
                  done);
    FW_TRY_OR(fw_json_load(&file, path, RESULT_LIMIT_BYTES), done);
    FW_TRY_OR(read_figures(out, file, path), done);
done:
    json_decref(file);
    fw_free(path);
    return status;
}

int fw_bench_step_choose(const fw_bench_step_row *rows, int n, char *reason, size_t reason_bytes) {
    int fastest = -1, best = -1;
    char memory[FW_HUMAN_BYTES], most[FW_HUMAN_BYTES];
    for (int i = 0; i < n; i++)
        if (rows[i].fits && (fastest < 0 || rows[i].tokens_per_s > rows[fastest].tokens_per_s)) fastest = i;
    snprintf(reason, reason_bytes, "none of them fits");
    if (fastest < 0) return -1;
    for (int i = 0; i < n; i++)
        if (rows[i].fits && rows[i].tokens_per_s >= 0.97 * rows[fastest].tokens_per_s &&
            (best < 0 || rows[i].planned_bytes < rows[best].planned_bytes))
            best = i;
    fw_human_size(memory, (uint64_t)rows[best].planned_bytes);
    fw_human_size(most, (uint64_t)rows[fastest].planned_bytes);
    if (n == 1)
        snprintf(reason, reason_bytes, "%.0f tokens/s in %s a rank; nothing else was tried", rows[best].tokens_per_s,
                 memory);
    else if (best == fastest)
        snprintf(reason, reason_bytes, "the fastest, %.0f tokens/s, in %s a rank; none within 3 %% of it takes less",
                 rows[best].tokens_per_s, memory);
    else
        snprintf(reason, reason_bytes,
                 "%.0f tokens/s, within 3 %% of the fastest (%s, %.0f), in %s a rank instead of %s",
                 rows[best].tokens_per_s, fw_strategy_words[rows[fastest].strategy], rows[fastest].tokens_per_s, memory,
                 most);
    return best;
}
