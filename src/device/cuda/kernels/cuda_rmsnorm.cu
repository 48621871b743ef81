/* RMSNorm of N x G rows of C elements (equations: device/device.h).
 *
 * A team of 16 to 256 threads takes a row: few for the heads of queries and keys, a block for the rows of a model. Each
 * thread holds its part of the row in registers, so that every element is read and written once: forward x and y;
 * backward x, dy, dx_add and dx. Rows too long for that, or that are not aligned and long, are read twice by a plain loop.
 *
 * Backward, each team goes through rows a fixed distance apart and sums its part of dw in registers on the way. The block
 * adds up its teams and leaves one row of partial sums; a second kernel adds these up. The number of blocks depends on
 * the shape alone, and so does the order of all sums. It is small enough for all blocks to run at once, as a second
 * wave of them would leave most of the GPU idle. */
#include "device/cuda/kernels/column_sums.cuh"

namespace {

enum { BLOCK = 256, WARPS = BLOCK / 32 };
/* Blocks of a backward, at most: 4 on each of an A100's 108 multiprocessors, 2 where threads have several chunks of a row,
 * and as many as PARTIAL_N numbers of partial sums allow. */
enum { SHORT_ROW_BLOCKS = 432, ROW_BLOCKS = 216, PARTIAL_N = 1 << 21 };

template <class T> struct Forward {
    T *y;
    int64_t y_stride;
    float *rstd_NG;
    const T *x;
    int64_t x_stride;
    const T *w_C;
    float eps;
    int64_t row_n, G, C;
};

template <class T> struct Backward {
    T *dx;
    int64_t dx_stride;
    float *partial_PC;
    const T *dy;
    int64_t dy_stride;
    const T *dx_add; /* may be NULL */
    const T *x;
    int64_t x_stride;
    const T *w_C;
    const float *rstd_NG;
    int64_t row_n, G, C;
};

/* Sums of warps, for two turns, and sums of columns of each team. */
enum { TEAM_ITEMS = 8 };
__device__ __forceinline__ float (*shared_of_warps())[WARPS] {
    __shared__ float of_warp[2][WARPS];
    return of_warp;
}
__device__ __forceinline__ float *shared_of_teams() {
    __shared__ float of_team[BLOCK * TEAM_ITEMS];
    return of_team;
}

/* The sum over a team, on each of its threads; called by the whole block. `turn` is another one of 0 and 1 each time: what
 * was written in one turn is read by all before it is written again, with a single barrier in between. */
template <int TEAM> __device__ __forceinline__ float team_sum(float sum, int turn) {
    for (int bits = (TEAM < 32 ? TEAM : 32) / 2; bits > 0; bits >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, bits);
    if constexpr (TEAM > 32) {
        float(*of_warp)[WARPS] = shared_of_warps();
        if (threadIdx.x % 32 == 0) of_warp[turn][threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0;
        for (int k = 0; k < TEAM / 32; k++) sum += of_warp[turn][threadIdx.x / TEAM * (TEAM / 32) + k];
    }
    return sum;
}

/* A row in the registers of its team: item k of thread `lane` is the chunk of N elements at (k * TEAM + lane) * N. What lies
 * behind the row's end is 0. */
template <class T, int N, int ITEMS, int TEAM>
__device__ __forceinline__ void load_row(Chunk<T, N> (&item)[ITEMS], const T *row, int64_t C, bool is_row) {
    const int lane = threadIdx.x % TEAM;
    for (int k = 0; k < ITEMS; k++) {
        const int at = (k * TEAM + lane) * N;
        item[k] = Chunk<T, N>{};
        if (is_row && at < C) item[k] = load_chunk<N>(row + at);
    }
}

template <class T, int N, int ITEMS, int TEAM> __global__ void __launch_bounds__(BLOCK) forward(const Forward<T> s) {
    const int64_t row = (int64_t)blockIdx.x * (BLOCK / TEAM) + threadIdx.x / TEAM;
    const bool is_row = row < s.row_n;
    const int lane = threadIdx.x % TEAM;
    int64_t g;
    const int64_t n = divide(row, s.G, &g);
    Chunk<T, N> x[ITEMS], w[ITEMS];
    load_row<T, N, ITEMS, TEAM>(x, s.x + n * s.x_stride + g * s.C, s.C, is_row);
    load_row<T, N, ITEMS, TEAM>(w, s.w_C, s.C, is_row);
    float sum = 0;
    for (int k = 0; k < ITEMS; k++)
        for (int i = 0; i < N; i++) sum += element(x[k], i) * element(x[k], i);
    sum = team_sum<TEAM>(sum, 0);
    for (int k = 0; k < ITEMS; k++) keep_packed(x[k]);
    if (!is_row) return;
    const float rstd = 1.0f / sqrtf(sum / (float)s.C + s.eps);
    if (lane == 0) s.rstd_NG[row] = rstd;
    T *y = s.y + n * s.y_stride + g * s.C;
    for (int k = 0; k < ITEMS; k++) {
        const int at = (k * TEAM + lane) * N;
        float value[N];
        for (int i = 0; i < N; i++) value[i] = element(w[k], i) * rounded<T>(element(x[k], i) * rstd);
        if (at < s.C) store_chunk(y + at, chunk_of<T>(value));
    }
}

template <class T> __global__ void __launch_bounds__(BLOCK) forward_long(const Forward<T> s) {
    int64_t g;
    const int64_t row = blockIdx.x, n = divide(row, s.G, &g);
    const T *x = s.x + n * s.x_stride + g * s.C;
    T *y = s.y + n * s.y_stride + g * s.C;
    float sum = 0;
    for (int64_t c = threadIdx.x; c < s.C; c += BLOCK) sum += to_float(x[c]) * to_float(x[c]);
    sum = team_sum<BLOCK>(sum, 0);
    const float rstd = 1.0f / sqrtf(sum / (float)s.C + s.eps);
    if (threadIdx.x == 0) s.rstd_NG[row] = rstd;
    for (int64_t c = threadIdx.x; c < s.C; c += BLOCK)
        y[c] = from_float<T>(to_float(s.w_C[c]) * rounded<T>(to_float(x[c]) * rstd));
}

/* Adds up dw over the teams of the block and stores it as the block's partial sum. */
template <int N, int ITEMS, int TEAM>
__device__ __forceinline__ void store_partial(float *partial_C, const float (&dw)[ITEMS][N], int64_t C) {
    const int lane = threadIdx.x % TEAM;
    if constexpr (TEAM == BLOCK) {
        for (int k = 0; k < ITEMS; k++) {
            const int at = (k * TEAM + lane) * N;
            if (at < C) store_chunk(partial_C + at, chunk_of<float>(dw[k]));
        }
    } else {
        enum { ROW = TEAM * ITEMS * N }; /* the longest row of a team */
        float *of_team = shared_of_teams();
        static_assert(ITEMS * N <= TEAM_ITEMS, "more than the shared memory holds");
        for (int k = 0; k < ITEMS; k++)
            for (int i = 0; i < N; i++) of_team[threadIdx.x / TEAM * ROW + (k * TEAM + lane) * N + i] = dw[k][i];
        __syncthreads();
        for (int c = threadIdx.x; c < C; c += BLOCK) {
            float sum = 0;
            for (int team = 0; team < BLOCK / TEAM; team++) sum += of_team[team * ROW + c];
            partial_C[c] = sum;
        }
    }
}

template <class T, int N, int ITEMS, int TEAM>
__global__ void __launch_bounds__(BLOCK, 2) backward(const Backward<T> s) {
    enum { TEAMS = BLOCK / TEAM };
    const int lane = threadIdx.x % TEAM;
    Chunk<T, N> w[ITEMS];
    load_row<T, N, ITEMS, TEAM>(w, s.w_C, s.C, true);
    float dw[ITEMS][N] = {};
    int turn = 0;
    for (int64_t first = (int64_t)blockIdx.x * TEAMS; first < s.row_n; first += (int64_t)gridDim.x * TEAMS) {
        const int64_t row = first + threadIdx.x / TEAM;
        const bool is_row = row < s.row_n;
        int64_t g;
        const int64_t n = divide(row, s.G, &g), column = g * s.C;
        const T *dx_add = s.dx_add == nullptr ? nullptr : s.dx_add + n * s.dx_stride + column;
        Chunk<T, N> x[ITEMS], dy[ITEMS], add[ITEMS];
        load_row<T, N, ITEMS, TEAM>(x, s.x + n * s.x_stride + column, s.C, is_row);
        load_row<T, N, ITEMS, TEAM>(dy, s.dy + n * s.dy_stride + column, s.C, is_row);
        if constexpr (ITEMS <= 2) load_row<T, N, ITEMS, TEAM>(add, dx_add, s.C, is_row && s.dx_add != nullptr);
        const float rstd = is_row ? s.rstd_NG[row] : 0.0f;
        float sum = 0;
        for (int k = 0; k < ITEMS; k++) {
            for (int i = 0; i < N; i++) {
                const float dy_i = element(dy[k], i), xhat = element(x[k], i) * rstd;
                sum += element(w[k], i) * dy_i * xhat;
                dw[k][i] += dy_i * xhat;
            }
        }
        const float mean = team_sum<TEAM>(sum, turn) / (float)s.C;
        turn ^= 1;
        for (int k = 0; k < ITEMS; k++) {
            keep_packed(x[k]);
            keep_packed(dy[k]);
            keep_packed(w[k]);
        }
        if constexpr (ITEMS > 2) /* later, for want of registers */
            load_row<T, N, ITEMS, TEAM>(add, dx_add, s.C, is_row && s.dx_add != nullptr);
        if (!is_row) continue;
        T *dx = s.dx + n * s.dx_stride + column;
        for (int k = 0; k < ITEMS; k++) {
            const int at = (k * TEAM + lane) * N;
            float value[N];
            for (int i = 0; i < N; i++) {
                const float xhat = element(x[k], i) * rstd;
                value[i] = element(add[k], i) + rstd * (element(w[k], i) * element(dy[k], i) - xhat * mean);
            }
            if (at < s.C) store_chunk(dx + at, chunk_of<T>(value));
        }
    }
    store_partial<N, ITEMS, TEAM>(s.partial_PC + blockIdx.x * s.C, dw, s.C);
}

/* Columns belong to threads here too, so the partial sums can gather in global memory. */
template <class T> __global__ void __launch_bounds__(BLOCK) backward_long(const Backward<T> s) {
    float *dw = s.partial_PC + blockIdx.x * s.C;
    int turn = 0;
    for (int64_t row = blockIdx.x; row < s.row_n; row += gridDim.x) {
        int64_t g;
        const int64_t n = divide(row, s.G, &g), column = g * s.C;
        const T *x = s.x + n * s.x_stride + column, *dy = s.dy + n * s.dy_stride + column;
        T *dx = s.dx + n * s.dx_stride + column;
        const float rstd = s.rstd_NG[row];
        float sum = 0;
        for (int64_t c = threadIdx.x; c < s.C; c += BLOCK) {
            const float dy_c = to_float(dy[c]), xhat = to_float(x[c]) * rstd;
            sum += to_float(s.w_C[c]) * dy_c * xhat;
            dw[c] = (row == blockIdx.x ? 0.0f : dw[c]) + dy_c * xhat;
        }
        const float mean = team_sum<BLOCK>(sum, turn) / (float)s.C;
        turn ^= 1;
        for (int64_t c = threadIdx.x; c < s.C; c += BLOCK) {
            const float xhat = to_float(x[c]) * rstd;
            const float value = rstd * (to_float(s.w_C[c]) * to_float(dy[c]) - xhat * mean);
            const float added = s.dx_add == nullptr ? 0.0f : to_float(s.dx_add[n * s.dx_stride + column + c]);
            dx[c] = from_float<T>(added + value);
        }
    }
}

/* The blocks of a backward whose teams have `team` threads with `items` chunks each. */
int blocks_backward(int64_t row_n, int64_t C, int team, int items) {
    const int64_t needed = blocks_of(row_n, BLOCK / team), fit = PARTIAL_N / C > 1 ? PARTIAL_N / C : 1;
    const int64_t most = min((int64_t)(items == 1 ? SHORT_ROW_BLOCKS : ROW_BLOCKS), fit);
    return (int)min(needed, most);
}

template <int N, int ITEMS, int TEAM, class T> int launch(const fw_cuda_launch *l, const Forward<T> &s) {
    FW_LAUNCH((forward<T, N, ITEMS, TEAM>), (unsigned)blocks_of(s.row_n, BLOCK / TEAM), BLOCK, 0, stream_of(l), s);
    return launch_status();
}
template <class T> int launch_long(const fw_cuda_launch *l, const Forward<T> &s) {
    FW_LAUNCH((forward_long<T>), (unsigned)s.row_n, BLOCK, 0, stream_of(l), s);
    return launch_status();
}
/* These return the number of partial sums. */
template <int N, int ITEMS, int TEAM, class T> int launch(const fw_cuda_launch *l, const Backward<T> &s) {
    const int blocks = blocks_backward(s.row_n, s.C, TEAM, ITEMS);
    FW_LAUNCH((backward<T, N, ITEMS, TEAM>), (unsigned)blocks, BLOCK, 0, stream_of(l), s);
    return blocks;
}
template <class T> int launch_long(const fw_cuda_launch *l, const Backward<T> &s) {
    const int blocks = blocks_backward(s.row_n, s.C, BLOCK, 0);
    FW_LAUNCH((backward_long<T>), (unsigned)blocks, BLOCK, 0, stream_of(l), s);
    return blocks;
}

/* The smallest team that holds a row. */
template <class T, class Arguments> int launch_fitting(const fw_cuda_launch *l, const Arguments &s, bool packed) {
    enum { N = Pack<T>::N };
    if (packed) {
        if (s.C <= 16 * N) return launch<N, 1, 16>(l, s);
        if (s.C <= 32 * N) return launch<N, 1, 32>(l, s);
        if (s.C <= 128 * N) return launch<N, 1, 128>(l, s);
        if (s.C <= BLOCK * N) return launch<N, 1, BLOCK>(l, s);
        if (s.C <= 2 * BLOCK * N) return launch<N, 2, BLOCK>(l, s);
        if (s.C <= 4 * BLOCK * N) return launch<N, 4, BLOCK>(l, s);
    }
    if (s.C <= 4 * 32) return launch<1, 4, 32>(l, s);
    if (s.C <= 8 * BLOCK) return launch<1, 8, BLOCK>(l, s);
    return launch_long(l, s);
}

template <class T> int run(const fw_cuda_launch *l, const Forward<T> &s) {
    return launch_fitting<T>(l, s,
                             is_packed<T>(s.y, s.C, s.y_stride) && is_packed<T>(s.x, s.C, s.x_stride) &&
                                 is_packed<T>(s.w_C, s.C, s.C));
}
template <class T> int run(const fw_cuda_launch *l, const Backward<T> &s, float *dw_C) {
    const bool packed = is_packed<T>(s.dx, s.C, s.dx_stride) && is_packed<T>(s.dy, s.C, s.dy_stride) &&
                        is_packed<T>(s.dx_add, s.C, s.dx_stride) && is_packed<T>(s.x, s.C, s.x_stride) &&
                        is_packed<T>(s.w_C, s.C, s.C);
    const int P = launch_fitting<T>(l, s, packed), status = launch_status();
    return status != 0 || dw_C == nullptr ? status : launch_column_sums(l, dw_C, s.partial_PC, P, s.C);
}

} // namespace

size_t fw_cuda_scratch_rmsnorm_backward(const fw_cuda_limits *limits) {
    const int64_t C = max(limits->dim, limits->D), most = max(C, (int64_t)PARTIAL_N);
    return (size_t)min(SHORT_ROW_BLOCKS * C, most) * sizeof(float);
}

int fw_cuda_rmsnorm_forward(const fw_cuda_launch *l, void *y, int64_t y_stride, float *rstd_NG, const void *x,
                            int64_t x_stride, const void *w_C, float eps, int64_t N, int64_t G, int64_t C, fw_dtype t) {
    if (N * G == 0) return 0;
    FW_BY_TYPE(t, return run(l, Forward<T>{(T *)y, y_stride, rstd_NG, (const T *)x, x_stride, (const T *)w_C, eps,
                                           N * G, G, C}));
}

int fw_cuda_rmsnorm_backward(const fw_cuda_launch *l, void *dx, int64_t dx_stride, float *dw_C, const void *dy,
                             int64_t dy_stride, const void *dx_add, const void *x, int64_t x_stride, const void *w_C,
                             const float *rstd_NG, int64_t N, int64_t G, int64_t C, fw_dtype t) {
    if (N * G == 0) return 0;
    FW_BY_TYPE(t,
               return run(l,
                          Backward<T>{(T *)dx, dx_stride, (float *)l->scratch, (const T *)dy, dy_stride,
                                      (const T *)dx_add, (const T *)x, x_stride, (const T *)w_C, rstd_NG, N * G, G, C},
                          dw_C));
}
