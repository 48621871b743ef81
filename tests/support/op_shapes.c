/* The shapes that matter, operation by operation: sizes 0 and 1, odd sizes, rows with gaps, groups of heads, head sizes
 * that models have, packed documents, one-token decoding, shared buffers, values at the ends of the range. */
#include "support/op_cases.h"

/* Each list ends with a shape without a name. */
#define SHAPES(op, ...) const fw_op_shape fw_op_shapes_##op[] = {__VA_ARGS__, {.name = NULL}};

#define HUGE_VALUES .magnitude = 1e9
#define DENORMALS .magnitude = 0x1p-130

SHAPES(embedding_forward, {.name = "no rows", .N = 0, .C = 4, .V = 3}, {.name = "one number", .N = 1, .C = 1, .V = 1},
       {.name = "odd", .N = 65, .C = 97, .V = 101}, {.name = "aligned rows", .N = 9, .C = 128, .V = 31})

SHAPES(embedding_backward, {.name = "no rows", .N = 0, .C = 4, .V = 3}, {.name = "one row", .N = 1, .C = 1, .V = 1},
       {.name = "repeated ids", .N = 130, .C = 33, .V = 5}, {.name = "odd", .N = 65, .C = 97, .V = 101},
       {.name = "many rows", .N = 2100, .C = 4, .V = 700})

#define NORM_SHAPES                                                                                                    \
    {.name = "one number", .N = 1, .G = 1, .C = 1}, {.name = "plain", .N = 5, .G = 1, .C = 576},                       \
        {.name = "odd", .N = 33, .G = 1, .C = 97}, {.name = "wide", .N = 3, .G = 1, .C = 2048},                        \
        {.name = "wider", .N = 2, .G = 1, .C = 5120},                                                                  \
        {.name = "heads in packed rows", .N = 7, .G = 9, .C = 64, .gap = 384},                                         \
        {.name = "heads of 128, rows off alignment", .N = 4, .G = 3, .C = 128, .gap = 1},                              \
        {.name = "heads of 80", .N = 3, .G = 2, .C = 80, .gap = 3},                                                    \
        {.name = "zero rows", .N = 4, .G = 1, .C = 64, .zero = 1},                                                     \
        {.name = "huge", .N = 3, .G = 1, .C = 100, HUGE_VALUES},                                                       \
        {.name = "denormal", .N = 3, .G = 1, .C = 100, DENORMALS}, {                                                   \
        .name = "no rows", .N = 0, .G = 1, .C = 8                                                                      \
    }

SHAPES(rmsnorm_forward, NORM_SHAPES, {.name = "in place", .N = 6, .G = 2, .C = 65, .gap = 5, .in_place = 1})

SHAPES(rmsnorm_backward, NORM_SHAPES, {.name = "many rows", .N = 300, .G = 1, .C = 33},
       {.name = "rows in turns", .N = 440, .G = 1, .C = 129}, /* more than a GPU has blocks of them at a time */
       {.name = "aligned rows in turns", .N = 440, .G = 1, .C = 1032},
       {.name = "long rows in turns", .N = 220, .G = 1, .C = 2049},
       {.name = "dx added to another", .N = 5, .G = 1, .C = 65, .with_add = 1},
       {.name = "dx added to itself", .N = 5, .G = 1, .C = 65, .gap = 2, .with_add = 2},
       {.name = "dx is dy", .N = 5, .G = 2, .C = 65, .gap = 2, .in_place = 1},
       {.name = "dx is dy, added to another", .N = 5, .G = 1, .C = 64, .with_add = 1, .in_place = 1})

SHAPES(rope, {.name = "no rows", .N = 0, .G = 1, .D = 16, .direction = 1},
       {.name = "one pair", .N = 1, .G = 1, .D = 2, .direction = 1},
       {.name = "heads of 16", .N = 9, .G = 4, .D = 16, .gap = 7, .direction = 1},
       {.name = "packed heads of 64", .N = 33, .G = 9, .D = 64, .gap = 384, .direction = 1},
       {.name = "back, heads of 64", .N = 33, .G = 3, .D = 64, .direction = -1},
       {.name = "heads of 80", .N = 5, .G = 3, .D = 80, .gap = 1, .direction = 1},
       {.name = "back, heads of 128", .N = 5, .G = 2, .D = 128, .direction = -1},
       {.name = "heads of 22", .N = 5, .G = 2, .D = 22, .direction = 1},
       {.name = "huge", .N = 3, .G = 1, .D = 64, .direction = 1, HUGE_VALUES},
       {.name = "denormal", .N = 3, .G = 1, .D = 64, .direction = 1, DENORMALS})

