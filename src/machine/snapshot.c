/* A snapshot as JSON: the fields by their tables (fields.h), and what joins two things as matrices. */
#include "machine/snapshot.h"

#include "base/alloc.h"
#include "machine/fields.h"
#include "machine/sysfs.h"

#include <string.h>

#define FORMAT "finewire machine 1"
enum { FILE_BYTES = 16 << 20, WHERE_BYTES = 512 };

static fw_status no_memory(void) { return fw_fail(FW_ERR_NOMEM, "no memory for the snapshot of the machine"); }

/* ---- writing: lists ---- */

static fw_status put(json_t *root, const char *key, json_t *value) {
    return value != NULL && json_object_set_new(root, key, value) == 0 ? FW_OK : no_memory();
}

static fw_status append(json_t *list, json_t *value) {
    return value != NULL && json_array_append_new(list, value) == 0 ? FW_OK : no_memory();
}

/* n structures of `bytes` each; nothing for none. */
static fw_status put_list(json_t *root, const char *key, const void *first, int n, size_t bytes,
                          const fw_field *fields) {
    if (n == 0) return FW_OK;
    json_t *list = json_array();
    FW_TRY(put(root, key, list));
    for (int i = 0; i < n; i++) {
        json_t *one;
        FW_TRY(fw_fields_write(&one, (const char *)first + (size_t)i * bytes, fields));
        FW_TRY(append(list, one));
    }
    return FW_OK;
}

static fw_status put_object(json_t *root, const char *key, const void *object, const fw_field *fields) {
    json_t *one;
    FW_TRY(fw_fields_write(&one, object, fields));
    return put(root, key, one);
}

static fw_status put_processes(json_t *root, const fw_machine *m) {
    json_t *list = json_object_get(root, "gpus");
    for (int g = 0; g < m->gpu_n; g++) {
        int n = m->gpu[g].process_n;
        if (n > FW_MACHINE_PROCESS_CAP) n = FW_MACHINE_PROCESS_CAP;
        if (n > 0)
            FW_TRY(put_list(json_array_get(list, (size_t)g), "processes", m->gpu[g].process, n,
                            sizeof m->gpu[g].process[0], fw_machine_process_fields));
    }
    return FW_OK;
}

/* "NAME": "value" of the environment; {"value", "file"} of NCCL's files. */
static fw_status put_settings(json_t *root, const fw_machine *m) {
    if (m->setting_n == 0) return FW_OK;
    json_t *object = json_object();
    FW_TRY(put(root, "environment", object));
    for (int i = 0; i < m->setting_n; i++) {
        const fw_machine_setting *s = &m->setting[i];
        FW_TRY(
            put(object, s->name,
                s->file == NULL ? json_string(s->value) : json_pack("{s:s, s:s}", "value", s->value, "file", s->file)));
    }
    return FW_OK;
}

/* ---- the whole ---- */

static fw_status fill(json_t *root, const fw_machine *m) {
    json_t *top;
    FW_TRY(put(root, "format", json_string(FORMAT)));
    FW_TRY(fw_fields_write(&top, m, fw_machine_fields));
    const int failed = json_object_update(root, top);
    json_decref(top);
    if (failed != 0) return no_memory();
    FW_TRY(put_object(root, "driver", &m->driver, fw_machine_driver_fields));
    FW_TRY(put_list(root, "gpus", m->gpu, m->gpu_n, sizeof *m->gpu, fw_machine_gpu_fields));
    FW_TRY(put_processes(root, m));
    FW_TRY(put_list(root, "nics", m->nic, m->nic_n, sizeof *m->nic, fw_machine_nic_fields));
    FW_TRY(fw_snapshot_put_matrices(root, m));
    FW_TRY(put_object(root, "cpu", &m->cpu, fw_machine_cpu_fields));
    FW_TRY(put_list(root, "numa", m->numa, m->numa_n, sizeof *m->numa, fw_machine_numa_fields));
    FW_TRY(put_list(root, "bridges", m->bridge, m->bridge_n, sizeof *m->bridge, fw_machine_bridge_fields));
    FW_TRY(put_list(root, "hosts", m->host, m->host_n, sizeof *m->host, fw_machine_host_fields));
    return put_settings(root, m);
}

