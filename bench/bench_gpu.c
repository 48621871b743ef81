/* How fast the cuda device's operations are, at shapes of Qwen2.5-7B and 4096 tokens.
 *
 *   bench_gpu [DEVICE [TOKENS [ATTENTION [WHAT]]]]      default: cuda 4096 auto; cpu 64 tries the program out
 *     ATTENTION  auto, finewire or cudnn: who computes it
 *     WHAT       only the lines that begin with it
 *
 * Each line runs an operation often enough for a tenth of a second, after it has run twice, and waits for the device
 * once at the end. Bytes are those that have to be moved once. */
#include "base/host.h"
#include "base/rng.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { C = 3584, H = 28, K = 4, D = 128, F = 18944, V = 152064, QKV = (H + 2 * K) * D, CHUNK = 256, UPDATE = 1 << 26 };

typedef struct bench {
    fw_device *d;
    int64_t N;
    char *a, *b, *c;      /* bf16 operands of N x 2F or 2F x C elements */
    float *f, *g, *m, *v; /* UPDATE floats, or CHUNK x V */
    int32_t *id;
    const char *what; /* NULL: everything */
} bench;

static void must(fw_status status) {
    if (status == FW_OK) return;
    fprintf(stderr, "bench_gpu: %s\n", fw_trail_message());
    exit(1);
}

static void wait_for(bench *b) {
    float x;
    must(fw_copy(b->d, &x, b->f, sizeof x));
}

/* ---- what is timed */

typedef void (*run_fn)(bench *b, int64_t O, int64_t I);

static void forward(bench *b, int64_t O, int64_t I) {
    must(fw_matmul_forward(b->d, b->c, b->a, b->b, NULL, b->N, O, I, FW_BF16, FW_BF16));
}
static void back_input(bench *b, int64_t O, int64_t I) {
    must(fw_matmul_backward_input(b->d, b->c, b->a, b->b, b->N, O, I, FW_BF16));
}
static void back_weight(bench *b, int64_t O, int64_t I) {
    must(fw_matmul_backward_weight(b->d, b->g, b->a, b->c, b->N, O, I, FW_BF16));
}
static char *at(char *p, int64_t n) { return p + n * (int64_t)sizeof(fw_bf16); }
static void attend(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_attention_forward(b->d, b->c, b->m, b->a, QKV, at(b->a, H * D), QKV, at(b->a, (H + K) * D), QKV, NULL, b->N,
                              0, H, K, D, 0.088f, FW_BF16));
}
static void attend_back(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_attention_backward(b->d, b->b, QKV, at(b->b, H * D), at(b->b, (H + K) * D), QKV, b->c, b->c, b->m, b->a,
                               QKV, at(b->a, H * D), QKV, at(b->a, (H + K) * D), QKV, NULL, b->N, H, K, D, 0.088f,
                               FW_BF16));
}
static void norm(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_rmsnorm_forward(b->d, b->c, C, b->m, b->a, C, b->b, 1e-5f, b->N, 1, C, FW_BF16));
}
static void norm_back(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_rmsnorm_backward(b->d, b->c, C, b->v, b->a, C, NULL, b->a, C, b->b, b->m, b->N, 1, C, FW_BF16));
}
static void swiglu(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_swiglu_forward(b->d, b->c, b->a, b->N, F, FW_BF16));
}
static void swiglu_back(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_swiglu_backward(b->d, b->c, b->b, b->a, b->N, F, FW_BF16));
}
static void loss(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_cross_entropy(b->d, b->m, b->c, b->f, b->id, CHUNK, V, 1e-3f, FW_BF16));
}
static void update(bench *b, int64_t O, int64_t I) {
    const fw_adamw_options o = {1e-5f, 0.9f, 0.999f, 1e-8f, 0.01f, 1, 10};
    (void)O, (void)I;
    must(fw_adamw(b->d, b->f, b->m, b->v, b->g, NULL, UPDATE, &o, FW_F32));
}
static void update_and_round(bench *b, int64_t O, int64_t I) {
    const fw_adamw_options o = {1e-5f, 0.9f, 0.999f, 1e-8f, 0.01f, 1, 10};
    (void)O, (void)I;
    must(fw_adamw(b->d, b->f, b->m, b->v, b->g, b->a, UPDATE, &o, FW_BF16));
}
static void squares(bench *b, int64_t O, int64_t I) {
    double sum;
    (void)O, (void)I;
    must(fw_sum_squares(b->d, &sum, b->g, UPDATE));
}

/* ---- timing */

static double seconds_of(bench *b, run_fn run, int64_t O, int64_t I) {
    for (int i = 0; i < 2; i++) run(b, O, I);
    wait_for(b);
    for (int n = 4;; n *= 2) {
        const uint64_t start = fw_host_now_ns();
        for (int i = 0; i < n; i++) run(b, O, I);
        wait_for(b);
        const double s = (double)(fw_host_now_ns() - start) * 1e-9;
        if (s > 0.1 || n >= 1 << 14) return s / n;
    }
}

