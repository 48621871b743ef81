/* How fast the cpu device's operations are, at the shapes of SmolLM2-135M and a micro-batch of N tokens.
 *
 *   bench_ops [FILTER] [N] [THREADS]     default: all operations, 2048, 1
 *
 * Products are compared with oneDNN on the same numbers: fp32 (operands widened beforehand: the rate that
 * widening aims at) and bf16. All of a line's rivals run in turn, and medians over the rounds are printed:
 * only figures of one line compare, for the machine's speed drifts. */
#include "base/alloc.h"
#include "base/host.h"
#include "base/rng.h"
#include "device/cpu/cpu.h"

#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { C = 576, H = 9, K = 3, D = 64, F = 1536, V = 49152, QKV = (H + 2 * K) * D, ROUNDS = 15, RIVALS = 3 };

typedef struct bench {
    fw_device *own, *onednn, *d; /* d: the one being timed */
    int64_t N;
    fw_bf16 *x, *y, *z, *w; /* operands */
    float *fx, *fy, *fw, *g, *m, *v;
    int32_t *id, *first, *position;
} bench;

typedef struct line {
    const char *op, *note;
    void (*run)(bench *b, int64_t O, int64_t I);
    void (*rival_fp32)(bench *b, int64_t O, int64_t I);
    int64_t O, I;
    double operations, bytes; /* of one run, per token unless `fixed` */
    int fixed, products;
} line;

static void must(fw_status status) {
    if (status == FW_OK) return;
    fprintf(stderr, "bench_ops: %s\n", fw_trail_message());
    exit(1);
}

/* ---- what is timed ---- */

static void forward(bench *b, int64_t O, int64_t I) {
    must(fw_matmul_forward(b->d, b->y, b->x, b->w, NULL, b->N, O, I, FW_BF16, FW_BF16));
}
static void back_input(bench *b, int64_t O, int64_t I) {
    must(fw_matmul_backward_input(b->d, b->y, b->x, b->w, b->N, O, I, FW_BF16));
}
static void back_weight(bench *b, int64_t O, int64_t I) {
    must(fw_matmul_backward_weight(b->d, b->g, b->x, b->y, b->N, O, I, FW_BF16));
}
static void one_row(bench *b, int64_t O, int64_t I) {
    must(fw_matmul_forward(b->d, b->y, b->x, b->w, NULL, 1, O, I, FW_BF16, FW_F32));
}
static void sgemm(char ta, char tb, int64_t M, int64_t N, int64_t k, float *a, float *bb, float beta, float *c) {
    if (dnnl_sgemm(ta, tb, M, N, k, 1, a, ta == 'N' ? k : M, bb, tb == 'N' ? N : k, beta, c, N) != dnnl_success)
        abort();
}
static void forward_fp32(bench *b, int64_t O, int64_t I) { sgemm('N', 'T', b->N, O, I, b->fx, b->fw, 0, b->fy); }
static void back_input_fp32(bench *b, int64_t O, int64_t I) { sgemm('N', 'N', b->N, I, O, b->fx, b->fw, 0, b->fy); }
static void back_weight_fp32(bench *b, int64_t O, int64_t I) { sgemm('T', 'N', O, I, b->N, b->fx, b->fy, 1, b->g); }

static void attend(bench *b, int64_t documents, int64_t keys) {
    const float scale = 0.125f;
    (void)keys;
    must(fw_attention_forward(b->d, b->y, b->g, b->x, QKV, b->x + H * D, QKV, b->x + (H + K) * D, QKV,
                              documents ? b->first : NULL, b->N, 0, H, K, D, scale, FW_BF16));
}
static void attend_back(bench *b, int64_t documents, int64_t unused) {
    (void)unused;
    must(fw_attention_backward(b->d, b->z, QKV, b->z + H * D, b->z + (H + K) * D, QKV, b->y, b->y, b->g, b->x, QKV,
                               b->x + H * D, QKV, b->x + (H + K) * D, QKV, documents ? b->first : NULL, b->N, H, K, D,
                               0.125f, FW_BF16));
}
static void attend_one(bench *b, int64_t keys, int64_t unused) {
    (void)unused;
    must(fw_attention_forward(b->d, b->y, NULL, b->y, QKV, b->x + H * D, QKV, b->x + (H + K) * D, QKV, NULL, 1,
                              keys - 1, H, K, D, 0.125f, FW_BF16));
}
static void norm(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_rmsnorm_forward(b->d, b->y, C, b->g, b->x, C, b->w, 1e-5f, b->N, 1, C, FW_BF16));
}
static void norm_back(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_rmsnorm_backward(b->d, b->z, C, b->m, b->y, C, b->y, b->x, C, b->w, b->g, b->N, 1, C, FW_BF16));
}
static void rotate(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_rope(b->d, b->y, QKV, b->fx, b->fx, b->position, b->N, H + K, D, 1, FW_BF16));
}
static void swiglu(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_swiglu_forward(b->d, b->y, b->x, b->N, F, FW_BF16));
}
static void swiglu_back(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_swiglu_backward(b->d, b->z, b->y, b->x, b->N, F, FW_BF16));
}
static void add(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_add(b->d, b->z, b->x, b->y, b->N * C, FW_BF16));
}
static void loss(bench *b, int64_t rows, int64_t unused) {
    (void)unused;
    must(fw_cross_entropy(b->d, b->m, b->y, b->fy, b->id, rows, V, 1e-3f, FW_BF16));
}
static void embed_back(bench *b, int64_t O, int64_t I) {
    (void)O, (void)I;
    must(fw_embedding_backward(b->d, b->g, b->x, b->id, b->N, C, V, FW_BF16));
}
static void adamw(bench *b, int64_t n, int64_t unused) {
    const fw_adamw_options o = {1e-5f, 0.9f, 0.999f, 1e-8f, 0.01f, 1, 10};
    (void)unused;
    must(fw_adamw(b->d, b->fw, b->m, b->v, b->g, b->w, n, &o, FW_BF16));
}
static void squares(bench *b, int64_t n, int64_t unused) {
    double sum;
    (void)unused;
    must(fw_sum_squares(b->d, &sum, b->g, n));
}
static void cast(bench *b, int64_t n, int64_t unused) {
    (void)unused;
    must(fw_cast(b->d, b->fw, FW_F32, b->w, FW_BF16, n));
}