fw_status fw_machine_to_json(json_t **out, const fw_machine *m) {
    *out = json_object();
    if (*out == NULL) return no_memory();
    const fw_status status = fill(*out, m);
    if (status == FW_OK) return FW_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}

fw_status fw_machine_save(const fw_machine *m, const char *path) {
    json_t *root;
    FW_TRY(fw_machine_to_json(&root, m));
    const fw_status status = fw_json_save(root, path);
    json_decref(root);
    return status;
}

/* ---- reading: lists ---- */

static fw_status list_size(int *n, const json_t *root, const char *key, int cap, const char *where) {
    const json_t *list = json_object_get(root, key);
    *n = 0;
    if (list == NULL) return FW_OK;
    if (!json_is_array(list) || json_array_size(list) > (size_t)cap)
        return fw_fail(FW_ERR_INPUT, "%s: %s must be a list of at most %d", where, key, cap);
    *n = (int)json_array_size(list);
    return FW_OK;
}

static fw_status take_list(void *first, int n, size_t bytes, const json_t *root, const char *key,
                           const fw_field *fields, const char *const *extra, const char *where) {
    char place[WHERE_BYTES];
    for (int i = 0; i < n; i++) {
        snprintf(place, sizeof place, "%.400s: %s[%d]", where, key, i);
        FW_TRY(fw_fields_read((char *)first + (size_t)i * bytes, json_array_get(json_object_get(root, key), (size_t)i),
                              fields, extra, place));
    }
    return FW_OK;
}

static fw_status take_object(void *object, const json_t *root, const char *key, const fw_field *fields,
                             const char *where) {
    char place[WHERE_BYTES];
    const json_t *from = json_object_get(root, key);
    snprintf(place, sizeof place, "%.400s: %s", where, key);
    return from != NULL ? fw_fields_read(object, from, fields, NULL, place) : FW_OK;
}

static fw_status take_processes(fw_machine *m, const json_t *root, const char *where) {
    for (int g = 0; g < m->gpu_n; g++) {
        const json_t *gpu = json_array_get(json_object_get(root, "gpus"), (size_t)g);
        char place[WHERE_BYTES];
        int n;
        snprintf(place, sizeof place, "%.400s: gpus[%d]", where, g);
        FW_TRY(list_size(&n, gpu, "processes", FW_MACHINE_PROCESS_CAP, place));
        FW_TRY(take_list(m->gpu[g].process, n, sizeof m->gpu[g].process[0], gpu, "processes", fw_machine_process_fields,
                         NULL, place));
        if (m->gpu[g].process_n < n && n > 0) m->gpu[g].process_n = n;
        const int listed = m->gpu[g].process_n < FW_MACHINE_PROCESS_CAP ? m->gpu[g].process_n : FW_MACHINE_PROCESS_CAP;
        for (int i = n; i < listed; i++) fw_fields_clear(&m->gpu[g].process[i], fw_machine_process_fields);
    }
    return FW_OK;
}

static fw_status take_settings(fw_machine *m, const json_t *root, const char *where) {
    enum { SETTING_CAP = 512 };
    const json_t *object = json_object_get(root, "environment");
    if (object == NULL) return FW_OK;
    if (!json_is_object(object) || json_object_size(object) > SETTING_CAP)
        return fw_fail(FW_ERR_INPUT, "%s: environment must be an object of at most %d variables", where, SETTING_CAP);
    FW_TRY(FW_NEW_ARRAY(m->setting, json_object_size(object)));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "value") : value);
        const char *file = json_string_value(json_object_get(value, "file"));
        char clean[256];
        if (text == NULL || (json_is_object(value) && file == NULL))
            return fw_fail(FW_ERR_INPUT, "%s: environment: %.60s must be a text, or a value and a file", where, key);
        fw_machine_setting *setting = &m->setting[m->setting_n++];
        fw_sysfs_clean(clean, sizeof clean, key, strlen(key));
        FW_TRY(fw_strdup(&setting->name, clean));
        fw_sysfs_clean(clean, sizeof clean, text, strlen(text));
        FW_TRY(fw_strdup(&setting->value, clean));
        if (file == NULL) continue;
        fw_sysfs_clean(clean, sizeof clean, file, strlen(file));
        FW_TRY(fw_strdup(&setting->file, clean));
    }
    return FW_OK;
}

