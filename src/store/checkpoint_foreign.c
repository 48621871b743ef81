/* Checkpoints of other programs: recognised by the names of their files, never opened, since they are pickles. */
#include "store/checkpoint_tools.h"

#include "base/alloc.h"

#include <string.h>

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

typedef struct seen {
    bool distcp, deepspeed, trainer, lightning, weights;
} seen;

static void look(seen *s, const char *name) {
    s->distcp = s->distcp || ends_with(name, ".distcp");
    s->deepspeed = s->deepspeed || strncmp(name, "global_step", 11) == 0 || strncmp(name, "zero_pp_rank_", 13) == 0 ||
                   strncmp(name, "bf16_zero_pp_rank_", 18) == 0 || ends_with(name, "_model_states.pt") ||
                   ends_with(name, "_optim_states.pt");
    s->trainer = s->trainer || strcmp(name, "trainer_state.json") == 0 || strcmp(name, "optimizer.pt") == 0;
    s->weights =
        s->weights || strcmp(name, "model.safetensors") == 0 || strcmp(name, "model.safetensors.index.json") == 0;
}

fw_status fw_checkpoint_refuse_foreign(const char *dir) {
    if (!fw_dir_exists(dir)) return FW_OK;
    char **names;
    size_t name_n;
    seen s = {0};
    FW_TRY(fw_dir_list(&names, &name_n, dir));
    for (size_t i = 0; i < name_n; i++) look(&s, names[i]);
    fw_dir_list_free(names, name_n);
    if (s.deepspeed)
        return fw_fail(FW_ERR_INPUT,
                       "%s is a checkpoint of DeepSpeed (pickles, which are not read); its zero_to_fp32.py makes a "
                       "model of it (python zero_to_fp32.py %s OUT --safe_serialization); train from that with "
                       "--model",
                       dir, dir);
    if (s.distcp)
        return fw_fail(FW_ERR_INPUT,
                       "%s is a distributed checkpoint of PyTorch in its older form (.distcp with a pickled .metadata, "
                       "which is not read); python -m torch.distributed.checkpoint.format_utils dcp_to_torch %s OUT.pt "
                       "makes one file of it, save_pretrained a model; train from that with --model",
                       dir, dir);
    if (s.trainer)
        return fw_fail(FW_ERR_INPUT,
                       "%s is a checkpoint of transformers' Trainer, whose optimizer state is a pickle; %s", dir,
                       s.weights ? "its weights are a model folder: train from it with --model, into a new --output_dir"
                                 : "load it with from_pretrained and write it with save_pretrained(safe_serialization="
                                   "True); train from that with --model");
    return FW_OK;
}
