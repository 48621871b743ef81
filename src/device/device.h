/* The contract of a device: memory, and the operations a transformer's training step is made of.
 *
 * A model calls the inline functions below (fw_rmsnorm_forward(d, ...)); each goes through the device's
 * vtable. An operation is issued in order on the device's compute stream; on the CPU it is done when it
 * returns. All pointers are device memory unless said otherwise, row-major, and do not overlap unless said
 * otherwise. Sizes are element counts. Any N >= 0 is allowed; N = 0 does nothing (sums get nothing added).
 *
 * Legend: N rows (tokens), C hidden, H query heads, K key/value heads (H % K == 0), D head size,
 * E = D / 2, G rows in a group, F feed-forward, V vocabulary, I inputs, O outputs, P positions, R rank of an adapter.
 * `t` is the compute type, FW_F32 or FW_BF16; `void *` tensors have it. Gradients of weights, statistics and
 * losses are fp32. Every sum over rows or columns is carried in fp32 or better, whatever `t` is, in an order
 * that depends on the shape alone, so equal calls give equal bits. Between its inputs and its result an operation
 * rounds in fp32 or better, except where said otherwise. A device may take subnormal numbers for zero.
 * tests/support/op_bounds.c derives from this how far each result may be from the exact one.
 *
 * embedding_forward       y[n] = w[id[n]]                               ids must be in 0..V-1 (checked by callers)
 * embedding_backward      dw[id[n]] += dy[n], in order of n
 * rmsnorm_forward         y = w * x * rstd,  rstd = 1 / sqrt(mean(x^2) + eps)
 *                         Row (n, g) of x starts at x + n * x_stride + g * C: with G = 1 a plain norm over C
 *                         (x_stride >= C), with G = heads the norm of every head of packed queries or keys.
 *                         y may be x. Zhang, Sennrich 2019. The multiplication by w happens after rounding
 *                         x * rstd to t, as Hugging Face models do.
 * rmsnorm_backward        dx = dx_add + rstd * (w*dy - xhat * mean(w*dy*xhat)),  dw += sum over rows dy * xhat,
 *                         xhat = x * rstd. dx_add (layout of dx) may be NULL or equal dx; dx may be dy. dw may be NULL: the
 *                         weight is frozen.
 * rope                    rotates, in place, the pairs (x[e], x[e + D/2]) of every head by the angle of its
 *                         position: a' = a cos - b sin, b' = b cos + a sin; direction -1 rotates back, which is
 *                         the gradient. Row (n, g) at x + n * x_stride + g * D. Tables are fp32 [P, D/2]. Su 2021.
 * matmul_forward          y = x w^T + b       b may be NULL; y has type t_y (t or FW_F32)
 * matmul_backward_input   dx = dy w
 * matmul_backward_weight  dw += dy^T x        accumulated in fp32, in place
 * bias_backward           db += sum over rows of dy
 * swiglu_forward          h = silu(gate) * up,  silu(x) = x / (1 + exp(-x)); a row of gu is [gate F | up F]
 * swiglu_backward         dgu from dh and gu; dgu may be gu
 * add                     y = a + b; y may be a or b
 * attention_forward       o = softmax(scale * q k^T) v for query n at key position q_offset + n, over the keys
 *                         first[n] .. q_offset + n. That gives causal attention (first NULL means 0) where packed
 *                         documents do not see each other. Query head h uses key/value head h / (H / K).
 *                         q, k, v row n at q + n * q_stride, k + n * k_stride, v + n * v_stride (they point into
 *                         packed projections as a rule); o is [N, H, D] and lse [N, H] = log of the softmax denominator
 *                         (natural, maximum included); lse may be NULL. There are q_offset + N keys.
 *                         first[n] is the row where n's document begins, whose own first it is too: it does not decrease
 *                         and first[n] <= q_offset + n. No N x N matrix is stored.
 *                         Probabilities may be rounded to t before they meet v.
 * attention_backward      dq, dk, dv (written, not added) from do, with q_offset = 0. With p = exp(scale * q k - lse)
 *                         and ds = p * (do . v - do . o): dv = sum p do, dq = scale * sum ds k, dk = scale * sum ds q.
 *                         p and ds may be rounded to t before these products.
 * cross_entropy           loss[n] = log(sum exp(logits[n])) - logits[n][label[n]];
 *                         dlogits = scale * (softmax - onehot), skipped when dlogits is NULL.
 *                         labels must be in 0..V-1; rows without a target are not passed. dlogits has type t
 *                         and may share memory with logits only when t is FW_F32.
 * gather_rows             y[i] = x[row[i]]
 * scatter_rows            y = 0, then y[row[i]] = x[i]; rows are distinct
 * Adapters (LoRA: Hu 2021, r = rank; DoRA: Liu 2024). A module with weight W [O, I] writes to y, rows y_stride apart: it
 * may be a part of a packed row (q of q|k|v). A is [R, I] and B [O, R], scale is alpha / r or alpha / sqrt(r).
 *
 * lora_expand             y += scale * u B^T    forward: u = x A^T (matmul_forward) [N, R]; sum and y in fp32, rounded once
 * lora_reduce             du = scale * dy B     backward of lora_expand to u
 * lora_backward_b         db += scale * dy^T u  backward of lora_expand to B; accumulated in fp32, in place
 * lora_backward_input     dx += du A            the adapter's part of dx; the base's must be there. With dropout instead
 *                         matmul_backward_input into a buffer of its own, then dropout with `add`. A's gradient is
 *                         matmul_backward_weight(du, x), with x as it was when u was made: dropped.
 * dropout                 y = keep ? x / (1 - p) : 0, for a row n and channel c a function of (key[n], salt, c) and p alone
 *                         (device/dropout.h): the same on every device and for any micro-batch, and again backward, where
 *                         the same call turns dy to dx. add: to y, which is there. y may be x. salt: the module.
 * dora_norm               norm[o] = || W[o] + scale * B[o] A || over I, fp32; constant in the gradient, as PEFT has it
 * dora_scale              y = keep * y + factor * x * m / norm + b, column by column. m and norm may both be NULL, for 1; b
 *                         may be NULL; with keep = 0 y is not read; y may be x. Forward: y = z m / norm + b with
 *                         z = W x + scale * B A x. Backward: dz = dy m / norm, which goes where dy went without DoRA.
 *                         With dropout PEFT has y = W x + b + (m / norm - 1) W x' + m / norm * scale * B A x', x' dropped:
 *                         y = y - W x' (keep 1, factor -1), then y = y + z' m / norm (keep 1), with z' in a buffer.
 * dora_backward_m         dm += sum over rows of dy z / norm, with z before dora_scale: kept, or computed once more
 *
 * unpack_4bit             y[i] = map[code of i] * scale of i's block, i < n, in fp32, then rounded to t: quant/quant.h.
 *                         scales->block is even; its pointers are device memory, the structure itself is the host's.
 *                         Equal bits on every device (but for subnormal numbers), and to bitsandbytes.
 * adamw                   Loshchilov, Hutter 2019, decoupled decay, on g' = g * grad_scale:
 *                           m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
 *                           w = w - lr * (weight_decay * w + (m / (1 - b1^step)) / (sqrt(v / (1 - b2^step)) + eps))
 *                         then w_compute = round(w) to type t when it is not NULL, and g = 0.
 *                         With step 1, m and v count as zero whatever they hold: they are written, not read.
 * optimizer_step          one update by another rule (device/step_options.h), on g' = g * grad_scale; what a rule does not
 *                         use may be NULL. With step 1, m and v count as zero. Rules that write w clear g.
 *                         SGD (m NULL: without momentum): d = g' + weight_decay w;
 *                           m = momentum m + (1 - dampening) d, at step 1 m = d;  d = nesterov ? d + momentum m : m
 *                           w = w - lr d
 *                         LION (Chen 2023): w = w - lr (weight_decay w + sign(b1 m + (1 - b1) g'));
 *                           m = b2 m + (1 - b2) g'
 *                         LAMB (You 2020): m, v as adamw; g = mhat / (sqrt(vhat) + eps) + weight_decay w
 *                         VECTOR (Shazeer, Stern 2018): v = b2 v + (1 - b2) (g'^2 + eps);  g = g' / sqrt(v)
 *                         ALONG: w = w - lr (weight_decay w + along g); grad_scale plays no part
 * step_8bit               adamw, or LION when code2 is NULL, with m and v in codes and scales of blocks of 256 elements
 *                         (quant/dynamic_map.h); n elements from the start of a block. Codes and scales have the same bits
 *                         on every device: m = fma(g', 1 - b1, m b1), v = fma((1 - b2) g', g', v b2), fp32.
 * factored_sums           adafactor: of elements [first, first + n) of a matrix [R, C], g from the first of them on:
 *                         row[r], col[c] = sums of (g grad_scale)^2 + epsilon; 0 where there is none of them
 * factored_moments        row = beta2 row + (1 - beta2) sum_R / C,  col = beta2 col + (1 - beta2) sum_C / R, from the sums
 *                         of the whole matrix, sum_RC [R + C], which become sqrt(mean(row) / row) and 1 / sqrt(col)
 * factored_direction      g = g grad_scale factor_R[r] factor_C[c], for elements [first, first + n)
 * sum_squares             *out (host memory) = sum x^2, summed in fp64 by blocks of fixed size; waits for the device
 * scale                   x = x * factor
 * cast                    y = x in another type (fp32, bf16, fp16), n elements
 * zero, copy              bytes; copy is between any of host and device memory and waits for the device
 */
