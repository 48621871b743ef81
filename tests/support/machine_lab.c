#include "support/machine_lab.h"

#include "base/alloc.h"
#include "base/file.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

fw_machine *fw_test_machine(const char *name) {
    char path[PATH_BYTES];
    fw_machine *m;
    snprintf(path, sizeof path, "%s/tests/data/machine/%s.json", FW_SOURCE_DIR, name);
    if (fw_machine_load(&m, path) != FW_OK) fail_msg("%s", fw_trail_message());
    return m;
}

void fw_test_set_variable(fw_machine *m, const char *name, const char *value) {
    for (int i = 0; i < m->setting_n; i++) {
        fw_free(m->setting[i].name);
        fw_free(m->setting[i].value);
        fw_free(m->setting[i].file);
    }
    fw_free(m->setting);
    m->setting_n = 0;
    assert_int_equal(FW_NEW_ARRAY(m->setting, 1), FW_OK);
    m->setting_n = 1;
    assert_int_equal(fw_strdup(&m->setting[0].name, name), FW_OK);
    assert_int_equal(fw_strdup(&m->setting[0].value, value), FW_OK);
}

/* ---- the doctor ---- */

static fw_findings run_check(const char *name, const fw_machine *m, const fw_doctor_context *c) {
    static const fw_doctor_context nothing;
    fw_findings found = {.check = name};
    for (size_t i = 0; fw_check_at(i) != NULL; i++)
        if (strcmp(fw_check_at(i)->name, name) == 0) {
            assert_int_equal(fw_check_at(i)->run(&found, m, c != NULL ? c : &nothing), FW_OK);
            return found;
        }
    fail_msg("there is no check %s", name);
    return found;
}

void fw_test_finds(const char *check, fw_finding_level level, const char *part, const fw_machine *m,
                   const fw_doctor_context *c) {
    fw_findings found = run_check(check, m, c);
    bool seen = false;
    for (int i = 0; i < found.n; i++) {
        const fw_finding *f = &found.item[i];
        assert_true(f->text[0] != 0 && f->remedy[0] != 0);
        seen = seen || (f->level == level && (strstr(f->text, part) != NULL || strstr(f->remedy, part) != NULL));
    }
    for (int i = 0; i < found.n && !seen; i++)
        print_error("%s found: %d %s [%s]\n", check, (int)found.item[i].level, found.item[i].text,
                    found.item[i].remedy);
    if (!seen) fail_msg("%s does not find \"%s\" at level %d", check, part, (int)level);
    fw_findings_fini(&found);
}

void fw_test_finds_nothing(const char *check, const fw_machine *m, const fw_doctor_context *c) {
    fw_findings found = run_check(check, m, c);
    if (found.n > 0) fail_msg("%s finds: %s [%s]", check, found.item[0].text, found.item[0].remedy);
    fw_findings_fini(&found);
}

/* ---- folders ---- */

/* root + path, its folder made. */
static void place(char out[PATH_BYTES], const char *root, const char *path) {
    char folder[PATH_BYTES];
    snprintf(out, PATH_BYTES, "%s%s", root, path);
    snprintf(folder, sizeof folder, "%s", out);
    *strrchr(folder, '/') = 0;
    assert_int_equal(fw_dir_make(folder), FW_OK);
}

void fw_test_lay_bytes(const char *root, const char *path, const void *bytes, size_t n_bytes) {
    char whole[PATH_BYTES];
    place(whole, root, path);
    fw_test_write(whole, bytes, n_bytes);
}

void fw_test_lay_text(const char *root, const char *path, const char *text) {
    fw_test_lay_bytes(root, path, text, strlen(text));
}

void fw_test_lay_link(const char *root, const char *path, const char *to) {
    char whole[PATH_BYTES], target[PATH_BYTES];
    place(whole, root, path);
    snprintf(target, sizeof target, "%s%s", root, to);
    assert_int_equal(symlink(target, whole), 0);
}

static void lay_fact(const char *root, const char *folder, const char *file, const char *text) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.700s/%.64s", folder, file);
    fw_test_lay_text(root, path, text);
}

void fw_test_lay_pci(const char *root, const char *where, const char *class, const char *vendor, int numa) {
    char folder[PATH_BYTES], link[PATH_BYTES], node[16];
    snprintf(folder, sizeof folder, "/sys/devices/%s", where);
    snprintf(link, sizeof link, "/sys/bus/pci/devices/%s", strrchr(where, '/') + 1);
    snprintf(node, sizeof node, "%d\n", numa);
    lay_fact(root, folder, "class", class);
    lay_fact(root, folder, "vendor", vendor);
    lay_fact(root, folder, "numa_node", node);
    lay_fact(root, folder, "current_link_speed", "16.0 GT/s PCIe\n");
    lay_fact(root, folder, "max_link_speed", "16.0 GT/s PCIe\n");
    lay_fact(root, folder, "current_link_width", "16\n");
    lay_fact(root, folder, "max_link_width", "16\n");
    fw_test_lay_link(root, link, folder);
}
