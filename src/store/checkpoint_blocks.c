#include "store/checkpoint_blocks.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/host.h"

#include <inttypes.h>
#include <string.h>

/* READ_BYTES are read at a time and hashed while they are near; of what is not wanted whole, STRAY_BYTES, on the stack. */
enum { READ_BYTES = 1 << 18, STRAY_BYTES = 1 << 16, HASH_DIGITS = 16 };

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

fw_status fw_blocks_add(fw_block_list *list, const fw_block_file *from, const fw_manifest_piece *piece, int64_t first_n,
                        int64_t n, void *out) {
    const uint64_t size = from->block_bytes, piece_bytes = (uint64_t)piece->box.n * from->value_bytes;
    const uint64_t want = (uint64_t)first_n * from->value_bytes, want_end = want + (uint64_t)n * from->value_bytes;
    uint8_t *to = out;
    for (uint64_t k = want / size; k * size < want_end; k++) {
        const uint64_t begin = k * size, bytes = smaller(size, piece_bytes - begin);
        const uint64_t first = want > begin ? want - begin : 0, last = smaller(want_end - begin, bytes);
        if (list->block_n == list->cap_n) {
            const size_t cap_n = list->cap_n == 0 ? 64 : list->cap_n * 2;
            FW_TRY(FW_GROW_ARRAY(list->block, cap_n));
            list->cap_n = cap_n;
        }
        list->block[list->block_n++] = (fw_block){.from = *from,
                                                  .at_bytes = piece->start_bytes + begin,
                                                  .bytes = bytes,
                                                  .hash = piece->hashes + k * HASH_DIGITS,
                                                  .out = to,
                                                  .skip_bytes = first,
                                                  .take_bytes = to == NULL ? 0 : last - first};
        if (to != NULL) to += last - first;
    }
    return FW_OK;
}

void fw_blocks_fini(fw_block_list *list) {
    fw_free(list->block);
    *list = (fw_block_list){0};
}

static fw_status check(const fw_block *b, uint64_t is) {
    uint64_t said = 0;
    for (int i = 0; i < HASH_DIGITS; i++) /* the manifest's index has looked at them */
        said = said << 4 | (uint64_t)(b->hash[i] <= '9' ? b->hash[i] - '0' : b->hash[i] - 'a' + 10);
    if (is == said) return FW_OK;
    return fw_fail(FW_ERR_INPUT,
                   "%s is damaged: the checksum of %s, bytes %" PRIu64 " to %" PRIu64 " of the file, is %016" PRIx64
                   ", the manifest says %016" PRIx64,
                   b->from.path, b->from.tensor, b->at_bytes, b->at_bytes + b->bytes - 1, is, said);
}

/* All of the block into its place, hashed there. */
static fw_status read_whole(const fw_block *b, fw_hash *h) {
    fw_host_take_pages(b->out, b->bytes);
    for (uint64_t at = 0, take; at < b->bytes; at += take) {
        take = smaller(READ_BYTES, b->bytes - at);
        FW_TRY(fw_file_read_at(b->from.fd, b->out + at, take, b->at_bytes + at, b->from.path));
        fw_hash_update(h, b->out + at, take);
    }
    return FW_OK;
}

/* A block that is cut, or only looked at. */
static fw_status read_stray(const fw_block *b, fw_hash *h) {
    uint8_t near[STRAY_BYTES];
    for (uint64_t at = 0, take; at < b->bytes; at += take) {
        take = smaller(STRAY_BYTES, b->bytes - at);
        FW_TRY(fw_file_read_at(b->from.fd, near, take, b->at_bytes + at, b->from.path));
        fw_hash_update(h, near, take);
        const uint64_t from = b->skip_bytes > at ? b->skip_bytes : at;
        const uint64_t to = smaller(b->skip_bytes + b->take_bytes, at + take);
        if (from < to) memcpy(b->out + (from - b->skip_bytes), near + (from - at), to - from);
    }
    return FW_OK;
}

static fw_status read_block(const fw_block *b) {
    fw_hash h;
    fw_hash_init(&h);
    FW_TRY(b->take_bytes == b->bytes ? read_whole(b, &h) : read_stray(b, &h));
    return check(b, fw_hash_value(&h));
}

void fw_blocks_begin(fw_block_reading *r, const fw_block_list *list) {
    *r = (fw_block_reading){.list = list};
    pthread_mutex_init(&r->lock, NULL);
    atomic_init(&r->next, 0);
    atomic_init(&r->failed, list->block_n);
}

/* Blocks are begun in order, so the first bad one is always found, whatever the threads do. */
void fw_blocks_help(void *reading, int index, int thread_n) {
    fw_block_reading *r = reading;
    (void)index;
    (void)thread_n;
    for (size_t i; (i = atomic_fetch_add(&r->next, 1)) < atomic_load(&r->failed);) {
        fw_status status = read_block(&r->list->block[i]);
        if (status == FW_OK) continue;
        pthread_mutex_lock(&r->lock);
        if (i < atomic_load(&r->failed)) {
            r->status = status;
            fw_trail_copy(&r->trail);
            atomic_store(&r->failed, i);
        }
        pthread_mutex_unlock(&r->lock);
    }
}

void fw_blocks_stop(fw_block_reading *r) {
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->failed, 0);
    pthread_mutex_unlock(&r->lock);
}

fw_status fw_blocks_end(fw_block_reading *r) {
    pthread_mutex_destroy(&r->lock);
    if (r->status != FW_OK) fw_trail_restore(&r->trail);
    return r->status;
}

fw_status fw_blocks_read(const fw_block_list *list, fw_threads *threads) {
    fw_block_reading r;
    fw_blocks_begin(&r, list);
    fw_threads_run(list->block_n > 1 ? threads : NULL, fw_blocks_help, &r);
    return fw_blocks_end(&r);
}