#ifndef FW_DEVICE_DEVICE_H
#define FW_DEVICE_DEVICE_H

#include "base/dtype.h"
#include "base/status.h"
#include "base/threads.h"
#include "device/adamw_options.h"
#include "device/step_options.h"
#include "quant/quant_scales.h"

#include <stddef.h>
#include <stdint.h>

typedef struct fw_device fw_device;

/* Who computes attention on a GPU: what serves best there, finewire's own kernels, or cuDNN. */
typedef enum fw_attention_choice { FW_ATTENTION_AUTO, FW_ATTENTION_OWN, FW_ATTENTION_CUDNN } fw_attention_choice;

/* The one shape of attention that a run has, for libraries that want to know it beforehand; all 0: not known, and left to
 * the device's own kernels. */
typedef struct fw_attention_limits {
    fw_attention_choice choice;
    fw_dtype t;
    int64_t document_n, longest_n;                   /* packed documents of a micro-batch at most, rows of the longest;
                                                         0: as many as there are rows */
    int64_t q_stride, k_stride, v_stride, dq_stride; /* as in the calls of attention */
    int backward;                                    /* there will be backward passes */
} fw_attention_limits;

/* The largest shapes a run will use: scratch memory is sized from them once, before the first step. */
typedef struct fw_device_limits {
    int64_t N;          /* rows of the largest micro-batch or chunk, or keys if more (q_offset + rows) */
    int64_t matmul_dim; /* largest I or O of a matrix product */
    int64_t H, K, D;    /* attention heads and head size */
    fw_attention_limits attention;
} fw_device_limits;

