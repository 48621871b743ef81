/* finewire ckpt ls FOLDER */
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/terminal.h"
#include "store/checkpoint_tools.h"

#include <math.h>
#include <stdio.h>

static double metric(const fw_checkpoint_found *f, const char *name) {
    const json_t *value = json_object_get(f->state.metrics, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *number(char text[32], double value) {
    if (isfinite(value))
        snprintf(text, 32, "%.4f", value);
    else
        snprintf(text, 32, "-");
    return text;
}

static fw_status show(const fw_checkpoint_found_list *list) {
    FW_TRY(fw_terminal_printf("%8s  %-20s  %10s  %8s  %9s  %-14s  %s\n", "step", "saved (UTC)", "size", "loss",
                              "eval_loss", "ranks", "state"));
    for (size_t i = 0; i < list->found_n; i++) {
        const fw_checkpoint_found *f = &list->found[i];
        char size[FW_HUMAN_BYTES], loss[32], eval_loss[32], ranks[40];
        snprintf(ranks, sizeof ranks, "%lld %s", (long long)f->state.world_size, f->state.strategy);
        FW_TRY(fw_terminal_printf("%8lld  %-20s  %10s  %8s  %9s  %-14s  %s%s\n", (long long)f->step,
                                  f->saved_at == NULL ? "-" : f->saved_at, fw_human_size(size, f->bytes),
                                  number(loss, metric(f, "loss")), number(eval_loss, metric(f, "eval_loss")),
                                  f->why == NULL ? ranks : "-", f->why == NULL ? "complete" : "does not count: ",
                                  f->why != NULL ? f->why
                                  : f->adapter   ? ", adapter"
                                                 : ""));
    }
    return FW_OK;
}

static json_t *to_json(const fw_checkpoint_found *f) {
    return json_pack("{s:s, s:I, s:b, s:b, s:s*, s:s*, s:I, s:o, s:o, s:I, s:s}", "path", f->path, "step",
                     (json_int_t)f->step, "complete", f->why == NULL, "adapter", (int)f->adapter, "why", f->why,
                     "saved_at", f->saved_at, "bytes", (json_int_t)f->bytes, "loss", fw_json_number(metric(f, "loss")),
                     "eval_loss", fw_json_number(metric(f, "eval_loss")), "world_size", (json_int_t)f->state.world_size,
                     "strategy", f->state.strategy);
}

fw_status fw_cli_ckpt_ls(const fw_options *o) {
    fw_checkpoint_found_list list;
    FW_TRY(fw_checkpoint_find_all(&list, o->checkpoint));
    fw_status status;
    if (o->json) {
        json_t *all = json_pack("{s:[]}", "checkpoints");
        for (size_t i = 0; i < list.found_n; i++)
            json_array_append_new(json_object_get(all, "checkpoints"), to_json(&list.found[i]));
        status = fw_cli_write_json(all);
    } else if (list.found_n == 0)
        status = fw_terminal_printf("%s holds no checkpoints\n", o->checkpoint);
    else
        status = show(&list);
    fw_checkpoint_found_list_fini(&list);
    return status;
}
