/* Checkpoints of other programs: recognised by the names of their files, never opened, since they are pickles. */
#include "store/checkpoint_tools.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

typedef struct seen {
    bool distcp, deepspeed, trainer, weights;
    bool parts, latest, script; /* DeepSpeed: files of ranks; what names the newest tag; zero_to_fp32.py */
    long long tag;              /* the largest of global_stepN; -1: none */
    long long checkpoint;       /* the largest of checkpoint-N, as Trainer has them; -1: none */
} seen;

/* The number behind `start`; -1 for another name. */
static long long number_after(const char *name, const char *start) {
    const size_t n = strlen(start), digits = strlen(name) < n ? 0 : strspn(name + n, "0123456789");
    if (strncmp(name, start, n) != 0 || digits == 0 || digits > 15 || name[n + digits] != 0) return -1;
    return strtoll(name + n, NULL, 10);
}

static long long larger(long long a, long long b) { return a > b ? a : b; }

static void look(seen *s, const char *name) {
    s->distcp = s->distcp || ends_with(name, ".distcp");
    s->parts = s->parts || strncmp(name, "zero_pp_rank_", 13) == 0 || strncmp(name, "bf16_zero_pp_rank_", 18) == 0 ||
               ends_with(name, "_model_states.pt") || ends_with(name, "_optim_states.pt");
    s->tag = larger(s->tag, number_after(name, "global_step"));
    s->latest = s->latest || strcmp(name, "latest") == 0;
    s->script = s->script || strcmp(name, "zero_to_fp32.py") == 0;
    s->deepspeed = s->parts || s->tag >= 0;
    s->trainer = s->trainer || strcmp(name, "trainer_state.json") == 0 || strcmp(name, "optimizer.pt") == 0;
    s->weights =
        s->weights || strcmp(name, "model.safetensors") == 0 || strcmp(name, "model.safetensors.index.json") == 0;
    s->checkpoint = larger(s->checkpoint, number_after(name, "checkpoint-"));
}

static fw_status look_into(seen *s, const char *dir) {
    char **names;
    size_t name_n;
    *s = (seen){.tag = -1, .checkpoint = -1};
    FW_TRY(fw_dir_list(&names, &name_n, dir));
    for (size_t i = 0; i < name_n; i++) look(s, names[i]);
    fw_dir_list_free(names, name_n);
    return FW_OK;
}

/* zero_to_fp32.py takes the folder above the tag (global_step500), which it finds by `latest` there, or by -t. */
static fw_status refuse_deepspeed(const seen *s, const char *dir) {
    char above[4096], tag[256] = "", script[4200] = "";
    size_t bytes = strlen(dir);
    while (bytes > 1 && dir[bytes - 1] == '/') bytes--;
    size_t name_at = bytes;
    while (name_at > 0 && dir[name_at - 1] != '/') name_at--;
    const int name_bytes = (int)(bytes - name_at);
    const bool is_dots = dir[bytes - 1] == '.' && name_bytes <= 2;
    seen there = *s;
    snprintf(above, sizeof above, "%.*s", (int)bytes, dir);
    if (s->parts) { /* this is the tag's own folder */
        if (is_dots || bytes == 1)
            snprintf(above, sizeof above, "%.*s/..", (int)bytes, dir);
        else if (name_at == 0)
            snprintf(above, sizeof above, ".");
        else
            snprintf(above, sizeof above, "%.*s", (int)(name_at > 1 ? name_at - 1 : 1), dir);
        if (!is_dots) snprintf(tag, sizeof tag, " -t %.*s", name_bytes, dir + name_at);
        if (look_into(&there, above) != FW_OK) there.script = false;
    } else if (!s->latest) {
        snprintf(tag, sizeof tag, " -t global_step%lld", s->tag);
    }
    if (there.script) snprintf(script, sizeof script, "%s/", above);
    return fw_fail(
        FW_ERR_INPUT,
        "%s is a checkpoint of DeepSpeed (pickles, which are not read); its zero_to_fp32.py writes the weights "
        "as safetensors (python %szero_to_fp32.py %s OUT%s --safe_serialization); put the model's config.json "
        "and tokenizer beside them and train from OUT with --model",
        dir, script, above, tag);
}

static fw_status refuse(const seen *s, const char *dir) {
    if (s->deepspeed) return refuse_deepspeed(s, dir);
    if (s->distcp)
        return fw_fail(FW_ERR_INPUT,
                       "%s is a distributed checkpoint of PyTorch in its older form (.distcp with a pickled .metadata, "
                       "which is not read); python -m torch.distributed.checkpoint.format_utils dcp_to_torch %s OUT.pt "
                       "makes one file of it, save_pretrained a model; train from that with --model",
                       dir, dir);
    if (s->trainer)
        return fw_fail(
            FW_ERR_INPUT, "%s is a checkpoint of transformers' Trainer, whose optimizer state is a pickle; %s", dir,
            s->weights ? "its weights are a model folder: train from it with --model, into a new --output_dir"
                       : "load it with from_pretrained and write it with save_pretrained(safe_serialization="
                         "True); train from that with --model");
    return FW_OK;
}

fw_status fw_checkpoint_refuse_foreign(const char *dir) {
    if (!fw_dir_exists(dir)) return FW_OK;
    seen s, inner;
    FW_TRY(look_into(&s, dir));
    FW_TRY(refuse(&s, dir));
    if (s.checkpoint < 0) return FW_OK;
    /* an output folder of Trainer: its newest */
    fw_strbuf path = {0};
    fw_status status = fw_strbuf_printf(&path, "%s/checkpoint-%lld", dir, s.checkpoint);
    if (status == FW_OK && fw_dir_exists(fw_strbuf_text(&path))) {
        status = look_into(&inner, fw_strbuf_text(&path));
        if (status == FW_OK) status = refuse(&inner, fw_strbuf_text(&path));
    }
    fw_strbuf_fini(&path);
    return status;
}
