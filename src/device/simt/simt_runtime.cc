/* Runs the threads of a block as fibers on one host thread.
 *
 * A fiber runs until it meets a barrier or a warp collective that others have not come to; then the scheduler resumes
 * the next one that can run. Where none can, the kernel is wrong: stop() says where. One kernel at a time. */
#include "device/simt/simt.h"
#include "device/simt/simt_races.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <utility>
#include <vector>

/* Elsewhere the system's own switch does, with two system calls each time. */
#if !defined(__x86_64__) && !defined(__aarch64__)
#define FW_SIMT_UCONTEXT 1
#endif
#ifdef FW_SIMT_UCONTEXT
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FW_SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FW_SIMT_ASAN 1
#endif
#endif
#ifdef FW_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* The linker makes these for the section of __shared__; absent when no kernel has any. */
extern unsigned char __start_fw_simt_shared[] __attribute__((weak));
extern unsigned char __stop_fw_simt_shared[] __attribute__((weak));

namespace fw_simt {

thread_place *here;

namespace {

/* A stack that runs over meets the guard below it, which is a page or several, whatever their size. */
enum { STACK_BYTES = 160 * 1024, GUARD_BYTES = 64 * 1024 };
enum { THREADS_MAX = 1024, SHARED_MAX = 227 * 1024, ASYNC_GROUPS = 32 };

enum fiber_state { CAN_RUN, AT_BARRIER, AT_COLLECTIVE, ENDED };

/* The collective that the lanes of one warp are at. */
struct warp {
    unsigned arrived, mask, unread; /* lanes that have come, must come, have not yet taken the result */
    int kind, line;
    size_t bytes;
    alignas(16) unsigned char slot[32 * 16];
};

struct pending_copy {
    void *to;
    const void *from; /* NULL: has arrived, which nobody may rely on yet */
    size_t bytes;
};

struct fiber {
    thread_place place;
    fiber_state state;
    int line; /* of the barrier or collective it is at */
    unsigned char *stack;
    std::vector<std::vector<pending_copy>> group; /* committed cp.async groups, oldest first */
    std::vector<pending_copy> open;
#ifdef FW_SIMT_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer;
#endif
};

std::vector<fiber> fibers;
std::vector<warp> warps;
unsigned char *shared; /* dynamic shared memory of the block, allocated to the byte so that ASan sees its end */
size_t shared_bytes_now;
const char *kernel_name;
void (*kernel_body)(void *);
void *kernel_arguments;
fiber *running;
unsigned fiber_n, living_n, waiting_n; /* of this block; living: not ended; waiting: at a barrier */
uint32_t shuffle_state;                /* of the schedule's random choices */

/* What a GPU may do in its own order, by FW_SIMT_SEED (see simt.h). A warp that runs ahead shows barriers that are missing
 * before others are done with what it overwrites; lanes that all wait show those before what it reads. */
enum thread_order { ASCENDING, DESCENDING, RANDOM };
enum landing { AT_WAIT, AT_ONCE, AT_EITHER };
struct schedule {
    bool warps_run_ahead; /* a warp runs until it must wait; else all threads take a step in turn */
    thread_order order;
    landing copies;
};
const schedule first_schedule = {false, ASCENDING, AT_WAIT};
const schedule schedules[] = {
    {false, RANDOM, AT_WAIT}, {true, ASCENDING, AT_ONCE}, {true, DESCENDING, AT_ONCE}, {true, RANDOM, AT_EITHER}};
schedule schedule_now;

/* ---- switching between the scheduler and a fiber */

#ifdef FW_SIMT_ASAN
void *scheduler_fake_stack;
const void *scheduler_bottom;
size_t scheduler_bytes;
#endif

#ifdef FW_SIMT_UCONTEXT
ucontext_t scheduler_context;
void raw_to_scheduler() { swapcontext(&running->context, &scheduler_context); }
void raw_to_fiber(fiber *f) { swapcontext(&scheduler_context, &f->context); }
#else
void *scheduler_stack_pointer;
extern "C" void fw_simt_switch(void **save, void *load);
/* Saves what a function call must keep, changes stacks, and returns on the other one. */
#ifdef __x86_64__
enum { SAVED_WORDS = 7, RETURN_WORD = 6 };
asm(".text\n"
    ".globl fw_simt_switch\n"
    ".type fw_simt_switch,@function\n"
    "fw_simt_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp,(%rdi)\n"
    "  movq %rsi,%rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  popq %rcx\n  jmp *%rcx\n" /* a return would be foretold to go where the other stack was left from */
    ".size fw_simt_switch,.-fw_simt_switch\n");
#else
enum { SAVED_WORDS = 20, RETURN_WORD = 11 };
asm(".text\n"
    ".globl fw_simt_switch\n"
    ".type fw_simt_switch,%function\n"
    "fw_simt_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n"
    ".size fw_simt_switch,.-fw_simt_switch\n");
#endif
void raw_to_scheduler() { fw_simt_switch(&running->stack_pointer, scheduler_stack_pointer); }
void raw_to_fiber(fiber *f) { fw_simt_switch(&scheduler_stack_pointer, f->stack_pointer); }
#endif

void to_scheduler() {
#ifdef FW_SIMT_ASAN
    void *fake;
    __sanitizer_start_switch_fiber(running->state == ENDED ? nullptr : &fake, scheduler_bottom, scheduler_bytes);
#endif
    raw_to_scheduler();
#ifdef FW_SIMT_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void to_fiber(fiber *f) {
    running = f;
    here = &f->place;
#ifdef FW_SIMT_ASAN
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, f->stack, STACK_BYTES);
#endif
    raw_to_fiber(f);
#ifdef FW_SIMT_ASAN
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
#endif
}

void fiber_start() {
#ifdef FW_SIMT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_bytes);
#endif
    kernel_body(kernel_arguments);
    running->state = ENDED;
    living_n--;
    to_scheduler();
    abort(); /* nobody resumes a fiber that has ended */
}

void prepare(fiber *f) {
    /* Stacks lie at equal distances: else the frames of all threads would share a few lines of the cache. */
    const size_t stagger = (size_t)f->place.linear % 64 * 320;
    f->state = CAN_RUN;
    f->line = 0;
    f->group.clear();
    f->open.clear();
#ifdef FW_SIMT_ASAN
    __asan_unpoison_memory_region(f->stack, STACK_BYTES);
#endif
#ifdef FW_SIMT_UCONTEXT
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES - stagger;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_start, 0);
#else
    /* At a multiple of 16 bytes, with a word to spare: so the stack is aligned as both ABIs want it after a call. */
    void **top = (void **)(f->stack + STACK_BYTES - stagger) - (SAVED_WORDS + 2) / 2 * 2;
    for (int i = 0; i < SAVED_WORDS; i++) top[i] = nullptr;
    top[RETURN_WORD] = (void *)fiber_start;
    f->stack_pointer = top;
#endif
}

