/* What a rank is about to do, for the others. */
#include "comm/mpi/mpi_internal.h"

#include <stdio.h>
#include <string.h>

void fw_mpi_fill_card(fw_mpi_card *card, const fw_comm *c, const char *call, const char *label, uint64_t number) {
    *card = (fw_mpi_card){
        .group = c->id, .first = c->first, .stride = c->stride, .world = c->options.world, .number = number};
    snprintf(card->call, sizeof card->call, "%s", call);
    if (label != NULL) memcpy(card->label, label, strnlen(label, sizeof card->label - 1));
}

/* "all_reduce 1 (layers.2) [ranks 1, 3]" */
static const char *title(char out[FW_COMM_TITLE_BYTES], const fw_comm *c, const fw_mpi_card *card) {
    const fw_comm group = {.options.world = card->world,
                           .first = card->first,
                           .stride = card->stride > 0 ? card->stride : 1,
                           .job = c->job};
    return fw_comm_title(out, card->group == 0 ? c->job->all : &group, card->call, card->label, card->number);
}

fw_status fw_mpi_check_group(const fw_comm *c, const fw_mpi_card *own, fw_mpi_card *other, int r) {
    char mine[FW_COMM_TITLE_BYTES], theirs[FW_COMM_TITLE_BYTES];
    const int me = c->job->all->options.rank, rank = fw_comm_job_rank(c, r);
    other->call[sizeof other->call - 1] = other->label[sizeof other->label - 1] = 0;
    if (other->group == own->group && other->first == own->first && other->world == own->world) return FW_OK;
    return fw_fail(FW_ERR_RANK,
                   "the ranks have diverged: rank %d waits in %s for rank %d, which waits in %s for rank %d", me,
                   title(mine, c, own), rank, title(theirs, c, other), me);
}
