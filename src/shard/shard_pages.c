/* Pages of the weights, before they are read. The system needs as long to give a page as a thread to fill it, and whoever is about
 * to load waits for disks and parses meanwhile. */
#include "base/host.h"
#include "shard/shard_internal.h"
#include "shard/shard_record.h"

enum { PIECE_BYTES = 1 << 20 }; /* as much as a load may have to wait for */

static void take_part(fw_shard *s, char *part, size_t bytes) {
    for (size_t at = 0; at < bytes && !atomic_load(&s->pages.stop); at += PIECE_BYTES)
        fw_host_take_pages(part + at, bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
}

static fw_status take(void *context) {
    fw_shard *s = context;
    for (int32_t b = 0; b < s->layout.bucket_n; b++) {
        char *record;
        FW_TRY(fw_shard_record_open(s, b, FW_RECORD_READ, &record)); /* it stays where it is */
        char *part = (char *)fw_shard_master_part(s, b, record);
        take_part(s, part, part == NULL ? 0 : (size_t)fw_shard_bucket(s, b)->part_n * sizeof(float));
    }
    return FW_OK;
}

void fw_shard_expect_load(fw_shard *s, const fw_threads *pool) {
    if (fw_shard_state_stays(s)) fw_behind_start(&s->pages.thread, take, s, pool);
}

void fw_shard_end_pages(fw_shard *s) {
    atomic_store(&s->pages.stop, true);
    (void)fw_behind_wait(&s->pages.thread); /* whether it came to the end or not */
}
