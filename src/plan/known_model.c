#include "plan/known_model.h"

#include "base/json.h"
#include "base/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { NAME_BYTES = 128, CONFIG_LIMIT_BYTES = 4 << 20 };

typedef struct shape {
    const char *name;
    fw_architecture architecture;
    int64_t C, L, H, K, D, F, V;
    bool tied;
    int64_t max_position;
} shape;

static const shape shapes[] = {
#define FW_KNOWN(name, architecture, C, L, H, K, D, F, V, tied, max_position)                                          \
    {name, FW_ARCH_##architecture, C, L, H, K, D, F, V, tied, max_position},
#define FW_KNOWN_ALSO(name, known)
#include "plan/known_model.def"
#undef FW_KNOWN
#undef FW_KNOWN_ALSO
};
enum { SHAPE_N = sizeof shapes / sizeof shapes[0] };

static const struct {
    const char *name, *known;
} also[] = {
#define FW_KNOWN(...)
#define FW_KNOWN_ALSO(name, known) {name, known},
#include "plan/known_model.def"
#undef FW_KNOWN
#undef FW_KNOWN_ALSO
};
enum { ALSO_N = sizeof also / sizeof also[0] };

const char *fw_known_model_name(int i) { return i >= 0 && i < SHAPE_N ? shapes[i].name : NULL; }

static const char *without_owner(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

/* An owner that is given must be the right one. */
static bool is_named(const char *known, const char *name) {
    if (strchr(name, '/') != NULL) return strcasecmp(known, name) == 0;
    return strcasecmp(without_owner(known), name) == 0;
}

static const shape *find(const char *name) {
    for (int i = 0; i < ALSO_N; i++)
        if (is_named(also[i].name, name)) name = also[i].known;
    for (int i = 0; i < SHAPE_N; i++)
        if (is_named(shapes[i].name, name)) return &shapes[i];
    return NULL;
}

/* Endings one by one: Qwen3-4B-Instruct-2507, -Instruct-2507 and all, is Qwen3-4B. A size is no ending. */
static const shape *find_without_endings(const char *name) {
    static const char *const endings[] = {"-instruct", "-base", "-chat", "-hf", "-it"};
    char cut[NAME_BYTES];
    if (snprintf(cut, sizeof cut, "%s", name) >= (int)sizeof cut) return NULL;
    for (;;) {
        const shape *found = find(cut);
        if (found != NULL) return found;
        char *dash = strrchr(cut, '-');
        if (dash == NULL) return NULL;
        bool is_ending = strlen(dash) == 5 && strspn(dash + 1, "0123456789") == 4; /* a date, as 2507 */
        for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
            is_ending = is_ending || strcasecmp(dash, endings[i]) == 0;
        if (!is_ending) return NULL;
        *dash = 0;
    }
}

bool fw_known_model_find(fw_model_config *out, const char *name) {
    const shape *s = find_without_endings(name);
    if (s == NULL) return false;
    *out = (fw_model_config){.architecture = s->architecture,
                             .C = s->C,
                             .L = s->L,
                             .H = s->H,
                             .K = s->K,
                             .D = s->D,
                             .F = s->F,
                             .V = s->V,
                             .max_position = s->max_position,
                             .rms_eps = 1e-6f,
                             .qkv_bias = s->architecture == FW_ARCH_QWEN2,
                             .qk_norm = s->architecture == FW_ARCH_QWEN3,
                             .tied = s->tied,
                             .rope = {.kind = FW_ROPE_DEFAULT, .theta = 1e6, .factor = 1}};
    return true;
}

static fw_status refuse(const char *text) {
    fw_nearest nearest;
    fw_nearest_start(&nearest, text);
    for (int i = 0; i < SHAPE_N; i++) {
        fw_nearest_offer(&nearest, shapes[i].name);
        fw_nearest_offer(&nearest, without_owner(shapes[i].name));
    }
    const char *best = nearest.best;
    return fw_fail(
        FW_ERR_OPTION,
        "--model_name_or_path is \"%.200s\": neither a folder, nor a config.json, nor a model whose shape is "
        "known; %s%s%s",
        text, best != NULL ? "did you mean " : "known names are as Qwen/Qwen3-8B (docs/plan.md lists them)",
        best != NULL ? best : "", best != NULL ? "?" : "");
}

fw_status fw_known_model_config(fw_model_config *out, const char *text) {
    struct stat info;
    if (stat(text, &info) != 0) return fw_known_model_find(out, text) ? FW_OK : refuse(text);
    if (S_ISDIR(info.st_mode)) return fw_model_config_load(out, text);
    json_t *object;
    FW_TRY(fw_json_load(&object, text, CONFIG_LIMIT_BYTES));
    fw_status status = fw_model_config_parse(out, object, text);
    json_decref(object);
    return status;
}
