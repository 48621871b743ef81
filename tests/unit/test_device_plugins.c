/* The real plugins, where they were built: they load without a driver, are of this build, and say what is missing. With a
 * GPU they would find it: then the device is made and computes a product. */
#include "comm/mpi/mpi_plugin.h"
#include "comm/nccl/nccl_plugin.h"
#include "device/cuda_loader.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[3072];

static const fw_plugin_head *open_plugin(const char *name, const char *symbol) {
    char path[4096];
    const fw_plugin_head *head = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (access(path, F_OK) != 0) {
        printf("skipped: there is no %s (it is built where nvcc, or for MPI mpi.h, is)\n", name);
        skip();
    }
    setenv("FINEWIRE_TEST_PLUGIN", path, 1);
    const fw_plugin_place place = {name, "FINEWIRE_TEST_PLUGIN", symbol, "make cuda", "the libraries"};
    if (fw_plugin_open(&head, &place, path, sizeof path) != FW_OK) fail_msg("%s", fw_trail_message());
    return head;
}

static void cuda_plugin(void **state) {
    (void)state;
    const fw_cuda_plugin *plugin =
        (const fw_cuda_plugin *)(const void *)open_plugin("libfinewire_cuda.so", "finewire_cuda_plugin");
    assert_true(plugin->cuda_version >= 12000);
    assert_true(atoi(plugin->architectures) >= 80);
    int gpu_n = -1;
    fw_status status = plugin->count(&gpu_n);
    if (status == FW_OK && gpu_n > 0) {
        fw_device *d;
        const fw_device_place place = {.local_rank = 0, .local_world = 1};
        if (plugin->create(&d, NULL, &place) != FW_OK) fail_msg("%s", fw_trail_message());
        float *x, y[4] = {1, 2, 3, 4}, product[1];
        assert_int_equal(fw_device_alloc(d, (void **)&x, 9 * sizeof *x, "x"), FW_OK);
        assert_int_equal(fw_copy(d, x, y, sizeof y), FW_OK);
        assert_int_equal(fw_copy(d, x + 4, y, sizeof y), FW_OK);
        assert_int_equal(fw_matmul_forward(d, x + 8, x, x + 4, NULL, 1, 1, 4, FW_F32, FW_F32), FW_OK);
        assert_int_equal(fw_copy(d, product, x + 8, sizeof product), FW_OK);
        assert_true(product[0] == 30);
        fw_device_free(d, x, 9 * sizeof *x);
        fw_device_destroy(d);
        return;
    }
    /* Without a driver: the runtime's own words, no crash. */
    fw_device *d = NULL;
    const fw_device_place place = {.local_rank = 0, .local_world = 1};
    assert_int_equal(plugin->create(&d, NULL, &place), FW_ERR_OPTION);
    assert_null(d);
    assert_non_null(strstr(fw_trail_message(), "driver"));
}

static void nccl_plugin(void **state) {
    (void)state;
    const fw_nccl_plugin *plugin =
        (const fw_nccl_plugin *)(const void *)open_plugin("libfinewire_nccl.so", "finewire_nccl_plugin");
    assert_true(plugin->version() >= 22700);
}

static void mpi_plugin(void **state) {
    (void)state;
    const fw_mpi_plugin *plugin =
        (const fw_mpi_plugin *)(const void *)open_plugin("libfinewire_mpi.so", "finewire_mpi_plugin");
    char text[64] = "";
    plugin->describe(text, sizeof text);
    assert_true(strlen(text) > 3);
}

static void no_plugin(void **state) {
    (void)state;
    const fw_plugin_head *head;
    char path[4096];
    unsetenv("FINEWIRE_TEST_PLUGIN");
    const fw_plugin_place place = {"libnothing.so", "FINEWIRE_TEST_PLUGIN", "x", "make cuda", "the libraries"};
    assert_int_equal(fw_plugin_open(&head, &place, path, sizeof path), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "libnothing.so; run make cuda"));
    assert_non_null(strstr(path, "libnothing.so"));
    fw_device *d;
    setenv("FINEWIRE_CUDA_PLUGIN", "/nowhere/plugin.so", 1);
    assert_int_equal(fw_device_create(&d, "cuda", NULL), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "--device cuda: the CUDA plugin is missing: there is no /nowhere"));
    /* auto, too, does not pass over a file that was named. */
    assert_int_equal(fw_device_create(&d, "auto", NULL), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "FINEWIRE_CUDA_PLUGIN: the CUDA plugin is missing"));
    unsetenv("FINEWIRE_CUDA_PLUGIN");
    assert_int_equal(fw_device_create(&d, "auto", NULL), FW_OK);
    assert_string_equal(d->name, "cpu");
    assert_non_null(strstr(d->description, " (auto: no CUDA plugin)"));
    fw_device_destroy(d);
}

/* A driver that is there and does not work: auto goes on with its words, not with "no GPU". Last: it stays loaded. */
static void driver_fails(void **state) {
    (void)state;
    fw_device *d;
    if (dlopen("libcuda.so.1", RTLD_NOW) != NULL) skip(); /* the real one would be asked */
    assert_non_null(dlopen(FW_STANDIN_DRIVER, RTLD_NOW));
    setenv("FINEWIRE_CUDA_PLUGIN", FW_STANDIN_PLUGIN, 1);
    assert_int_equal(fw_device_create(&d, "cuda", NULL), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "unknown error (error 999); look at nvidia-smi"));
    assert_int_equal(fw_device_create(&d, "auto", NULL), FW_OK);
    assert_non_null(strstr(d->description, " (auto: the NVIDIA driver does not work: unknown error (error 999))"));
    fw_device_destroy(d);
}

int main(void) {
    char *slash;
    snprintf(folder, sizeof folder, "%s", FW_BINARY);
    slash = strrchr(folder, '/');
    if (slash != NULL) *slash = 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_plugin), cmocka_unit_test(nccl_plugin),
                                       cmocka_unit_test(mpi_plugin), cmocka_unit_test(cuda_plugin),
                                       cmocka_unit_test(driver_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