/* The plan is complete. What asks for memory afterwards was missed by it: an error in tests, and on a user's machine,
 * where the run can go on, a warning that names it. */
typedef enum fw_freeze { FW_NOT_FROZEN, FW_FROZEN_WARN, FW_FROZEN_STRICT } fw_freeze;

typedef struct fw_device_ops {
#define FW_OP(name, parameters, arguments) fw_status(*name) FW_OP_PARAMETERS parameters;
#define FW_OP_PARAMETERS(...) (fw_device * d, __VA_ARGS__)
#include "device/ops.def"
#undef FW_OP
#undef FW_OP_PARAMETERS
    /* Memory for planned arenas: 64-byte aligned, zeroed. lazy: see fw_device_alloc_lazy. free takes NULL. */
    fw_status (*alloc)(fw_device *d, void **out, size_t bytes, int lazy);
    void (*free)(fw_device *d, void *block, size_t bytes);
    void (*take_pages)(fw_device *d, void *block, size_t bytes); /* NULL: nothing to do */
    /* What of the device's own memory could still be taken, and all of it; NULL: it is the host's memory. */
    fw_status (*memory)(fw_device *d, uint64_t *free_bytes, uint64_t *total_bytes);
    /* Make scratch for shapes up to `limits`; *bytes is what it takes. With `dry` only tells. Either way attention is
     * chosen: fw_device.attention. */
    fw_status (*reserve)(fw_device *d, const fw_device_limits *limits, int dry, size_t *bytes);
    void (*destroy)(fw_device *d);
} fw_device_ops;

