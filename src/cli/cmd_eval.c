/* finewire eval: loss and perplexity on a file of conversations. */
#include "base/plural.h"
#include "cli/commands.h"
#include "cli/ranks.h"
#include "cli/terminal.h"
#include "train/evaluate.h"

#include <math.h>
#include <stdio.h>

/* JSON has no infinity. */
static fw_status print_json(const fw_evaluate_result *r) {
    char perplexity[32] = "null";
    if (isfinite(r->perplexity)) snprintf(perplexity, sizeof perplexity, "%.9g", r->perplexity);
    return fw_terminal_printf(
        "{\"loss\": %.9g, \"perplexity\": %s, \"targets\": %lld, \"tokens\": %lld, \"conversations\": %lld, "
        "\"left_out\": %lld, \"seconds\": %.6g, \"tokens_per_s\": %.6g, \"peak_bytes\": %llu}\n",
        r->loss, perplexity, (long long)r->target_n, (long long)r->token_n, (long long)r->sample_n,
        (long long)r->dropped_n, r->seconds, r->tokens_per_s, (unsigned long long)r->peak_bytes);
}

static fw_status print_text(const fw_evaluate_result *r) {
    char tokens[FW_HUMAN_BYTES];
    return fw_terminal_printf(
        "loss = %.6f\nperplexity = %.4f\ntargets = %lld of %lld token%s in %lld conversation%s (%lld left out)\n"
        "tokens_per_s = %s\n",
        r->loss, r->perplexity, (long long)r->target_n, (long long)r->token_n, fw_plural(r->token_n),
        (long long)r->sample_n, fw_plural(r->sample_n), (long long)r->dropped_n,
        fw_human_count(tokens, r->tokens_per_s));
}

fw_status fw_cli_eval(const fw_options *options) {
    bool must_launch;
    FW_TRY(fw_cli_must_launch(&must_launch, (int)options->num_processes));
    if (must_launch) return fw_cli_launch((int)options->num_processes, true);
    fw_evaluate_result result;
    bool reports;
    fw_status status = fw_evaluate_run(options, &result, &reports);
    if (status != FW_OK && !reports) fw_terminal_error_was_shown();
    if (status != FW_OK || result.rank != 0) return status;
    return options->json ? print_json(&result) : print_text(&result);
}
