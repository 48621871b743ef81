/* The table of packed documents that attention by a library needs (kernels/cuda_documents.cu), and rows spread out. */
#include "base/alloc.h"
#include "device/cuda/cuda_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#ifdef FW_HAS_SIMT

static const int64_t stride[FW_CUDA_DOCUMENT_STRIDES] = {1536, 1280, 1536, 1024, 8, 2048, 256};

/* length_n documents of these lengths, in a table with room for document_n. */
static void check(const int *length, int length_n, int64_t document_n, int64_t longest_n, int with_first) {
    const fw_cuda_launch l = {.sm_n = 1};
    const int64_t pitch = fw_cuda_documents_pitch(document_n);
    int64_t N = 0;
    for (int i = 0; i < length_n; i++) N += length[i];
    int32_t *first = NULL, *table;
    assert_int_equal(FW_NEW_ARRAY(table, (size_t)(FW_CUDA_DOCUMENT_ROWS * pitch)), FW_OK);
    assert_int_equal(FW_NEW_ARRAY(first, (size_t)N), FW_OK);
    for (int i = 0, n = 0; i < length_n; i++)
        for (int k = 0, start = n; k < length[i]; k++) first[n++] = start;
    assert_true(pitch > document_n && pitch % 4 == 0);
    assert_int_equal(fw_cuda_documents(&l, table, with_first ? first : NULL, N, document_n, longest_n, stride), 0);
    for (int64_t i = 0, start = 0; i <= document_n; i++) {
        const int n = i < length_n ? length[i] : 0;
        assert_int_equal(table[i], start);
        for (int s = 0; s < FW_CUDA_DOCUMENT_STRIDES; s++)
            assert_int_equal(table[(1 + s) * pitch + i], start * stride[s]);
        if (i < document_n) assert_int_equal(table[(FW_CUDA_DOCUMENT_ROWS - 1) * pitch + i], n);
        start += n;
    }
    fw_free(first);
    fw_free(table);
}

static void test_documents(void **state) {
    (void)state;
    check((const int[]){1}, 1, 1, 1, 1);
    check((const int[]){5, 1, 1, 9, 3}, 5, 5, 9, 1);    /* as many as there is room for */
    check((const int[]){5, 1, 1, 9, 3}, 5, 700, 40, 1); /* most are not there */
    check((const int[]){1025}, 1, 3, 2000, 1);          /* more rows than threads */
    check((const int[]){1000, 24, 1, 1023, 1, 1, 1050}, 7, 8, 1050, 1);
}

static void test_every_row_a_document(void **state) {
    (void)state;
    int length[2500];
    for (int i = 0; i < 2500; i++) length[i] = 1;
    check(length, 2500, 2500, 1, 1);
}

static void test_without_starts(void **state) {
    (void)state;
    check((const int[]){77}, 1, 1, 77, 0);
    check((const int[]){1500}, 1, 4, 1500, 0);
}

static void test_spread(void **state) {
    (void)state;
    const fw_cuda_launch l = {.sm_n = 1};
    enum { N = 3, GAP = 8 };
    for (int C = 5; C <= 16; C += 11) { /* single elements, and 16 bytes at a time */
        static _Alignas(16) fw_bf16 x[N * 16], y[N * (16 + GAP)], expected[N * (16 + GAP)];
        const int y_stride = C + GAP;
        memset(y, 0x77, sizeof y);
        memset(expected, 0x77, sizeof expected);
        for (int i = 0; i < N * C; i++) x[i] = (fw_bf16)(i + 1);
        for (int i = 0; i < N * C; i++) expected[i / C * y_stride + i % C] = x[i];
        assert_int_equal(fw_cuda_spread_rows(&l, y, y_stride, x, N, C, FW_BF16), 0);
        assert_memory_equal(y, expected, sizeof y);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_documents), cmocka_unit_test(test_every_row_a_document),
                                       cmocka_unit_test(test_without_starts), cmocka_unit_test(test_spread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without a C++ compiler, which the kernels of GPUs need (tools/bootstrap installs one)\n");
    return 77;
}

#endif