#define MATMUL_SHAPES                                                                                                  \
    {.name = "one number", .N = 1, .O = 1, .C = 1}, {.name = "one row", .N = 1, .O = 192, .C = 576},                   \
        {.name = "small odd", .N = 7, .O = 5, .C = 3}, {.name = "odd", .N = 33, .O = 97, .C = 65},                     \
        {.name = "even", .N = 64, .O = 128, .C = 96}, {.name = "vocabulary odd", .N = 5, .O = 1003, .C = 64},          \
        {.name = "long sum", .N = 9, .O = 24, .C = 1536}, {.name = "many rows", .N = 259, .O = 48, .C = 32},           \
        {.name = "zero rows", .N = 6, .O = 17, .C = 40, .zero = 1},                                                    \
        {.name = "huge", .N = 5, .O = 17, .C = 40, HUGE_VALUES},                                                       \
        {.name = "denormal", .N = 5, .O = 17, .C = 40, DENORMALS}, {                                                   \
        .name = "no rows", .N = 0, .O = 3, .C = 4                                                                      \
    }

SHAPES(matmul_forward, MATMUL_SHAPES, {.name = "no bias", .N = 33, .O = 97, .C = 65, .without = 1},
       {.name = "no bias, fp32 result", .N = 5, .O = 1003, .C = 64, .without = 1, .wide_output = 1},
       {.name = "bias, fp32 result", .N = 17, .O = 33, .C = 64, .wide_output = 1})

SHAPES(matmul_backward_input, MATMUL_SHAPES)

SHAPES(matmul_backward_weight, MATMUL_SHAPES)

SHAPES(bias_backward, {.name = "no rows", .N = 0, .O = 3}, {.name = "one number", .N = 1, .O = 1},
       {.name = "one row", .N = 1, .O = 193}, {.name = "many rows", .N = 1025, .O = 17},
       {.name = "wide", .N = 33, .O = 960}, {.name = "huge", .N = 5, .O = 17, HUGE_VALUES})

#define SWIGLU_SHAPES                                                                                                  \
    {.name = "one number", .N = 1, .C = 1}, {.name = "odd", .N = 7, .C = 257}, {.name = "wide", .N = 5, .C = 1536},    \
        {.name = "zero rows", .N = 5, .C = 33, .zero = 1}, {.name = "far out", .N = 5, .C = 129, .magnitude = 60},     \
        {.name = "huge", .N = 3, .C = 40, HUGE_VALUES}, {.name = "denormal", .N = 3, .C = 40, DENORMALS}, {            \
        .name = "no rows", .N = 0, .C = 8                                                                              \
    }

SHAPES(swiglu_forward, SWIGLU_SHAPES)

SHAPES(swiglu_backward, SWIGLU_SHAPES, {.name = "in place", .N = 7, .C = 65, .in_place = 1})

SHAPES(add, {.name = "nothing", .C = 0}, {.name = "one number", .C = 1}, {.name = "odd", .C = 1031},
       {.name = "y is a", .C = 65, .in_place = 1}, {.name = "y is b", .C = 65, .in_place = 2},
       {.name = "huge", .C = 65, HUGE_VALUES}, {.name = "zero", .C = 65, .zero = 1})

/* "tiles": several tiles of rows and keys on devices that work in tiles, documents that end inside them. */
#define ATTENTION_SHAPES                                                                                               \
    {.name = "one token", .N = 1, .H = 1, .K = 1, .D = 16},                                                            \
        {.name = "3 heads a group, 64", .N = 37, .H = 9, .K = 3, .D = 64, .gap = 64},                                  \
        {.name = "8 heads a group, 80", .N = 19, .H = 8, .K = 1, .D = 80, .gap = 3},                                   \
        {.name = "a head each, 128", .N = 21, .H = 2, .K = 2, .D = 128},                                               \
        {.name = "long", .N = 133, .H = 3, .K = 1, .D = 16, .gap = 1},                                                 \
        {.name = "documents", .N = 65, .H = 6, .K = 2, .D = 16, .gap = 5, .packed = 1},                                \
        {.name = "documents, long heads", .N = 23, .H = 2, .K = 1, .D = 128, .packed = 1},                             \
        {.name = "tiles, 7 heads a group, 64", .N = 150, .H = 7, .K = 1, .D = 64, .gap = 64, .packed = 90},            \
        {.name = "tiles, 96", .N = 131, .H = 2, .K = 1, .D = 96},                                                      \
        {.name = "tiles, 128", .N = 133, .H = 2, .K = 1, .D = 128, .gap = 8, .packed = 40},                            \
        {.name = "tiles, 256", .N = 75, .H = 1, .K = 1, .D = 256},                                                     \
        {.name = "large scores", .N = 17, .H = 2, .K = 1, .D = 64, .magnitude = 12},                                   \
        {.name = "zero queries", .N = 17, .H = 2, .K = 1, .D = 64, .zero = 1},                                         \
        {.name = "denormal", .N = 9, .H = 2, .K = 1, .D = 16, DENORMALS}, {                                            \
        .name = "no rows", .N = 0, .H = 2, .K = 1, .D = 16                                                             \
    }

