/* The set of measurements: adding, finding, and times between the points. The file: measured_file.c. */
#include "machine/measured.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[FW_MEASURED_WHAT_N] = {
    [FW_MEASURED_ALL_REDUCE] = "all_reduce",
    [FW_MEASURED_ALL_GATHER] = "all_gather",
    [FW_MEASURED_REDUCE_SCATTER] = "reduce_scatter",
    [FW_MEASURED_BROADCAST] = "broadcast",
    [FW_MEASURED_ALL_TO_ALL] = "all_to_all",
    [FW_MEASURED_GEMM] = "gemm",
    [FW_MEASURED_MEMCPY] = "memcpy",
    [FW_MEASURED_UPDATE] = "update",
    [FW_MEASURED_DISK_WRITE] = "disk_write",
    [FW_MEASURED_DISK_READ] = "disk_read",
};

const char *fw_measured_name(fw_measured_what what) {
    FW_ASSERT(what >= 0 && what < FW_MEASURED_WHAT_N);
    return names[what];
}

void fw_measured_fini(fw_measured *m) {
    fw_free(m->record);
    *m = (fw_measured){0};
}

/* "model name : ..." on x86-64; arm64 has no such line, and the machine's kind must do. */
static void cpu_model(char *out, size_t bytes) {
    snprintf(out, bytes, "unknown CPU");
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (f == NULL) return;
    char line[256];
    while (fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL || (strncmp(line, "model name", 10) != 0 && strncmp(line, "CPU part", 8) != 0)) continue;
        snprintf(out, bytes, "%s", colon + 1 + strspn(colon + 1, " \t"));
        out[strcspn(out, "\n")] = 0;
        break;
    }
    fclose(f);
}

void fw_measured_host(char out[FW_MEASURED_TEXT_BYTES]) {
    char name[65] = "", model[128];
    if (gethostname(name, sizeof name - 1) != 0 || name[0] == 0) snprintf(name, sizeof name, "localhost");
    cpu_model(model, sizeof model);
    const long cpu_n = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(out, FW_MEASURED_TEXT_BYTES, "%s: %s, %ld CPU%s", name, model, cpu_n, cpu_n == 1 ? "" : "s");
}

static bool same(const fw_measured_key *a, const fw_measured_key *b) {
    return a->what == b->what && strcmp(a->host, b->host) == 0 && strcmp(a->device, b->device) == 0 &&
           strcmp(a->transport, b->transport) == 0 && a->world == b->world && a->thread_n == b->thread_n &&
           a->dtype == b->dtype;
}

fw_status fw_measured_put(fw_measured *m, const fw_measured_record *record) {
    int place = 0;
    while (place < m->record_n && !same(&m->record[place].key, &record->key)) place++;
    if (place < m->record_n) { /* the newest stands last */
        memmove(&m->record[place], &m->record[place + 1], (size_t)(m->record_n - place - 1) * sizeof *m->record);
        m->record[m->record_n - 1] = *record;
        return FW_OK;
    }
    if (m->record_n == FW_MEASURED_RECORDS)
        return fw_fail(FW_ERR_INPUT, "%d measurements are held already; remove the file and measure anew",
                       FW_MEASURED_RECORDS);
    FW_TRY(FW_GROW_ARRAY(m->record, (size_t)m->record_n + 1));
    m->record[m->record_n++] = *record;
    return FW_OK;
}

static bool fits_text(const char *wanted, const char *text) { return wanted[0] == 0 || strcmp(wanted, text) == 0; }

static bool fits(const fw_measured_key *wanted, const fw_measured_key *key) {
    return wanted->what == key->what && fits_text(wanted->host, key->host) && fits_text(wanted->device, key->device) &&
           fits_text(wanted->transport, key->transport) && (wanted->world == 0 || wanted->world == key->world) &&
           (wanted->thread_n == 0 || wanted->thread_n == key->thread_n) &&
           (wanted->dtype == FW_DTYPE_N || wanted->dtype == key->dtype);
}

const fw_measured_record *fw_measured_find(const fw_measured *m, const fw_measured_key *key) {
    for (int i = m->record_n - 1; i >= 0; i--)
        if (fits(key, &m->record[i].key)) return &m->record[i];
    return NULL;
}

double fw_measured_seconds(const fw_measured_record *record, double amount) {
    const fw_measured_point *p = record->point;
    const int last = record->point_n - 1;
    if (amount <= 0) return 0;
    if (amount <= p[0].amount) return p[0].seconds;
    if (amount >= p[last].amount) return p[last].seconds * (amount / p[last].amount);
    int i = 1;
    while (amount > p[i].amount) i++;
    const double part = (amount - p[i - 1].amount) / (p[i].amount - p[i - 1].amount);
    return p[i - 1].seconds + part * (p[i].seconds - p[i - 1].seconds);
}

double fw_measured_rate(const fw_measured_record *record) {
    double best = 0;
    for (int i = 0; i < record->point_n; i++) {
        const double rate = record->point[i].amount / record->point[i].seconds;
        if (rate > best) best = rate;
    }
    return best;
}
