/* finewire ckpt diff A --against B */
#include "base/alloc.h"
#include "base/plural.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/terminal.h"
#include "store/checkpoint_tools.h"

#include <math.h>

typedef struct output {
    json_t *all; /* NULL: a table */
    int64_t tensor_n, moved_n;
} output;

static fw_status tell(void *context, const fw_checkpoint_difference *d) {
    output *o = context;
    o->tensor_n++;
    o->moved_n += d->moved_n > 0;
    if (d->moved_n == 0) return FW_OK;
    if (o->all == NULL)
        return fw_terminal_printf("%12lld of %-12lld  %10.3e  %10.3e  %10.3e  %s\n", (long long)d->moved_n,
                                  (long long)d->n, d->max, d->rms, d->rms / d->rms_before, d->name);
    json_t *line = json_pack("{s:s, s:I, s:I, s:o, s:o, s:o}", "name", d->name, "elements", (json_int_t)d->n, "moved",
                             (json_int_t)d->moved_n, "max", fw_json_number(d->max), "rms", fw_json_number(d->rms),
                             "rms_before", fw_json_number(d->rms_before));
    if (json_array_append_new(json_object_get(o->all, "moved"), line) == 0) return FW_OK;
    return fw_fail(FW_ERR_NOMEM, "out of memory while comparing");
}

fw_status fw_cli_ckpt_diff(const fw_options *o) {
    char *a = NULL, *b = NULL;
    output out = {0};
    fw_status status;
    FW_TRY_OR(fw_checkpoint_resolve(&a, o->checkpoint), done);
    FW_TRY_OR(fw_checkpoint_resolve(&b, o->against), done);
    if (o->json)
        out.all = json_pack("{s:s, s:s, s:[]}", "from", a, "to", b, "moved");
    else
        FW_TRY_OR(fw_terminal_printf("%28s  %10s  %10s  %10s  %s\n", "elements that moved", "largest", "rms",
                                     "rms/before", "tensor"),
                  done);
    FW_TRY_OR(fw_checkpoint_diff(a, b, o->moments, tell, &out), done);
    if (o->json) {
        json_object_set_new(out.all, "tensors", json_integer((json_int_t)out.tensor_n));
        status = fw_cli_write_json(out.all);
        out.all = NULL;
    } else
        status = fw_terminal_printf("%lld of %lld tensor%s moved\n", (long long)out.moved_n, (long long)out.tensor_n,
                                    fw_plural(out.tensor_n));
done:
    json_decref(out.all);
    fw_free(a);
    fw_free(b);
    return status;
}
