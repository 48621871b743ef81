/* What joins two things of a snapshot, as matrices: rows are texts like those of nvidia-smi topo -m. */
#include "machine/snapshot.h"

#include <stdio.h>
#include <string.h>

enum { ROW_BYTES = 1024 };

static fw_status no_memory(void) { return fw_fail(FW_ERR_NOMEM, "no memory for the snapshot of the machine"); }

/* The word of cell (a, b), and its meaning: false when the word has none. One pair of functions a matrix. */
typedef struct matrix {
    const char *key;
    int of_nics; /* rows are cards */
    const char *(*word)(const fw_machine *m, int a, int b, char out[12]);
    bool (*take)(fw_machine *m, int a, int b, const char *word);
} matrix;

static fw_machine_pair *cell(fw_machine *m, int a, int b) { return &m->pair[a * m->gpu_n + b]; }

static bool find_level(fw_machine_level *out, const char *word) {
    for (int i = 0; i < FW_LEVEL_N; i++)
        if (strcmp(word, fw_machine_level_name((fw_machine_level)i)) == 0) {
            *out = (fw_machine_level)i;
            return true;
        }
    return false;
}

static const char *level_word(const fw_machine *m, int a, int b, char out[12]) {
    (void)out;
    return fw_machine_level_name(fw_machine_pair_of(m, a, b)->level);
}
static bool take_level(fw_machine *m, int a, int b, const char *word) {
    fw_machine_level level;
    if (!find_level(&level, word) || (level == FW_LEVEL_SELF) != (a == b)) return false;
    cell(m, a, b)->level = level;
    return true;
}

static const char *nvlink_word(const fw_machine *m, int a, int b, char out[12]) {
    if (a == b) return "X";
    snprintf(out, 12, "%d", fw_machine_pair_of(m, a, b)->nvlink_n);
    return out;
}
static bool take_nvlink(fw_machine *m, int a, int b, const char *word) {
    if (a == b) return strcmp(word, "X") == 0;
    if (strlen(word) > 3 || strspn(word, "0123456789") != strlen(word)) return false;
    int n = 0;
    for (; *word != 0; word++) n = n * 10 + (*word - '0');
    cell(m, a, b)->nvlink_n = n;
    return true;
}

static const char *p2p_word(const fw_machine *m, int a, int b, fw_machine_p2p p2p) {
    (void)m;
    return a == b ? "X" : fw_machine_p2p_name(p2p);
}
static bool take_p2p(fw_machine_p2p *out, int a, int b, const char *word) {
    if (a == b) return strcmp(word, "X") == 0;
    for (int i = 0; i < FW_P2P_N; i++)
        if (strcmp(word, fw_machine_p2p_name((fw_machine_p2p)i)) == 0) {
            *out = (fw_machine_p2p)i;
            return true;
        }
    return false;
}
static const char *read_word(const fw_machine *m, int a, int b, char out[12]) {
    (void)out;
    return p2p_word(m, a, b, fw_machine_pair_of(m, a, b)->read);
}
static bool take_read(fw_machine *m, int a, int b, const char *word) {
    return take_p2p(&cell(m, a, b)->read, a, b, word);
}
static const char *write_word(const fw_machine *m, int a, int b, char out[12]) {
    (void)out;
    return p2p_word(m, a, b, fw_machine_pair_of(m, a, b)->write);
}
static bool take_write(fw_machine *m, int a, int b, const char *word) {
    return take_p2p(&cell(m, a, b)->write, a, b, word);
}

static const char *nic_word(const fw_machine *m, int a, int b, char out[12]) {
    (void)out;
    return fw_machine_level_name(m->nic_level[a * m->gpu_n + b]);
}
static bool take_nic(fw_machine *m, int a, int b, const char *word) {
    return find_level(&m->nic_level[a * m->gpu_n + b], word);
}

static const matrix matrices[] = {{"pcie", 0, level_word, take_level},
                                  {"nvlinks", 0, nvlink_word, take_nvlink},
                                  {"p2p_read", 0, read_word, take_read},
                                  {"p2p_write", 0, write_word, take_write},
                                  {"nic_to_gpu", 1, nic_word, take_nic}};
enum { MATRIX_N = sizeof matrices / sizeof *matrices };

static fw_status put_matrix(json_t *root, const fw_machine *m, const matrix *x) {
    const int row_n = x->of_nics ? m->nic_n : m->gpu_n;
    if (row_n == 0 || m->gpu_n == 0) return FW_OK;
    json_t *rows = json_array();
    if (rows == NULL || json_object_set_new(root, x->key, rows) != 0) return no_memory();
    for (int a = 0; a < row_n; a++) {
        char row[ROW_BYTES] = "", word[12];
        for (int b = 0; b < m->gpu_n; b++) {
            const size_t used = strlen(row);
            snprintf(row + used, sizeof row - used, b + 1 < m->gpu_n ? "%-4s " : "%s", x->word(m, a, b, word));
        }
        if (json_array_append_new(rows, json_string(row)) != 0) return no_memory();
    }
    return FW_OK;
}

static fw_status take_matrix(fw_machine *m, const json_t *root, const matrix *x, const char *where) {
    const json_t *rows = json_object_get(root, x->key);
    const int row_n = x->of_nics ? m->nic_n : m->gpu_n;
    if (rows == NULL) return FW_OK;
    if (json_array_size(rows) != (size_t)row_n || m->gpu_n == 0)
        return fw_fail(FW_ERR_INPUT, "%s: %s must be a list of %d rows", where, x->key, row_n);
    for (int a = 0; a < row_n; a++) {
        const char *at = json_string_value(json_array_get(rows, (size_t)a));
        for (int b = 0; at != NULL && b < m->gpu_n; b++) {
            char word[12] = "";
            at += strspn(at, " ");
            const size_t n = strcspn(at, " ");
            if (n < sizeof word) memcpy(word, at, n);
            at += n;
            if (!x->take(m, a, b, word)) at = NULL;
        }
        if (at == NULL || at[strspn(at, " ")] != 0)
            return fw_fail(FW_ERR_INPUT, "%s: row %d of %s must be %d words as finewire topo --json writes them", where,
                           a + 1, x->key, m->gpu_n);
    }
    return FW_OK;
}

fw_status fw_snapshot_put_matrices(json_t *root, const fw_machine *m) {
    bool nvswitch = false;
    for (int i = 0; i < m->gpu_n * m->gpu_n; i++) nvswitch = nvswitch || m->pair[i].nvswitch;
    if (nvswitch && json_object_set_new(root, "nvswitch", json_true()) != 0) return no_memory();
    for (int i = 0; i < MATRIX_N; i++) FW_TRY(put_matrix(root, m, &matrices[i]));
    return FW_OK;
}

fw_status fw_snapshot_take_matrices(fw_machine *m, const json_t *root, const char *where) {
    bool nvswitch;
    for (int i = 0; i < MATRIX_N; i++) FW_TRY(take_matrix(m, root, &matrices[i], where));
    FW_TRY(fw_json_get_bool(&nvswitch, root, "nvswitch", false, where));
    for (int i = 0; nvswitch && i < m->gpu_n * m->gpu_n; i++) m->pair[i].nvswitch = m->pair[i].nvlink_n > 0;
    return FW_OK;
}