SHAPES(attention_forward, ATTENTION_SHAPES, {.name = "no lse", .N = 5, .H = 2, .K = 1, .D = 64, .without = 1},
       {.name = "next token", .N = 1, .H = 9, .K = 3, .D = 64, .q_offset = 70},
       {.name = "next token of a document", .N = 1, .H = 4, .K = 4, .D = 80, .q_offset = 45, .packed = 1, .gap = 2},
       {.name = "next token after many", .N = 1, .H = 7, .K = 1, .D = 64, .q_offset = 600, .packed = 550},
       {.name = "next chunk after many", .N = 5, .H = 6, .K = 2, .D = 128, .q_offset = 500},
       {.name = "next chunk", .N = 12, .H = 8, .K = 1, .D = 128, .q_offset = 31},
       {.name = "next chunk of documents", .N = 12, .H = 3, .K = 1, .D = 16, .q_offset = 31, .packed = 1})

SHAPES(attention_backward, ATTENTION_SHAPES)

SHAPES(cross_entropy, {.name = "no rows", .N = 0, .V = 5}, {.name = "one word", .N = 3, .V = 1},
       {.name = "odd", .N = 7, .V = 1003}, {.name = "vocabulary", .N = 2, .V = 49152},
       {.name = "no gradient", .N = 5, .V = 131, .without = 1}, {.name = "peaks", .N = 5, .V = 257, .magnitude = 40},
       {.name = "high peaks", .N = 5, .V = 64, .magnitude = 1e4}, {.name = "equal logits", .N = 4, .V = 100, .zero = 1},
       {.name = "in place", .N = 5, .V = 129, .in_place = 1})

SHAPES(gather_rows, {.name = "nothing", .G = 0, .N = 3, .C = 4}, {.name = "repeated", .G = 9, .N = 3, .C = 5},
       {.name = "odd", .G = 33, .N = 71, .C = 97}, {.name = "aligned rows", .G = 9, .N = 31, .C = 128})

SHAPES(scatter_rows, {.name = "no rows at all", .G = 0, .N = 0, .C = 4}, {.name = "nothing", .G = 0, .N = 3, .C = 4},
       {.name = "all rows", .G = 5, .N = 5, .C = 3}, {.name = "odd", .G = 33, .N = 71, .C = 97})

/* C is I. Rows of y and dy have gaps, as parts of packed rows have. */
#define LORA_SHAPES                                                                                                    \
    {.name = "one number", .N = 1, .O = 1, .C = 1, .R = 1},                                                            \
        {.name = "one row", .N = 1, .O = 192, .C = 576, .R = 16, .gap = 64},                                           \
        {.name = "small odd", .N = 7, .O = 5, .C = 3, .R = 3, .gap = 1},                                               \
        {.name = "rank 16 in packed rows", .N = 67, .O = 192, .C = 97, .R = 16, .gap = 384},                           \
        {.name = "rank 8, odd", .N = 33, .O = 97, .C = 65, .R = 8, .gap = 3},                                          \
        {.name = "rank 300", .N = 9, .O = 24, .C = 40, .R = 300},                                                      \
        {.name = "many rows", .N = 643, .O = 48, .C = 32, .R = 4, .gap = 16},                                          \
        {.name = "zero rows", .N = 6, .O = 17, .C = 40, .R = 2, .zero = 1},                                            \
        {.name = "huge", .N = 5, .O = 17, .C = 40, .R = 5, HUGE_VALUES},                                               \
        {.name = "denormal", .N = 5, .O = 17, .C = 40, .R = 5, DENORMALS}, {                                           \
        .name = "no rows", .N = 0, .O = 3, .C = 4, .R = 2                                                              \
    }