#define PRODUCT(name, note, run, rival, O, I)                                                                          \
    { name, note, run, rival, O, I, 2.0 * (O) * (I), 0, 0, 1 }
static const line lines[] = {
    PRODUCT("matmul_forward", "gate and up", forward, forward_fp32, 2 * F, C),
    PRODUCT("matmul_forward", "down", forward, forward_fp32, C, F),
    PRODUCT("matmul_forward", "q, k, v", forward, forward_fp32, QKV, C),
    PRODUCT("matmul_forward", "o", forward, forward_fp32, C, C),
    PRODUCT("matmul_forward", "head, a slice", forward, forward_fp32, V / 8, C),
    PRODUCT("matmul_backward_input", "gate and up", back_input, back_input_fp32, 2 * F, C),
    PRODUCT("matmul_backward_input", "down", back_input, back_input_fp32, C, F),
    PRODUCT("matmul_backward_input", "q, k, v", back_input, back_input_fp32, QKV, C),
    PRODUCT("matmul_backward_weight", "gate and up", back_weight, back_weight_fp32, 2 * F, C),
    PRODUCT("matmul_backward_weight", "down", back_weight, back_weight_fp32, C, F),
    PRODUCT("matmul_backward_weight", "q, k, v", back_weight, back_weight_fp32, QKV, C),
    {"matmul_forward", "one token, head", one_row, NULL, V, C, 2.0 * V *C, 2.0 * V *C, 1, 0},
    {"attention_forward", "one document", attend, NULL, 0, 0, -2, 0, 0, 0},
    {"attention_forward", "documents of 256", attend, NULL, 1, 0, 4.0 * 128 * H *D, 0, 0, 0},
    {"attention_forward", "one token, 1024 keys", attend_one, NULL, 1024, 0, 4.0 * 1024 * H *D, 4.0 * 1024 * K *D, 1,
     0},
    {"attention_backward", "one document", attend_back, NULL, 0, 0, -5, 0, 0, 0},
    {"attention_backward", "documents of 256", attend_back, NULL, 1, 0, 10.0 * 128 * H *D, 0, 0, 0},
    {"rmsnorm_forward", "", norm, NULL, 0, 0, 0, 4.0 * C, 0, 0},
    {"rmsnorm_backward", "", norm_back, NULL, 0, 0, 0, 8.0 * C, 0, 0},
    {"rope", "", rotate, NULL, 0, 0, 0, 4.0 * (H + K) * D, 0, 0},
    {"swiglu_forward", "", swiglu, NULL, 0, 0, 0, 6.0 * F, 0, 0},
    {"swiglu_backward", "", swiglu_back, NULL, 0, 0, 0, 10.0 * F, 0, 0},
    {"add", "", add, NULL, 0, 0, 0, 6.0 * C, 0, 0},
    {"embedding_backward", "", embed_back, NULL, 0, 0, 0, 10.0 * C, 0, 0},
    {"cross_entropy", "128 rows", loss, NULL, 128, 0, 0, 128 * 6.0 * V, 1, 0},
    {"adamw", "16 M parameters", adamw, NULL, 16 << 20, 0, 0, 34.0 * (16 << 20), 1, 0},
    {"sum_squares", "16 M", squares, NULL, 16 << 20, 0, 0, 4.0 * (16 << 20), 1, 0},
    {"cast", "16 M, bf16 to fp32", cast, NULL, 16 << 20, 0, 0, 6.0 * (16 << 20), 1, 0},
};

/* ---- timing ---- */