static void show(bench *b, const char *name, run_fn run, int64_t O, int64_t I, double operations, double bytes) {
    if (b->what != NULL && strncmp(name, b->what, strlen(b->what)) != 0) return;
    const double s = seconds_of(b, run, O, I);
    printf("%-36s %9.3f ms", name, s * 1e3);
    if (operations > 0) printf(" %8.1f TFLOP/s", operations / s * 1e-12);
    if (bytes > 0) printf(" %8.1f GB/s", bytes / s * 1e-9);
    printf("\n");
    fflush(stdout);
}

static void take(bench *b, void *out, size_t bytes) {
    void *memory;
    must(fw_device_alloc(b->d, &memory, bytes, "operands"));
    memcpy(out, &memory, sizeof memory);
}

/* Numbers around 0: products of zeros take less power, and a GPU is faster with them. */
static void fill(bench *b, char *to, size_t bytes) {
    static fw_bf16 block[1 << 20];
    for (uint64_t i = 0; i < sizeof block / sizeof *block; i++)
        block[i] = fw_bf16_from_f32((float)(int32_t)(uint32_t)fw_rng_bits(1, 2, i) * 0x1p-31f);
    for (size_t at_bytes = 0; at_bytes < bytes; at_bytes += sizeof block)
        must(fw_copy(b->d, to + at_bytes, block, bytes - at_bytes < sizeof block ? bytes - at_bytes : sizeof block));
}

static fw_attention_choice choice_of(const char *word) {
    if (strcmp(word, "finewire") == 0) return FW_ATTENTION_OWN;
    return strcmp(word, "cudnn") == 0 ? FW_ATTENTION_CUDNN : FW_ATTENTION_AUTO;
}

int main(int argc, char **argv) {
    bench b = {.N = argc > 2 ? atoll(argv[2]) : 4096, .what = argc > 4 ? argv[4] : NULL};
    must(fw_device_create(&b.d, argc > 1 ? argv[1] : "cuda", NULL));
    printf("%s, %lld tokens\n", b.d->description, (long long)b.N);
    const int64_t side = b.N > 2 * F ? b.N : 2 * F; /* longest side of an operand */
    const size_t operand = (size_t)side * (size_t)(2 * F > b.N ? (b.N > C ? b.N : C) : 2 * F) * sizeof(fw_bf16);
    take(&b, &b.a, operand);
    take(&b, &b.b, operand);
    take(&b, &b.c, operand);
    fill(&b, b.a, operand);
    fill(&b, b.b, operand);
    const size_t floats = (size_t)UPDATE > (size_t)2 * F * C ? (size_t)UPDATE : (size_t)2 * F * C;
    take(&b, &b.f, floats * sizeof(float));
    take(&b, &b.g, floats * sizeof(float));
    take(&b, &b.m, floats * sizeof(float));
    take(&b, &b.v, floats * sizeof(float));
    take(&b, &b.id, CHUNK * sizeof *b.id);
    const fw_attention_limits attention = {.choice = choice_of(argc > 3 ? argv[3] : "auto"),
                                           .t = FW_BF16,
                                           .document_n = 1,
                                           .longest_n = b.N,
                                           .q_stride = QKV,
                                           .k_stride = QKV,
                                           .v_stride = QKV,
                                           .dq_stride = QKV,
                                           .backward = 1};
    const fw_device_limits limits = {.N = b.N, .matmul_dim = V, .H = H, .K = K, .D = D, .attention = attention};
    must(fw_device_reserve(b.d, &limits));
    if (b.d->attention[0] != 0) printf("attention: %s\n", b.d->attention);
    const double N = (double)b.N, pairs = N * N / 2 * H * D;
    const double product = 2.0 * N;
    show(&b, "product 4096 x 4096", forward, 4096, 4096, product * 4096 * 4096, 0);
    show(&b, "q, k, v: forward", forward, QKV, C, product * QKV * C, 0);
    show(&b, "gate and up: forward", forward, 2 * F, C, product * 2 * F * C, 0);
    show(&b, "gate and up: input", back_input, 2 * F, C, product * 2 * F * C, 0);
    show(&b, "gate and up: weight, accumulated", back_weight, 2 * F, C, product * 2 * F * C, 0);
    show(&b, "down: forward", forward, C, F, product * F * C, 0);
    show(&b, "attention forward, causal", attend, 0, 0, 4 * pairs, 0);
    show(&b, "attention backward, causal", attend_back, 0, 0, 10 * pairs, 0);
    show(&b, "rmsnorm forward", norm, 0, 0, 0, 4.0 * N * C);
    show(&b, "rmsnorm backward", norm_back, 0, 0, 0, 6.0 * N * C);
    show(&b, "swiglu forward", swiglu, 0, 0, 0, 6.0 * N * F);
    show(&b, "swiglu backward", swiglu_back, 0, 0, 0, 10.0 * N * F);
    show(&b, "loss, 256 rows", loss, 0, 0, 0, 6.0 * CHUNK * V);
    show(&b, "AdamW", update, 0, 0, 0, 32.0 * UPDATE);
    show(&b, "AdamW and rounding to bf16", update_and_round, 0, 0, 0, 34.0 * UPDATE);
    show(&b, "sum of squares", squares, 0, 0, 0, 4.0 * UPDATE);
    fw_device_destroy(b.d);
    return 0;
}
