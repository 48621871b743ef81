#include "device/simt/simt_races.h"

#include "device/simt/simt.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#include <stdio.h>
#include <stdlib.h>
#include <vector>

#if !FW_SIMT_RACES

namespace fw_simt {
void races_start_block(void *, size_t, void *, size_t) {}
void races_block_barrier() {}
void races_warp_barrier(unsigned) {}
void races_copy_starts(const void *, size_t) {}
void races_copy_arrives(const void *, size_t) {}
} // namespace fw_simt

#else

namespace fw_simt {
namespace {

/* One access: by which thread, after how many barriers of its block (counted over all launches; 0: none) and warp. */
struct access {
    uint64_t epoch;
    unsigned warp_epoch;
    int thread;
};
/* What is known of a byte: the last write, the last read, and the last one by another warp than that. */
struct byte_state {
    access write, read, other_read;
    bool copying; /* cp.async has been started and not been waited for */
};
struct range {
    uintptr_t start;
    std::vector<byte_state> bytes;
};

range dynamic_range, fixed_range;
uint64_t epoch = 1;
unsigned warp_epoch[32];

access now() { return access{epoch, warp_epoch[here->linear / 32], here->linear}; }

/* Whether nothing orders that access before one by the running thread. */
bool is_unordered(const access &a) {
    if (a.epoch != epoch || a.thread == here->linear) return false;
    return a.thread / 32 != here->linear / 32 || a.warp_epoch == warp_epoch[here->linear / 32];
}

[[noreturn]] void report(const range *r, size_t at, const char *does, const access &by, const char *did) {
    char text[240];
    const bool same_warp = by.thread / 32 == here->linear / 32;
    snprintf(
        text, sizeof text,
        "this thread %s what thread %d %s, byte %zu of %s shared memory, with nothing between that orders them (is a "
        "%s missing?)",
        does, by.thread, did, at, r == &dynamic_range ? "dynamic" : "__shared__",
        by.thread == here->linear ? "wait for cp.async"
        : same_warp               ? "__syncwarp() or __syncthreads()"
                                  : "__syncthreads()");
    stop(text);
}

void read_byte(const range *r, size_t at, byte_state *b, const access &mine) {
    if (b->copying) report(r, at, "reads", b->write, "copies by cp.async");
    if (is_unordered(b->write)) report(r, at, "reads", b->write, "has written");
    if (b->read.thread / 32 != mine.thread / 32) b->other_read = b->read;
    b->read = mine;
}

void write_byte(const range *r, size_t at, byte_state *b, const access &mine) {
    if (b->copying) report(r, at, "overwrites", b->write, "copies by cp.async");
    if (is_unordered(b->write)) report(r, at, "overwrites", b->write, "has written");
    if (is_unordered(b->read)) report(r, at, "overwrites", b->read, "reads");
    if (is_unordered(b->other_read)) report(r, at, "overwrites", b->other_read, "reads");
    b->write = mine;
}

range *find(uintptr_t at) {
    if (here == nullptr) return nullptr;
    if (at - dynamic_range.start < dynamic_range.bytes.size()) return &dynamic_range;
    if (at - fixed_range.start < fixed_range.bytes.size()) return &fixed_range;
    return nullptr;
}

template <class Visit> void for_bytes(const void *p, size_t bytes, Visit visit) {
    range *r = find((uintptr_t)p);
    if (r == nullptr) return;
    const access mine = now();
    const size_t first = (uintptr_t)p - r->start;
    for (size_t i = first; i < first + bytes && i < r->bytes.size(); i++) visit(r, i, &r->bytes[i], mine);
}

void start_range(range *r, void *start, size_t bytes) {
    r->start = (uintptr_t)start;
    r->bytes.assign(bytes, byte_state());
}

} // namespace

void races_start_block(void *dynamic, size_t dynamic_bytes, void *fixed, size_t fixed_bytes) {
    const char *wanted = getenv("FW_SIMT_RACES");
    if (wanted != nullptr && strcmp(wanted, "0") == 0) dynamic_bytes = fixed_bytes = 0;
    /* The counter goes on, so what an earlier block left says nothing: only a copy nobody waited for must go. */
    if (dynamic_range.start != (uintptr_t)dynamic || dynamic_range.bytes.size() != dynamic_bytes)
        start_range(&dynamic_range, dynamic, dynamic_bytes);
    if (fixed_range.bytes.size() != fixed_bytes) start_range(&fixed_range, fixed, fixed_bytes);
    for (byte_state &b : dynamic_range.bytes) b.copying = false;
    for (byte_state &b : fixed_range.bytes) b.copying = false;
    epoch++;
}

void races_block_barrier() { epoch++; }
void races_warp_barrier(unsigned warp) { warp_epoch[warp]++; }

void races_copy_starts(const void *to, size_t bytes) {
    for_bytes(to, bytes, [](range *r, size_t i, byte_state *b, const access &mine) {
        write_byte(r, i, b, mine);
        b->copying = true;
    });
}
/* As if it were written now: others may read it behind the next barrier. */
void races_copy_arrives(const void *to, size_t bytes) {
    for_bytes(to, bytes, [](range *, size_t, byte_state *b, const access &mine) {
        b->copying = false;
        b->write = mine;
    });
}

namespace {
void reads(const void *p, size_t bytes) { for_bytes(p, bytes, read_byte); }
void writes(const void *p, size_t bytes) { for_bytes(p, bytes, write_byte); }
} // namespace

} // namespace fw_simt

/* What compilers call for -fsanitize=thread (llvm: compiler-rt/lib/tsan/rtl/tsan_interface.h). */
extern "C" {
void __tsan_init();
void __tsan_init() {}
void __tsan_func_entry(void *);
void __tsan_func_entry(void *) {}
void __tsan_func_exit();
void __tsan_func_exit() {}
#define ACCESS(name, n, does)                                                                                          \
    void __tsan_##name##n(void *p);                                                                                    \
    void __tsan_##name##n(void *p) { fw_simt::does(p, n); }
#define ACCESSES(name, does)                                                                                           \
    ACCESS(name, 1, does) ACCESS(name, 2, does) ACCESS(name, 4, does) ACCESS(name, 8, does) ACCESS(name, 16, does)
ACCESSES(read, reads)
ACCESSES(write, writes)
ACCESSES(unaligned_read, reads)
ACCESSES(unaligned_write, writes)
ACCESSES(volatile_read, reads)
ACCESSES(volatile_write, writes)
void __tsan_read_range(void *p, unsigned long bytes);
void __tsan_read_range(void *p, unsigned long bytes) { fw_simt::reads(p, bytes); }
void __tsan_write_range(void *p, unsigned long bytes);
void __tsan_write_range(void *p, unsigned long bytes) { fw_simt::writes(p, bytes); }
void __tsan_vptr_update(void **, void *);
void __tsan_vptr_update(void **, void *) {}
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    fw_simt::reads(from, bytes);
    fw_simt::writes(to, bytes);
    return memcpy(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes) {
    fw_simt::writes(to, bytes);
    return memset(to, value, bytes);
}
}

#endif