/* On one thread, processor time: on a machine with other work it says more than the clock on the wall. */
static uint64_t now_ns(int one_thread) {
    struct timespec t;
    if (!one_thread || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return fw_host_now_ns();
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

static void time_line(bench *b, const line *l, int one_thread) {
    double seconds[RIVALS][ROUNDS];
    const int rival_n = l->products ? RIVALS : 1;
    for (int round = -1; round < ROUNDS; round++) { /* the first one warms up */
        for (int r = 0; r < rival_n; r++) {
            const uint64_t start = now_ns(one_thread);
            b->d = r == 1 ? b->onednn : b->own;
            if (r < 2)
                l->run(b, l->O, l->I);
            else if (one_thread)
                l->rival_fp32(b, l->O, l->I);
            if (round >= 0) seconds[r][round] = (double)(now_ns(one_thread) - start) * 1e-9;
        }
    }
    const double N = (double)b->N, times = l->fixed ? 1 : N;
    const double operations = l->operations < 0 ? -l->operations * N * N * H * D : l->operations * times;
    const double own = median(seconds[0], ROUNDS);
    printf("%-23s %-21s %9.3f ms", l->op, l->note, own * 1e3);
    if (operations > 0) printf(" %7.1f GFLOP/s", operations / own * 1e-9);
    if (l->bytes > 0) printf(" %7.1f GB/s", l->bytes * times / own * 1e-9);
    if (l->products) {
        printf("   oneDNN bf16 %7.1f", operations / median(seconds[1], ROUNDS) * 1e-9);
        if (one_thread) {
            const double rival = median(seconds[2], ROUNDS);
            printf("   fp32 %7.1f (own is %.2f of it)", operations / rival * 1e-9, rival / own);
        }
    }
    printf("\n");
    fflush(stdout);
}

static void fill(bench *b) {
    const int64_t big = 16 << 20, rows = b->N * 2 * F > b->N * V / 8 ? b->N * 2 * F : b->N * V / 8;
    const int64_t n = (rows > (int64_t)V * C ? rows : (int64_t)V * C) + big;
    must(FW_NEW_ARRAY(b->x, (size_t)n)), must(FW_NEW_ARRAY(b->y, (size_t)n));
    must(FW_NEW_ARRAY(b->z, (size_t)n)), must(FW_NEW_ARRAY(b->w, (size_t)n));
    must(FW_NEW_ARRAY(b->fx, (size_t)n)), must(FW_NEW_ARRAY(b->fy, (size_t)n)), must(FW_NEW_ARRAY(b->fw, (size_t)n));
    must(FW_NEW_ARRAY(b->g, (size_t)n)), must(FW_NEW_ARRAY(b->m, (size_t)n)), must(FW_NEW_ARRAY(b->v, (size_t)n));
    must(FW_NEW_ARRAY(b->id, (size_t)b->N + 128)), must(FW_NEW_ARRAY(b->first, (size_t)b->N));
    must(FW_NEW_ARRAY(b->position, (size_t)b->N));
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)((int)(fw_rng_bits(1, 2, (uint64_t)i) % 2001) - 1000) * 1e-3f;
        b->x[i] = b->y[i] = b->w[i] = fw_bf16_from_f32(value);
        b->fx[i] = b->fy[i] = b->fw[i] = fw_bf16_to_f32(b->x[i]);
    }
    for (int64_t i = 0; i < b->N + 128; i++) b->id[i] = (int32_t)(fw_rng_bits(1, 3, (uint64_t)i) % V);
    for (int64_t i = 0; i < b->N; i++) b->first[i] = (int32_t)(i / 256 * 256), b->position[i] = (int32_t)(i % 1024);
}

int main(int argument_n, char **arguments) {
    const char *filter = argument_n > 1 ? arguments[1] : "";
    const int64_t N = argument_n > 2 ? atoll(arguments[2]) : 2048;
    const int thread_n = argument_n > 3 ? atoi(arguments[3]) : 1;
    if (N < 1 || N > 1 << 16 || thread_n < 1 || thread_n > 256) {
        fprintf(stderr, "usage: bench_ops [FILTER] [N, 1 to 65536] [THREADS, 1 to 256]\n");
        return 2;
    }
    bench b = {.N = N};
    fw_threads *pool;
    must(fw_threads_create(&pool, thread_n, NULL));
    must(fw_device_create_cpu_as(&b.own, pool, NULL, FW_CPU_PRODUCTS_OWN));
    must(fw_device_create_cpu_as(&b.onednn, pool, NULL, FW_CPU_PRODUCTS_ONEDNN));
    const fw_device_limits limits = {.N = N, .matmul_dim = V, .H = H, .K = K, .D = D};
    must(fw_device_reserve(b.own, &limits));
    must(fw_device_reserve(b.onednn, &limits));
    fill(&b);
    printf("%s; N = %d\n", b.own->description, (int)N);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(lines[i].op, filter) != NULL) time_line(&b, &lines[i], thread_n == 1);
    fw_device_destroy(b.own);
    fw_device_destroy(b.onednn);
    fw_threads_destroy(pool);
    fw_free(b.x), fw_free(b.y), fw_free(b.z), fw_free(b.w), fw_free(b.fx), fw_free(b.fy), fw_free(b.fw);
    fw_free(b.g), fw_free(b.m), fw_free(b.v), fw_free(b.id), fw_free(b.first), fw_free(b.position);
    return 0;
}