/* ---- a block */

uint32_t next_random() {
    shuffle_state ^= shuffle_state << 13;
    shuffle_state ^= shuffle_state >> 17;
    shuffle_state ^= shuffle_state << 5;
    return shuffle_state;
}

void take_fibers(unsigned n) {
    while (fibers.size() < n) {
        void *block =
            mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED || mprotect(block, GUARD_BYTES, PROT_NONE) != 0)
            stop("no memory for the stack of a thread");
        fibers.emplace_back();
        fibers.back().stack = (unsigned char *)block + GUARD_BYTES;
    }
    fiber_n = n;
}

void place_threads(uint3 block, dim3 block_dim, dim3 grid_dim) {
    for (unsigned i = 0; i < fiber_n; i++) {
        uint3 thread = {i % block_dim.x, i / block_dim.x % block_dim.y, i / (block_dim.x * block_dim.y)};
        fibers[i].place = thread_place{thread, block, block_dim, grid_dim, (int)i, (int)(i % 32)};
        prepare(&fibers[i]);
    }
    for (warp &w : warps) w = warp();
}

void poison_shared() {
    if (shared_bytes_now > 0) memset(shared, 0xff, shared_bytes_now);
    if (__start_fw_simt_shared != nullptr)
        memset(__start_fw_simt_shared, 0xff, (size_t)(__stop_fw_simt_shared - __start_fw_simt_shared));
}

