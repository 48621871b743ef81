/* finewire merge --adapter DIR --output DIR: the adapter's numbers become part of its base's weights. */
#include "base/plural.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/terminal.h"
#include "train/merge_run.h"

#include <stdio.h>

static fw_status print_json(const fw_options *o, const fw_merge_result *r, const char *hash) {
    json_t *out = json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s, s:I, s:I}", "adapter", o->adapter, "base", r->base,
                            "base_weights_hash", hash, "base_quantization", r->base_quantization, "model", o->output,
                            "dtype", fw_export_dtype_words[o->dtype], "adapted", (json_int_t)r->adapted_n, "whole",
                            (json_int_t)r->whole_n);
    const bool compared = r->token_n > 0;
    if (json_object_set_new(out, "compared_tokens", json_integer((json_int_t)r->token_n)) != 0 ||
        json_object_set_new(out, "largest_difference", compared ? fw_json_number(r->difference) : json_null()) != 0 ||
        json_object_set_new(out, "largest_logit", compared ? fw_json_number(r->largest) : json_null()) != 0 ||
        json_object_set_new(out, "same_likeliest", compared ? json_integer((json_int_t)r->same_n) : json_null()) != 0) {
        json_decref(out);
        return fw_fail(FW_ERR_NOMEM, "out of memory while describing a merge");
    }
    return fw_cli_write_json(out);
}

static fw_status print_text(const fw_options *o, const fw_merge_result *r, const char *hash) {
    FW_TRY(fw_terminal_printf("base = %s (weights %s%s%s%s)\n", r->base, hash,
                              r->base_quantization == NULL ? "" : ", in 4 bits as ",
                              r->base_quantization == NULL ? "" : r->base_quantization,
                              r->base_quantization == NULL ? "" : ": the numbers that they stand for"));
    FW_TRY(fw_terminal_printf("adapter = %s (%lld matri%s", o->adapter, (long long)r->adapted_n,
                              r->adapted_n == 1 ? "x" : "ces"));
    if (r->whole_n > 0)
        FW_TRY(fw_terminal_printf(", %lld parameter%s trained whole", (long long)r->whole_n, fw_plural(r->whole_n)));
    FW_TRY(fw_terminal_printf(")\nmodel = %s (%s)\n", o->output, fw_export_dtype_words[o->dtype]));
    if (r->why_not_compared != NULL)
        return fw_terminal_printf("logits were not compared: %s (--check_tokens 0 does not ask)\n",
                                  r->why_not_compared);
    if (r->token_n == 0) return FW_OK;
    return fw_terminal_printf(
        "largest difference of logits from base + adapter = %.3g, of logits up to %.3g, over %lld "
        "token%s in fp32; the likeliest next token is the same after %lld of them\n",
        r->difference, r->largest, (long long)r->token_n, fw_plural(r->token_n), (long long)r->same_n);
}

fw_status fw_cli_merge(const fw_options *o) {
    fw_merge_result r;
    char hash[32];
    fw_status status;
    FW_TRY_OR(fw_merge_run(o, &r), done);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r.base_hash);
    FW_TRY_OR(o->json ? print_json(o, &r, hash) : print_text(o, &r, hash), done);
done:
    fw_merge_result_fini(&r);
    return status;
}
