/* finewire doctor: what is wrong with this machine, a line a finding. Exit 0 clean, 1 warnings, 2 broken. */
#include "cli/commands.h"
#include "cli/machine_source.h"
#include "cli/terminal.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/plural.h"
#include "device/cuda_loader.h"
#include "machine/doctor.h"
#include "plan/known_model.h"
#include "store/checkpoint.h"
#include "store/write_weights.h"

#include <stdio.h>
#include <string.h>

enum { PLUGIN_ERROR_BYTES = 512 };

/* ---- what a run here would need ---- */

/* The version of CUDA that the plugin was built with; why there is none. The plugin is opened, no GPU is touched. */
static void ask_plugin(fw_doctor_context *c, char error[PLUGIN_ERROR_BYTES], bool here) {
    char path[4096];
    const fw_plugin_head *head;
    if (fw_plugin_open(&head, &fw_cuda_plugin_place, path, sizeof path) == FW_OK) {
        c->plugin_cuda_version = ((const fw_cuda_plugin *)(const void *)head)->cuda_version;
        return;
    }
    snprintf(error, PLUGIN_ERROR_BYTES, "%.*s", PLUGIN_ERROR_BYTES - 1, fw_trail_message());
    if (here) c->plugin_error = error; /* of another machine we do not know what lies there */
}

static fw_status ask_model(fw_doctor_context *c, const fw_options *o) {
    fw_model_config config;
    fw_param_table table;
    if (o->model_name_or_path == NULL) return FW_OK;
    FW_TRY(fw_known_model_config(&config, o->model_name_or_path));
    FW_TRY(fw_param_table_init(&table, &config));
    c->checkpoint_bytes = (int64_t)fw_checkpoint_bytes(&table, FW_OPTIMIZER_ADAMW, 1);
    c->model_bytes = (int64_t)fw_weights_bytes(&table, FW_BF16);
    fw_param_table_fini(&table);
    if (o->save_strategy != FW_WHEN_NO) return FW_OK;
    c->checkpoint_bytes = c->model_bytes; /* the trained model is all that is written */
    c->model_bytes = 0;
    c->checkpoint_keep_n = 0;
    return FW_OK;
}

/* Free bytes of the disk that will hold the folder: of the nearest folder above it that is there. */
static fw_status ask_disk(fw_doctor_context *c, const fw_options *o) {
    char *at;
    uint64_t free_bytes;
    c->disk_free_bytes = FW_MACHINE_UNKNOWN;
    if (o->output_dir == NULL) return FW_OK;
    FW_TRY(fw_strdup(&at, o->output_dir));
    while (!fw_dir_exists(at) && strcmp(at, ".") != 0) {
        char *slash = strrchr(at, '/');
        if (slash == NULL)
            strcpy(at, ".");
        else
            slash[slash == at ? 1 : 0] = 0; /* "/" stays */
    }
    const fw_status status = fw_disk_free(&free_bytes, at);
    fw_free(at);
    FW_TRY(status);
    c->output_dir = o->output_dir;
    c->disk_free_bytes = (int64_t)free_bytes;
    return FW_OK;
}

/* ---- output ---- */

static const char *const level_names[] = {"note", "warning", "broken"};

static bool has_finding(const fw_findings *f, const char *check) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->item[i].check, check) == 0) return true;
    return false;
}

static bool is_about_nothing(const fw_check *check, const fw_machine *m) { return check->of_gpus && m->gpu_n == 0; }

/* The names of the checks that found nothing: of those that had something to look at, or of the others. */
static fw_status add_quiet(fw_strbuf *text, const fw_findings *f, const fw_machine *m, bool about_nothing, int *n) {
    *n = 0;
    for (size_t i = 0; fw_check_at(i) != NULL; i++) {
        const fw_check *check = fw_check_at(i);
        if (has_finding(f, check->name) || is_about_nothing(check, m) != about_nothing) continue;
        FW_TRY(fw_strbuf_printf(text, "%s%s", (*n)++ == 0 ? "" : ", ", check->name));
    }
    return FW_OK;
}