/* All living threads wait: let them on, if they are at the same barrier and nobody is missing. */
void open_barrier() {
    int line = 0;
    for (unsigned i = 0; i < fiber_n; i++) {
        fiber *f = &fibers[i];
        if (f->state != AT_BARRIER) continue;
        running = f;
        here = &f->place;
        if (line != 0 && f->line != line) stop("threads of a block wait at different __syncthreads");
        line = f->line;
    }
    if (living_n != fiber_n) stop("__syncthreads after some threads of the block have ended");
    waiting_n = 0;
    races_block_barrier();
    for (unsigned i = 0; i < fiber_n; i++) fibers[i].state = CAN_RUN;
}

[[noreturn]] void stop_stuck() {
    for (unsigned i = 0; i < fiber_n; i++)
        if (fibers[i].state == AT_COLLECTIVE || fibers[i].state == AT_BARRIER) {
            running = &fibers[i];
            here = &fibers[i].place;
            if (running->state == AT_COLLECTIVE) stop("some lanes never come to this warp collective");
        }
    stop("some threads of the block never come to this __syncthreads");
}

/* Puts the threads of a block in the order of the schedule: of all, or of warps and of the lanes of each. */
void arrange(std::vector<unsigned> &order) {
    const schedule &s = schedule_now;
    if (s.order != RANDOM) return; /* as run() left them */
    for (unsigned i = fiber_n - 1; i > 0; i--) std::swap(order[i], order[next_random() % (i + 1)]);
    if (!s.warps_run_ahead) return;
    std::vector<unsigned> place(warps.size());
    for (unsigned k = fiber_n; k-- > 0;) place[order[k] / 32] = k; /* a warp stands where its first lane does */
    std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return place[a / 32] < place[b / 32]; });
}

/* Resumes threads order[first .. end) once each. Returns whether one could run. */
bool step(const std::vector<unsigned> &order, unsigned first, unsigned end) {
    bool moved = false;
    for (unsigned k = first; k < end; k++) {
        fiber *f = &fibers[order[k]];
        if (f->state != CAN_RUN) continue;
        to_fiber(f);
        moved = true;
    }
    return moved;
}

void run_block(std::vector<unsigned> &order) {
    living_n = fiber_n;
    waiting_n = 0;
    while (living_n > 0) {
        bool moved = false;
        arrange(order);
        if (!schedule_now.warps_run_ahead) moved = step(order, 0, fiber_n);
        for (unsigned first = 0, end; schedule_now.warps_run_ahead && first < fiber_n; first = end) {
            for (end = first; end < fiber_n && order[end] / 32 == order[first] / 32;) end++;
            while (step(order, first, end)) moved = true;
        }
        if (living_n > 0 && waiting_n == living_n)
            open_barrier();
        else if (!moved && living_n > 0)
            stop_stuck();
    }
}

uint32_t seed_of_environment() {
    const char *text = getenv("FW_SIMT_SEED");
    return text == nullptr ? 0 : (uint32_t)strtoul(text, nullptr, 10);
}

} // namespace

[[noreturn]] void stop(const char *what) {
    fprintf(stderr, "simt: %s: kernel %s", what, kernel_name == nullptr ? "(none)" : kernel_name);
    if (running != nullptr)
        fprintf(stderr, ", block (%u, %u, %u), thread %d, at or after line %d", here->block.x, here->block.y,
                here->block.z, here->linear, running->line);
    fprintf(stderr, "\n");
    abort();
}

void *dynamic_shared() { return shared; }

void block_barrier(int line) {
    running->state = AT_BARRIER;
    running->line = line;
    waiting_n++;
    to_scheduler();
}

