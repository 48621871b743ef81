#include "machine/doctor.h"

#include "base/alloc.h"
#include "base/strbuf.h"
#include "machine/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const fw_check checks[] = {
#define ROW(name, about, of_gpus) {#name, about, of_gpus, fw_check_##name},
    FW_CHECKS(ROW)
#undef ROW
};

const fw_check *fw_check_at(size_t i) { return i < sizeof checks / sizeof *checks ? &checks[i] : NULL; }

fw_status fw_doctor_run(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    *out = (fw_findings){0};
    for (size_t i = 0; fw_check_at(i) != NULL; i++) {
        out->check = fw_check_at(i)->name;
        FW_TRY(fw_check_at(i)->run(out, m, c));
    }
    return FW_OK;
}

void fw_findings_fini(fw_findings *f) {
    for (int i = 0; i < f->n; i++) {
        fw_free(f->item[i].text);
        fw_free(f->item[i].remedy);
    }
    fw_free(f->item);
    *f = (fw_findings){0};
}

int fw_findings_worst(const fw_findings *f) {
    int worst = -1;
    for (int i = 0; i < f->n; i++)
        if ((int)f->item[i].level > worst) worst = (int)f->item[i].level;
    return worst;
}

fw_status fw_finding_add(fw_findings *f, fw_finding_level level, const char *remedy, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (f->n == f->cap) {
        FW_TRY(FW_GROW_ARRAY(f->item, (size_t)(f->cap + 16)));
        f->cap += 16;
    }
    fw_finding *item = &f->item[f->n];
    *item = (fw_finding){.level = level, .check = f->check};
    f->n++; /* what is there of it is released with the rest */
    FW_TRY(fw_strdup(&item->text, text));
    return fw_strdup(&item->remedy, remedy);
}

const char *fw_gpu_set_text(char out[FW_GPU_SET_BYTES], const fw_machine *m, uint64_t set) {
    int n = 0;
    for (int i = 0; i < m->gpu_n; i++) n += (int)(set >> i & 1);
    size_t used = (size_t)snprintf(out, FW_GPU_SET_BYTES, n == 1 ? "GPU" : "GPUs");
    const char *before = " ";
    for (int i = 0; i < m->gpu_n && used < FW_GPU_SET_BYTES - 16; i++) {
        if ((set >> i & 1) == 0) continue;
        int last = i;
        while (last + 1 < m->gpu_n && (set >> (last + 1) & 1) && m->gpu[last + 1].index == m->gpu[last].index + 1)
            last++;
        used += (size_t)snprintf(out + used, FW_GPU_SET_BYTES - used, last > i ? "%s%d-%d" : "%s%d", before,
                                 m->gpu[i].index, m->gpu[last].index);
        before = ",";
        i = last;
    }
    return out;
}