SHAPES(lora_expand, LORA_SHAPES)

SHAPES(lora_reduce, LORA_SHAPES)

SHAPES(lora_backward_b, LORA_SHAPES)

SHAPES(lora_backward_input, LORA_SHAPES)

SHAPES(dropout, {.name = "no rows", .N = 0, .C = 4}, {.name = "one number", .N = 1, .C = 1},
       {.name = "odd", .N = 33, .C = 97}, {.name = "aligned rows", .N = 17, .C = 576},
       {.name = "in place", .N = 9, .C = 65, .in_place = 1}, {.name = "added", .N = 33, .C = 97, .with_add = 1},
       {.name = "added, aligned rows", .N = 17, .C = 128, .with_add = 1},
       {.name = "huge", .N = 3, .C = 40, HUGE_VALUES}, {.name = "denormal", .N = 3, .C = 40, DENORMALS})

SHAPES(dora_norm, {.name = "one number", .O = 1, .C = 1, .R = 1}, {.name = "odd", .O = 13, .C = 97, .R = 3},
       {.name = "rank 16", .O = 40, .C = 576, .R = 16}, {.name = "wide", .O = 5, .C = 2052, .R = 8},
       {.name = "rank 300", .O = 9, .C = 68, .R = 300}, {.name = "long, rank 300", .O = 3, .C = 1100, .R = 300},
       {.name = "zero rows", .O = 6, .C = 40, .R = 2, .zero = 1},
       {.name = "huge", .O = 5, .C = 40, .R = 5, HUGE_VALUES})

SHAPES(dora_scale, {.name = "no rows", .N = 0, .O = 4}, {.name = "one number", .N = 1, .O = 1},
       {.name = "odd", .N = 7, .O = 97, .gap = 5}, {.name = "packed rows", .N = 33, .O = 192, .gap = 384},
       {.name = "added", .N = 7, .O = 97, .gap = 5, .with_add = 1},
       {.name = "added, packed rows", .N = 9, .O = 64, .gap = 64, .with_add = 1},
       {.name = "in place", .N = 7, .O = 65, .gap = 3, .in_place = 1},
       {.name = "no magnitude, no bias", .N = 7, .O = 64, .without = 1, .with_add = 1},
       {.name = "zero rows", .N = 6, .O = 17, .zero = 1}, {.name = "huge", .N = 5, .O = 17, HUGE_VALUES})

SHAPES(dora_backward_m, {.name = "no rows", .N = 0, .O = 3}, {.name = "one number", .N = 1, .O = 1},
       {.name = "one row", .N = 1, .O = 193, .gap = 7}, {.name = "many rows", .N = 1025, .O = 17, .gap = 1},
       {.name = "packed rows", .N = 33, .O = 960, .gap = 64}, {.name = "zero rows", .N = 6, .O = 17, .zero = 1},
       {.name = "huge", .N = 5, .O = 17, HUGE_VALUES})

/* C numbers in blocks of D; `without`: the scales are fp32, else in 8 bits, in blocks of G. */
SHAPES(unpack_4bit, {.name = "nothing", .C = 0, .D = 64, .G = 256}, {.name = "one number", .C = 1, .D = 64, .G = 256},
       {.name = "odd", .C = 1031, .D = 64, .G = 256}, {.name = "fp32 scales", .C = 1031, .D = 64, .without = 1},
       {.name = "whole blocks", .C = 4096, .D = 64, .G = 256}, {.name = "eights", .C = 1000, .D = 128, .G = 4},
       {.name = "blocks of 6", .C = 96, .D = 6, .G = 3},
       {.name = "blocks of 32, fp32 scales", .C = 2080, .D = 32, .without = 1},
       {.name = "one block", .C = 48, .D = 4096, .G = 256})

SHAPES(adamw, {.name = "nothing", .C = 0, .step = 1}, {.name = "first step", .C = 1031, .step = 1},
       {.name = "late step", .C = 517, .step = 12345}, {.name = "no copy, no decay", .C = 65, .step = 7, .without = 1},
       {.name = "no gradient", .C = 65, .step = 3, .zero = 1},
       {.name = "huge gradient", .C = 65, .step = 3, HUGE_VALUES},
       {.name = "tiny gradient", .C = 65, .step = 3, .magnitude = 1e-12})