const unsigned char *warp_meet(unsigned mask, const void *value, size_t bytes, int kind, int line) {
    const unsigned first = (unsigned)running->place.linear / 32 * 32;
    warp *w = &warps[first / 32];
    const int lane = running->place.lane;
    running->line = line;
    if (!((mask >> lane) & 1)) stop("a lane is not in the mask of its own warp collective");
    while (w->unread != 0) to_scheduler(); /* others have not yet taken the result of the one before */
    if (w->arrived == 0) {
        w->mask = mask;
        w->kind = kind;
        w->line = line;
        w->bytes = bytes;
    } else if (w->mask != mask || w->kind != kind || w->line != line || w->bytes != bytes) {
        stop("the lanes of a warp are at different collectives");
    }
    memcpy(w->slot + 16 * lane, value, bytes);
    w->arrived |= 1u << lane;
    if (w->arrived != mask) {
        running->state = AT_COLLECTIVE;
        to_scheduler();
    } else {
        w->unread = mask;
        if (kind == KIND_SYNC) races_warp_barrier(first / 32);
        for (unsigned l = 0; l < 32 && first + l < fiber_n; l++)
            if (((mask >> l) & 1) && (int)l != lane) fibers[first + l].state = CAN_RUN;
    }
    return w->slot;
}

void warp_leave() {
    warp *w = &warps[(unsigned)running->place.linear / 32];
    w->unread &= ~(1u << running->place.lane);
    if (w->unread == 0) w->arrived = 0;
}

void check_shared(const void *p, size_t bytes, const char *what) {
    const uintptr_t at = (uintptr_t)p, dynamic = (uintptr_t)shared, fixed = (uintptr_t)__start_fw_simt_shared;
    const bool in_dynamic = at >= dynamic && at + bytes <= dynamic + shared_bytes_now;
    const bool in_fixed = at >= fixed && at + bytes <= (uintptr_t)__stop_fw_simt_shared;
    if ((!in_dynamic && !in_fixed) || at % bytes != 0) stop(what);
}

void async_copy(void *to, const void *from, size_t bytes) {
    check_shared(to, bytes, "cp.async to what is not shared memory, or not aligned to its size");
    if ((uintptr_t)from % bytes != 0) stop("cp.async from an address that is not aligned to its size");
    races_copy_starts(to, bytes);
    if (schedule_now.copies == AT_ONCE || (schedule_now.copies == AT_EITHER && next_random() % 2 == 0))
        memcpy(to, from, bytes), from = nullptr;
    running->open.push_back(pending_copy{to, from, bytes});
}

void async_commit() {
    running->group.push_back(std::move(running->open));
    running->open.clear();
    if (running->group.size() > ASYNC_GROUPS) stop("cp.async groups are committed and never waited for");
}

void async_wait(int groups_left) {
    while ((int)running->group.size() > groups_left) {
        for (const pending_copy &c : running->group.front()) {
            if (c.from != nullptr) memcpy(c.to, c.from, c.bytes);
            races_copy_arrives(c.to, c.bytes);
        }
        running->group.erase(running->group.begin());
    }
}

void run(const char *name, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void *), void *arguments) {
    const size_t n = (size_t)block.x * block.y * block.z;
    kernel_name = name;
    running = nullptr;
    if (n == 0 || n > THREADS_MAX || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
        grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || shared_bytes > SHARED_MAX)
        stop("a launch that no GPU takes (grid, block or shared memory)");
    kernel_body = body;
    kernel_arguments = arguments;
    shuffle_state = seed_of_environment();
    schedule_now =
        shuffle_state == 0 ? first_schedule : schedules[shuffle_state % (sizeof schedules / sizeof *schedules)];
    take_fibers((unsigned)n);
    warps.assign((n + 31) / 32, warp());
    free(shared);
    shared_bytes_now = shared_bytes;
    void *memory = nullptr;
    if (posix_memalign(&memory, 128, shared_bytes > 0 ? shared_bytes : 1) != 0) stop("no memory for shared memory");
    shared = (unsigned char *)memory;
    std::vector<unsigned> order(n);
    for (unsigned i = 0; i < n; i++) order[i] = schedule_now.order == DESCENDING ? (unsigned)n - 1 - i : i;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                poison_shared();
                races_start_block(shared, shared_bytes_now, __start_fw_simt_shared,
                                  (size_t)(__stop_fw_simt_shared - __start_fw_simt_shared));
                place_threads(uint3{x, y, z}, block, grid);
                run_block(order);
            }
}

} // namespace fw_simt
