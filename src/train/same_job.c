#include "train/same_job.h"

#include "base/alloc.h"
#include "base/json.h"

#include <string.h>

/* What may differ between ranks. */
static bool is_of_one_rank(const char *name) {
    static const char *const names[] = {"num_processes", "num_threads", "disable_tqdm"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static fw_status name_difference(fw_comm *comm, const char *name, const json_t *mine, const json_t *theirs) {
    char *text[2] = {json_dumps(mine, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)),
                     json_dumps(theirs, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6))};
    fw_status status =
        fw_fail(FW_ERR_OPTION,
                "rank %d was started with %s %.200s, rank 0 with %.200s: start all ranks with the same "
                "options",
                fw_comm_rank(comm), name, text[0] == NULL ? "?" : text[0], text[1] == NULL ? "?" : text[1]);
    fw_free(text[0]);
    fw_free(text[1]);
    return status;
}

static fw_status compare(fw_comm *comm, const json_t *mine, const char *rank0_text, size_t bytes) {
    json_error_t error;
    json_t *rank0 = json_loadb(rank0_text, bytes, 0, &error);
    if (rank0 == NULL) return fw_fail(FW_ERR_NOMEM, "the options of rank 0 could not be read: %s", error.text);
    fw_status status = FW_OK;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)mine, name, value) {
        const json_t *theirs = json_object_get(rank0, name);
        if (theirs != NULL && (json_equal(value, theirs) || is_of_one_rank(name))) continue;
        status = name_difference(comm, name, value, theirs);
        break;
    }
    json_decref(rank0);
    return status;
}

/* Rank 0's text goes to all; its length first. */
static fw_status share_text(fw_comm *comm, char **text, size_t *bytes) {
    int64_t mine = (int64_t)*bytes, all[FW_COMM_MAX_WORLD];
    FW_TRY(fw_comm_exchange(comm, all, &mine, sizeof mine));
    if (fw_comm_rank(comm) != 0) {
        fw_free(*text);
        *text = NULL;
        *bytes = (size_t)all[0];
        FW_TRY(FW_NEW_ARRAY(*text, *bytes + 1));
    }
    fw_comm_request request = {.label = "options"};
    FW_TRY(fw_comm_broadcast(comm, *text, *bytes, 0, &request));
    return fw_comm_wait(comm, &request);
}

fw_status fw_same_options(fw_comm *comm, const fw_options *options) {
    if (fw_comm_world(comm) == 1) return FW_OK;
    json_t *mine = NULL;
    char *text = NULL;
    size_t bytes = 0;
    fw_status status = fw_options_to_json(&mine, options);
    if (status == FW_OK && (text = json_dumps(mine, JSON_COMPACT)) == NULL)
        status = fw_fail(FW_ERR_NOMEM, "out of memory while comparing the options of the ranks");
    FW_TRY_OR(fw_comm_agree(comm, status), done);
    bytes = strlen(text);
    FW_TRY_OR(share_text(comm, &text, &bytes), done);
    FW_TRY_OR(fw_comm_agree(comm, fw_comm_rank(comm) == 0 ? FW_OK : compare(comm, mine, text, bytes)), done);
done:
    json_decref(mine);
    fw_free(text);
    return status;
}

fw_status fw_same_content(fw_comm *comm, uint64_t hash, const char *what, const char *path) {
    uint64_t all[FW_COMM_MAX_WORLD];
    FW_TRY(fw_comm_exchange(comm, all, &hash, sizeof hash));
    fw_status status = FW_OK;
    if (all[0] != hash)
        status = fw_fail(FW_ERR_OPTION, "rank %d has read other %s from %s than rank 0: give all ranks the same file",
                         fw_comm_rank(comm), what, path);
    return fw_comm_agree(comm, status);
}