/* The gravest first; within a level in the order of the checks. */
static fw_status add_text(fw_strbuf *text, const fw_findings *f, const fw_machine *m) {
    int count[3] = {0};
    for (int level = FW_FINDING_BROKEN; level >= FW_FINDING_NOTE; level--)
        for (int i = 0; i < f->n; i++) {
            if ((int)f->item[i].level != level) continue;
            count[level]++;
            FW_TRY(fw_strbuf_printf(text, "%-8s %-11s %s -> %s\n", level_names[level], f->item[i].check,
                                    f->item[i].text, f->item[i].remedy));
        }
    FW_TRY(fw_strbuf_puts(text, "fine     "));
    int n;
    FW_TRY(add_quiet(text, f, m, false, &n));
    FW_TRY(fw_strbuf_puts(text, n == 0 ? "nothing\n" : "\n"));
    if (m->gpu_n == 0) {
        FW_TRY(fw_strbuf_puts(text, "no GPUs  nothing to look at for "));
        FW_TRY(add_quiet(text, f, m, true, &n));
        FW_TRY(fw_strbuf_puts(text, n == 0 ? "other checks\n" : "\n"));
    }
    return fw_strbuf_printf(text, "%s: %d broken, %d warning%s, %d note%s\n",
                            m->host_name[0] != 0 ? m->host_name : "this machine", count[FW_FINDING_BROKEN],
                            count[FW_FINDING_WARNING], fw_plural(count[FW_FINDING_WARNING]), count[FW_FINDING_NOTE],
                            fw_plural(count[FW_FINDING_NOTE]));
}

static fw_status add_json(fw_strbuf *text, const fw_findings *f, const fw_machine *m, int exit_code) {
    fw_status status = FW_OK;
    json_t *root =
        json_pack("{s:s, s:i, s:[], s:[]}", "host", m->host_name, "exit_code", exit_code, "findings", "checks");
    json_t *list = json_object_get(root, "findings"), *checks = json_object_get(root, "checks");
    int failed = root == NULL;
    for (int i = 0; i < f->n && !failed; i++)
        failed = json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "level", level_names[f->item[i].level],
                                                       "check", f->item[i].check, "text", f->item[i].text, "remedy",
                                                       f->item[i].remedy));
    for (size_t i = 0; fw_check_at(i) != NULL && !failed; i++)
        failed = json_array_append_new(checks, json_pack("{s:s, s:s, s:b}", "name", fw_check_at(i)->name, "about",
                                                         fw_check_at(i)->about, "fine",
                                                         (int)!has_finding(f, fw_check_at(i)->name)));
    status = failed ? fw_fail(FW_ERR_NOMEM, "no memory for the findings") : fw_json_dump(text, root, JSON_INDENT(2));
    if (status == FW_OK) status = fw_strbuf_putc(text, '\n');
    json_decref(root);
    return status;
}

/* ---- */

fw_status fw_cli_doctor(const fw_options *o) {
    static const int exit_codes[] = {0, 1, 2};
    char plugin_error[PLUGIN_ERROR_BYTES];
    fw_machine *m;
    fw_findings found = {0};
    fw_strbuf text = {0};
    fw_doctor_context context = {.other_hosts = o->hosts != NULL, .checkpoint_keep_n = o->save_total_limit};
    fw_status status;
    if (o->hosts != NULL && o->hosts[strspn(o->hosts, ", ")] == 0)
        return fw_fail(FW_ERR_OPTION, "hosts is \"%.40s\", which names none: give names with commas between", o->hosts);
    FW_TRY(fw_cli_machine(&m, o, o->hosts != NULL ? o->hosts : ""));
    if (m->host_n > 1) context.other_hosts = true; /* a snapshot that was taken for a job of several */
    if (m->gpu_n > 0) ask_plugin(&context, plugin_error, o->from == NULL);
    FW_TRY_OR(ask_model(&context, o), done);
    FW_TRY_OR(ask_disk(&context, o), done);
    FW_TRY_OR(fw_doctor_run(&found, m, &context), done);
    const int worst = fw_findings_worst(&found), exit_code = worst < 0 ? 0 : exit_codes[worst];
    if (o->json)
        FW_TRY_OR(add_json(&text, &found, m, exit_code), done);
    else
        FW_TRY_OR(add_text(&text, &found, m), done);
    FW_TRY_OR(fw_terminal_write(fw_strbuf_text(&text), text.len_bytes), done);
    fw_cli_set_exit_code(exit_code);
done:
    fw_strbuf_fini(&text);
    fw_findings_fini(&found);
    fw_machine_destroy(m);
    return status;
}
