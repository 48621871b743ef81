#include "comm/comm.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Value of a whole-number variable; FW_ERR_OPTION with its name when it is something else or out of bounds. */
static fw_status read_number(const char *name, const char *text, int minimum, int maximum, int *out) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != 0 || errno != 0 || value < minimum || value > maximum)
        return fw_fail(FW_ERR_OPTION, "environment: %s=%.60s must be a whole number from %d to %d", name, text, minimum,
                       maximum);
    *out = (int)value;
    return FW_OK;
}

static const char *get(const char *name) {
    const char *text = getenv(name);
    return text != NULL && text[0] != 0 ? text : NULL;
}

static fw_status need(const char *name, const char *set, const char **text) {
    *text = get(name);
    if (*text == NULL)
        return fw_fail(FW_ERR_OPTION, "environment: %s is set but %s is not; a launcher sets both (or unset all)", set,
                       name);
    return FW_OK;
}

static fw_status read_address(fw_comm_options *out) {
    const char *address, *port;
    FW_TRY(need("MASTER_ADDR", "WORLD_SIZE", &address));
    FW_TRY(need("MASTER_PORT", "WORLD_SIZE", &port));
    if (strlen(address) >= sizeof out->master_address)
        return fw_fail(FW_ERR_OPTION, "environment: MASTER_ADDR is longer than %zu bytes",
                       sizeof out->master_address - 1);
    snprintf(out->master_address, sizeof out->master_address, "%s", address);
    FW_TRY(read_number("MASTER_PORT", port, 1, 65535, &out->master_port));
    const char *agent = get("TORCHELASTIC_USE_AGENT_STORE");
    if (agent != NULL && strcmp(agent, "True") == 0) {
        /* torchrun's agent keeps MASTER_PORT for itself. */
        out->master_port = out->master_port < 65500 ? out->master_port + 1 : 49152;
        out->port_tries = 8;
    }
    return FW_OK;
}

/* What our own launcher adds. */
static fw_status read_own_launcher(fw_comm_options *out) {
    const char *secret = get("FINEWIRE_JOB_SECRET"), *listen_fd = get("FINEWIRE_LISTEN_FD");
    if (secret == NULL) return FW_OK;
    if (strlen(secret) >= sizeof out->secret)
        return fw_fail(FW_ERR_OPTION, "environment: FINEWIRE_JOB_SECRET is longer than %zu bytes",
                       sizeof out->secret - 1);
    snprintf(out->secret, sizeof out->secret, "%s", secret);
    out->own_launcher = 1;
    if (listen_fd != NULL && out->rank == 0)
        FW_TRY(read_number("FINEWIRE_LISTEN_FD", listen_fd, 3, INT_MAX, &out->listen_fd));
    return FW_OK;
}

/* mpirun gives its job a name that all ranks see and no other job of this host has; nothing else may be given. A port
 * and a secret are made of it. FNV-1a. */
static void guess_address(fw_comm_options *out) {
    const char *name = get("PMIX_NAMESPACE");
    if (name == NULL) name = get("OMPI_MCA_ess_base_jobid");
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *p = name != NULL ? name : ""; *p != 0; p++) hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    snprintf(out->master_address, sizeof out->master_address, "127.0.0.1");
    out->master_port = 20000 + (int)(hash % 20000);
    out->port_tries = 8;
    snprintf(out->secret, sizeof out->secret, "mpirun-%016llx", (unsigned long long)hash);
    out->address_is_guess = 1;
}

/* Open MPI's mpirun. */
static fw_status read_mpirun(fw_comm_options *out) {
    const char *rank = get("OMPI_COMM_WORLD_RANK"), *world = get("OMPI_COMM_WORLD_SIZE"), *text;
    FW_TRY(need("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", &rank));
    FW_TRY(read_number("OMPI_COMM_WORLD_SIZE", world, 1, FW_COMM_MAX_WORLD, &out->world));
    FW_TRY(read_number("OMPI_COMM_WORLD_RANK", rank, 0, out->world - 1, &out->rank));
    FW_TRY(need("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE", &text));
    FW_TRY(read_number("OMPI_COMM_WORLD_LOCAL_SIZE", text, 1, out->world, &out->local_world));
    FW_TRY(need("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", &text));
    FW_TRY(read_number("OMPI_COMM_WORLD_LOCAL_RANK", text, 0, out->local_world - 1, &out->local_rank));
    out->by_mpirun = 1;
    if (out->world == 1) return FW_OK;
    if (get("MASTER_ADDR") != NULL && get("MASTER_PORT") != NULL) return read_address(out);
    guess_address(out);
    return FW_OK;
}

fw_status fw_comm_options_from_environment(fw_comm_options *out, int *found) {
    *out = (fw_comm_options){.world = 1, .local_world = 1};
    *found = 0;
    const char *rank = get("RANK"), *world = get("WORLD_SIZE");
    const char *local_rank = get("LOCAL_RANK"), *local_world = get("LOCAL_WORLD_SIZE");
    if (rank == NULL && world == NULL && get("OMPI_COMM_WORLD_SIZE") != NULL) {
        *found = 1;
        return read_mpirun(out);
    }
    if (rank == NULL && world == NULL && local_rank == NULL) return FW_OK;
    const char *set = rank != NULL ? "RANK" : world != NULL ? "WORLD_SIZE" : "LOCAL_RANK";
    FW_TRY(need("WORLD_SIZE", set, &world));
    FW_TRY(need("RANK", set, &rank));
    FW_TRY(read_number("WORLD_SIZE", world, 1, FW_COMM_MAX_WORLD, &out->world));
    FW_TRY(read_number("RANK", rank, 0, out->world - 1, &out->rank));
    out->local_rank = out->rank;
    out->local_world = out->world;
    if (local_world != NULL) FW_TRY(read_number("LOCAL_WORLD_SIZE", local_world, 1, out->world, &out->local_world));
    if (local_rank != NULL) FW_TRY(read_number("LOCAL_RANK", local_rank, 0, out->local_world - 1, &out->local_rank));
    if (out->world > 1) FW_TRY(read_address(out));
    FW_TRY(read_own_launcher(out));
    *found = 1;
    return FW_OK;
}
