/* all_reduce with MPI, in the lines of bench_allreduce.c. Built with mpicc where there is one; no part of finewire.
 *
 *     mpirun -np RANKS rival_allreduce_mpi MOST_MIB
 *
 * MPI knows no bf16: its sum is a user-defined operation here, a loop that compilers vectorise. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 41, WARM_N = 2 };

static void add_bf16(void *in, void *inout, int *n, MPI_Datatype *type) {
    const uint16_t *a = in;
    uint16_t *b = inout;
    (void)type;
    for (int i = 0; i < *n; i++) {
        uint32_t x = (uint32_t)a[i] << 16, y = (uint32_t)b[i] << 16, bits;
        float u, v;
        memcpy(&u, &x, 4);
        memcpy(&v, &y, 4);
        v += u;
        memcpy(&bits, &v, 4);
        uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
        b[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void write_buffer(void *x, size_t bytes, int is_f32) {
    if (is_f32)
        for (size_t i = 0; i < bytes / 4; i++) ((float *)x)[i] = (float)(i % 64);
    else
        for (size_t i = 0; i < bytes / 2; i++) ((uint16_t *)x)[i] = (uint16_t)(0x3f80 + i % 64);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const size_t most_bytes = (size_t)(argc > 1 ? atol(argv[1]) : 64) << 20;
    int rank;
    MPI_Op bf16_sum;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op_create(add_bf16, 1, &bf16_sum);
    void *x = calloc(most_bytes, 1);
    if (x == NULL) return 1;
    for (size_t bytes = 4096; bytes <= most_bytes; bytes *= 4)
        for (int is_f32 = 1; is_f32 >= 0; is_f32--) {
            const int call_n = bytes <= 1 << 20 ? MOST_CALLS : bytes <= 16 << 20 ? 21 : 9;
            double own[MOST_CALLS], seconds[MOST_CALLS];
            for (int k = -WARM_N; k < call_n; k++) {
                write_buffer(x, bytes, is_f32);
                MPI_Barrier(MPI_COMM_WORLD);
                double start = MPI_Wtime();
                MPI_Allreduce(MPI_IN_PLACE, x, (int)(bytes / (is_f32 ? 4 : 2)), is_f32 ? MPI_FLOAT : MPI_UINT16_T,
                              is_f32 ? MPI_SUM : bf16_sum, MPI_COMM_WORLD);
                if (k >= 0) own[k] = MPI_Wtime() - start;
            }
            MPI_Allreduce(own, seconds, call_n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            qsort(seconds, (size_t)call_n, sizeof *seconds, compare);
            if (rank == 0) {
                printf("openmpi %s %zu %.2f %.2f %d\n", is_f32 ? "fp32" : "bf16", bytes, seconds[call_n / 2] * 1e6,
                       seconds[0] * 1e6, call_n);
                fflush(stdout);
            }
        }
    free(x);
    MPI_Op_free(&bf16_sum);
    MPI_Finalize();
    return 0;
}