/* ---- */

#define TAKE_LIST(m, root, key, field, cap, fields, where)                                                             \
    do {                                                                                                               \
        int list_n_;                                                                                                   \
        FW_TRY(list_size(&list_n_, root, key, cap, where));                                                            \
        FW_TRY(FW_NEW_ARRAY((m)->field, (size_t)list_n_));                                                             \
        (m)->field##_n = list_n_;                                                                                      \
        FW_TRY(take_list((m)->field, list_n_, sizeof *(m)->field, root, key, fields, NULL, where));                    \
    } while (0)

static fw_status take_gpus(fw_machine *m, const json_t *root, const char *where) {
    static const char *const extra[] = {"processes", NULL};
    int n;
    FW_TRY(list_size(&n, root, "gpus", FW_MACHINE_GPU_CAP, where));
    FW_TRY(FW_NEW_ARRAY(m->gpu, (size_t)n));
    FW_TRY(FW_NEW_ARRAY(m->pair, (size_t)n * (size_t)n));
    m->gpu_n = n;
    FW_TRY(take_list(m->gpu, n, sizeof *m->gpu, root, "gpus", fw_machine_gpu_fields, extra, where));
    for (int i = 0; i < n; i++) {
        m->pair[i * n + i].level = FW_LEVEL_SELF;
        if (m->gpu[i].index < 0) m->gpu[i].index = i;
    }
    return take_processes(m, root, where);
}

static fw_status take(fw_machine *m, const json_t *root, const char *where) {
    static const char *const extra[] = {"format",  "driver",   "gpus",        "nvswitch",   "nics", "pcie",
                                        "nvlinks", "p2p_read", "p2p_write",   "nic_to_gpu", "cpu",  "numa",
                                        "bridges", "hosts",    "environment", NULL};
    const char *format;
    if (!json_is_object(root)) return fw_fail(FW_ERR_INPUT, "%s is not a JSON object", where);
    FW_TRY(fw_json_get_string(&format, root, "format", "", where));
    if (strcmp(format, FORMAT) != 0)
        return fw_fail(FW_ERR_INPUT,
                       "%s is no snapshot of a machine: its format must be \"%s\"; finewire topo --snapshot FILE "
                       "writes one",
                       where, FORMAT);
    FW_TRY(fw_fields_read(m, root, fw_machine_fields, extra, where));
    FW_TRY(take_object(&m->driver, root, "driver", fw_machine_driver_fields, where));
    FW_TRY(take_object(&m->cpu, root, "cpu", fw_machine_cpu_fields, where));
    FW_TRY(take_gpus(m, root, where));
    TAKE_LIST(m, root, "nics", nic, FW_MACHINE_NIC_CAP, fw_machine_nic_fields, where);
    FW_TRY(FW_NEW_ARRAY(m->nic_level, (size_t)m->nic_n * (size_t)m->gpu_n));
    TAKE_LIST(m, root, "numa", numa, FW_MACHINE_NUMA_CAP, fw_machine_numa_fields, where);
    TAKE_LIST(m, root, "bridges", bridge, FW_MACHINE_BRIDGE_CAP, fw_machine_bridge_fields, where);
    TAKE_LIST(m, root, "hosts", host, 1024, fw_machine_host_fields, where);
    FW_TRY(fw_snapshot_take_matrices(m, root, where));
    return take_settings(m, root, where);
}

fw_status fw_machine_from_json(fw_machine **out, const json_t *root, const char *where) {
    fw_machine *m;
    *out = NULL;
    FW_TRY(fw_machine_create(&m));
    const fw_status status = take(m, root, where);
    if (status != FW_OK) {
        fw_machine_destroy(m);
        return status;
    }
    *out = m;
    return FW_OK;
}

fw_status fw_machine_load(fw_machine **out, const char *path) {
    json_t *root;
    *out = NULL;
    FW_TRY(fw_json_load(&root, path, FILE_BYTES));
    const fw_status status = fw_machine_from_json(out, root, path);
    json_decref(root);
    return status;
}