struct fw_device {
    const fw_device_ops *ops;
    const char *name;                   /* "ref", "cpu" */
    char description[160];              /* what computes: "cpu: AVX-512, fp32 products by oneDNN 2.6.3, 1 thread" */
    char attention[256];                /* who computes it, since fw_device_reserve; "": the device has no choice */
    fw_threads *threads;                /* borrowed; NULL: one thread */
    size_t allocated_bytes, peak_bytes; /* planned memory and scratch now, and the most ever */
    fw_freeze frozen;                   /* what an allocation means from now on */
    int on_host;                        /* device memory is memory of this process: the host may use it directly */
    const struct fw_gpu *gpu;           /* device/gpu.h; NULL: no GPU */
};

/* Which of the processes of this machine asks: it decides which GPU is taken. */
typedef struct fw_device_place {
    int local_rank, local_world;
} fw_device_place;

/* name: "ref", "cpu", "cuda" or "auto" (cuda where it can be used, else cpu; the description says why). The pool is
 * borrowed until destroy. place NULL: the only process. Errors: FW_ERR_OPTION (unknown name; no plugin, driver or GPU). */
fw_status fw_device_create_at(fw_device **out, const char *name, fw_threads *threads, const fw_device_place *place);
fw_status fw_device_create(fw_device **out, const char *name, fw_threads *threads);
/* Memory that a plan may count on, where the device has its own. Error: FW_ERR_INTERNAL for a device without. */
fw_status fw_device_memory(fw_device *d, uint64_t *free_bytes, uint64_t *total_bytes);
void fw_device_destroy(fw_device *d);
/* Errors: FW_ERR_FIT after fw_device_freeze to FW_FROZEN_STRICT; FW_ERR_NOMEM. `what` names the memory in messages. */
fw_status fw_device_alloc(fw_device *d, void **out, size_t bytes, const char *what);
/* The same for memory that is written before it is read: its pages are taken by the first write, not here. No check is
 * lost by that: the plan has compared all of it with what is free, and a system that runs out of pages all the same ends
 * the process at a write, an early one or a late one; it never refuses one with an error. */
fw_status fw_device_alloc_lazy(fw_device *d, void **out, size_t bytes, const char *what);
/* Take the pages of a block from elsewhere (fw_comm_alloc) now, with all threads. Its contents stay. */
void fw_device_take_pages(fw_device *d, void *block, size_t bytes);
void fw_device_free(fw_device *d, void *block, size_t bytes);
/* Both choose who computes attention. Error: FW_ERR_OPTION where limits->attention.choice cannot be had; FW_ERR_FIT. */
fw_status fw_device_reserve(fw_device *d, const fw_device_limits *limits);
fw_status fw_device_scratch_bytes(fw_device *d, const fw_device_limits *limits, size_t *bytes);
void fw_device_freeze(fw_device *d, fw_freeze how);
/* Whether memory may still be taken: devices ask before their scratch grows. Error: FW_ERR_FIT. */
fw_status fw_device_check_frozen(const fw_device *d, const char *what, size_t bytes);
/* FW_ERR_INTERNAL naming the first operation the vtable lacks. */
fw_status fw_device_check_complete(const fw_device *d);

#define FW_OP_PARAMETERS(...) (fw_device * d, __VA_ARGS__)
#define FW_OP_ARGUMENTS(...) (d, __VA_ARGS__)
#define FW_OP(name, parameters, arguments)                                                                             \
    static inline fw_status fw_##name FW_OP_PARAMETERS parameters { return d->ops->name FW_OP_ARGUMENTS arguments; }
#include "device/ops.def"
#undef FW_OP
#undef FW_OP_PARAMETERS
#undef FW_OP_ARGUMENTS

#endif