SHAPES(optimizer_step, {.name = "nothing", .C = 0, .step = 1},
       {.name = "sgd", .C = 1031, .step = 3, .rule = FW_STEP_SGD, .without = 1},
       {.name = "sgd with momentum, first step", .C = 65, .step = 1, .rule = FW_STEP_SGD},
       {.name = "sgd with momentum", .C = 517, .step = 4, .rule = FW_STEP_SGD},
       {.name = "sgd, nesterov", .C = 517, .step = 4, .rule = FW_STEP_SGD, .in_place = 1},
       {.name = "lion, first step", .C = 1031, .step = 1, .rule = FW_STEP_LION},
       {.name = "lion", .C = 517, .step = 9, .rule = FW_STEP_LION},
       {.name = "lion, no gradient", .C = 65, .step = 9, .rule = FW_STEP_LION, .zero = 1},
       {.name = "lamb, first step", .C = 1031, .step = 1, .rule = FW_STEP_LAMB},
       {.name = "lamb", .C = 517, .step = 200, .rule = FW_STEP_LAMB},
       {.name = "lamb, huge gradient", .C = 65, .step = 3, .rule = FW_STEP_LAMB, HUGE_VALUES},
       {.name = "vector, first step", .C = 1031, .step = 1, .rule = FW_STEP_VECTOR},
       {.name = "vector", .C = 517, .step = 7, .rule = FW_STEP_VECTOR},
       {.name = "along", .C = 1031, .step = 1, .rule = FW_STEP_ALONG})

SHAPES(step_8bit, {.name = "nothing", .C = 0, .step = 1, .rule = FW_STEP_ADAMW},
       {.name = "adamw, one block", .C = 256, .step = 5, .rule = FW_STEP_ADAMW},
       {.name = "adamw, short block", .C = 1031, .step = 1, .rule = FW_STEP_ADAMW},
       {.name = "adamw, no gradient", .C = 300, .step = 5, .rule = FW_STEP_ADAMW, .zero = 1},
       {.name = "adamw, tiny gradient", .C = 520, .step = 2, .rule = FW_STEP_ADAMW, .magnitude = 1e-12},
       {.name = "lion", .C = 1031, .step = 5, .rule = FW_STEP_LION})

#define FACTORED_SHAPES                                                                                                \
    {.name = "all", .N = 7 * 33, .G = 7, .C = 33}, {.name = "cut rows", .N = 100, .first = 45, .G = 7, .C = 33},       \
        {.name = "inside a row", .N = 5, .first = 40, .G = 7, .C = 33},                                                \
        {.name = "many rows", .N = 600 * 3 - 1, .first = 1, .G = 600, .C = 3}, {                                       \
        .name = "many columns", .N = 900, .first = 300, .G = 2, .C = 700                                               \
    }
SHAPES(factored_sums, {.name = "none", .N = 0, .first = 40, .G = 7, .C = 33}, FACTORED_SHAPES)
SHAPES(factored_moments, FACTORED_SHAPES)
SHAPES(factored_direction, {.name = "none", .N = 0, .first = 40, .G = 7, .C = 33}, FACTORED_SHAPES)

SHAPES(sum_squares, {.name = "nothing", .C = 0}, {.name = "one number", .C = 1}, {.name = "odd", .C = 12289},
       {.name = "beyond fp32", .C = 65, .magnitude = 1e25}, {.name = "below fp32", .C = 65, .magnitude = 1e-25})

SHAPES(scale, {.name = "nothing", .C = 0}, {.name = "odd", .C = 1031}, {.name = "huge", .C = 65, HUGE_VALUES})

#define CAST_SHAPE(c_from, c_to)                                                                                       \
    { .name = #c_from " to " #c_to, .C = 1031, .from = c_from, .to = c_to }
SHAPES(cast, {.name = "nothing", .C = 0, .from = FW_F32, .to = FW_BF16}, CAST_SHAPE(FW_F32, FW_F32),
       CAST_SHAPE(FW_F32, FW_BF16), CAST_SHAPE(FW_F32, FW_F16), CAST_SHAPE(FW_BF16, FW_F32),
       CAST_SHAPE(FW_BF16, FW_BF16), CAST_SHAPE(FW_BF16, FW_F16), CAST_SHAPE(FW_F16, FW_F32),
       CAST_SHAPE(FW_F16, FW_BF16), CAST_SHAPE(FW_F16, FW_F16))

SHAPES(zero, {.name = "nothing", .C = 0}, {.name = "odd bytes", .C = 1031})

SHAPES(copy, {.name = "nothing", .C = 0}, {.name = "odd bytes", .C = 1031})
