/* Figures that people work out by hand before they train, one by one: each has the sentence it answers.
 *
 * Where two figures are about the same model and differ, one counts a matrix that embedding and head share twice, as files
 * on disk do, and the other once, as memory does; the test says which is which. GB are 10^9 bytes. */
#include "machine/gpu_card.h"
#include "machine/machine.h"
#include "plan/advice.h"
#include "plan/report.h"
#include "plan/split_model.h"
#include "store/write_weights.h"
#include "support/plan_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const double GB = 1e9;

static double state_gb(const char *model, int world, fw_shard_strategy strategy, fw_dtype gradient_t) {
    fw_test_plan p;
    fw_test_plan_init(&p, model, "h100-sxm", world);
    p.s.shard.gradient_t = gradient_t;
    const fw_plan_case c = fw_test_plan_case(&p, strategy);
    fw_test_plan_fini(&p);
    return fw_test_plan_state(&c) / GB;
}

static double parameters(const char *model) {
    fw_test_plan p;
    fw_test_plan_init(&p, model, "h100-sxm", 1);
    const double n = (double)p.model.table.parameter_n;
    fw_test_plan_fini(&p);
    return n;
}

/* The model as a file stores it: a matrix that embedding and head share stands there under both names. */
static void count_twice(fw_test_plan *p) {
    fw_model_config config = p->model.config;
    config.tied = false;
    fw_model_fini(&p->model);
    assert_int_equal(fw_model_init(&p->model, &config, FW_BF16), FW_OK);
}

static fw_plan_report *report_of(const char *model) {
    char *words[] = {"--model", (char *)(uintptr_t)model, "--gpus", "8", "--gpu", "l40s", "--method", "full"};
    fw_options o;
    fw_plan_report *r;
    assert_int_equal(fw_options_init(&o, FW_COMMAND_PLAN), FW_OK);
    assert_int_equal(fw_options_parse(&o, sizeof words / sizeof words[0], words), FW_OK);
    assert_int_equal(fw_options_check(&o), FW_OK);
    assert_int_equal(fw_plan_report_create(&r, &o), FW_OK);
    fw_options_fini(&o);
    return r;
}

/* ---- memory of states */

/* "What does a full fine-tune of 7.62 billion parameters hold, activations aside?" 16 bytes each: 122 GB. */
static void test_sixteen_bytes(void **state) {
    (void)state;
    fw_test_near(parameters("Qwen2.5-7B") / GB, 7.62, 0.005);
    fw_test_near(state_gb("Qwen2.5-7B", 1, FW_SHARD_DDP, FW_F32), 122, 0.5);
}

/* "What are the sixteen?" 2 of weights, 2 of gradients, 12 of optimizer state with the fp32 copy: kept by us as 4 of
 * master weights, 4 of gradients, 8 of moments when gradients are fp32, and as 2 + 4, 2, 8 when they are bf16. */
static void test_what_the_sixteen_are(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen2.5-7B", "h100-sxm", 2);
    const double n = (double)p.model.table.parameter_n;
    fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near((double)c.part[FW_PLAN_WEIGHTS] / n, 4, 0.001);
    fw_test_near((double)c.part[FW_PLAN_GRADIENTS] / n, 4, 0.001);
    fw_test_near((double)c.part[FW_PLAN_OPTIMIZER] / n, 8, 0.001);
    p.s.shard.gradient_t = FW_BF16;
    c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near((double)c.part[FW_PLAN_WEIGHTS] / n, 2 + 4, 0.001);
    fw_test_near((double)c.part[FW_PLAN_GRADIENTS] / n, 2, 0.001);
    fw_test_near((double)c.part[FW_PLAN_OPTIMIZER] / n, 8, 0.001);
    fw_test_plan_fini(&p);
}

/* "And on two cards, stage by stage?" 16 replicated, then 10, 9, 8 bytes a parameter and card. */
static void test_stages_on_two(void **state) {
    (void)state;
    const double n = parameters("Qwen2.5-7B") / GB;
    fw_test_near(state_gb("Qwen2.5-7B", 2, FW_SHARD_DDP, FW_BF16) / n, 16, 0.001);
    fw_test_near(state_gb("Qwen2.5-7B", 2, FW_SHARD_ZERO1, FW_BF16) / n, 10, 0.001);
    fw_test_near(state_gb("Qwen2.5-7B", 2, FW_SHARD_ZERO2, FW_BF16) / n, 9, 0.001);
    fw_test_near(state_gb("Qwen2.5-7B", 2, FW_SHARD_ZERO3, FW_BF16) / n, 8, 0.001);
}

/* "What is stage 3 on N cards?" 16 / N: 2 bytes on eight, 1 on sixteen. */
static void test_sixteen_over_n(void **state) {
    (void)state;
    const double n = parameters("Qwen2.5-7B") / GB;
    fw_test_near(state_gb("Qwen2.5-7B", 8, FW_SHARD_ZERO3, FW_F32) / n, 2, 0.001);
    fw_test_near(state_gb("Qwen2.5-7B", 16, FW_SHARD_ZERO3, FW_F32) / n, 1, 0.001);
}

/* "Can two cards of 32 GB train all of a 7B?" Under no stage. "Can eight?" 15 GB of states each, and the rest fits. */
static void test_seven_billion_on_32_gb(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen2.5-7B", "rtx5090", 2);
    for (fw_shard_strategy s = FW_SHARD_DDP; s <= FW_SHARD_HSDP; s++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            p.s.shard.gradient_t = bf16 ? FW_BF16 : FW_F32;
            assert_false(fw_test_plan_case(&p, s).fits);
        }
    fw_test_plan_fini(&p);
    fw_test_plan_init(&p, "Qwen2.5-7B", "rtx5090", 8);
    const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    fw_test_near(fw_test_plan_state(&c) / GB, 15, 0.3);
    assert_true(c.fits);
    fw_test_plan_fini(&p);
}

/* "A 70B on cards of 80 GB?" 1,120 GB of states: 140 a card on eight, more than there is; 70 on sixteen. (What is gathered
 * and reduced at a time comes on top, and is large for such blocks: plan says that 24 are needed in the end.) */
static void test_seventy_billion(void **state) {
    (void)state;
    const double n = parameters("Llama-3.1-70B") / GB; /* 70.55: the round figure is 70 */
    fw_test_near(state_gb("Llama-3.1-70B", 1, FW_SHARD_DDP, FW_F32), 1120 * n / 70, 1);
    fw_test_near(state_gb("Llama-3.1-70B", 8, FW_SHARD_ZERO3, FW_F32), 140 * n / 70, 0.1);
    fw_test_near(state_gb("Llama-3.1-70B", 16, FW_SHARD_ZERO3, FW_F32), 70 * n / 70, 0.1);
    assert_true(state_gb("Llama-3.1-70B", 8, FW_SHARD_ZERO3, FW_F32) > 80);
    assert_true(state_gb("Llama-3.1-70B", 16, FW_SHARD_ZERO3, FW_F32) < 80);
    /* "About 1.1 to 1.3 TB": 16 bytes a parameter to 18, with gradients in fp32 beside a bf16 copy. */
    assert_true(16 * n > 1100 && 18 * n < 1300);
    /* "Not even one of 141 GB": an H200 holds the weights alone, if those. */
    assert_true(16 * n * GB > (double)fw_gpu_card_find("h200")->memory_bytes);
}

/* "2.03 billion, 32.5 GB, 4.1 on each of eight?" The file's count: embedding and head of Qwen3-1.7B are one matrix that
 * the file stores twice. In memory it is there once: 1.72 billion, 27.5 GB, 3.4 on each of eight. */
static void test_one_point_seven(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen3-1.7B", "l40s", 8);
    count_twice(&p);
    fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near((double)p.model.table.parameter_n / GB, 2.03, 0.005);
    fw_test_near(fw_test_plan_state(&c) / GB, 32.5, 0.05);
    fw_test_near((double)c.part[FW_PLAN_GRADIENTS] / GB, 8.1, 0.05); /* all gradients in fp32 */
    /* left of a card of 48 GB: 15.5; the driver of this one reports 48.3 */
    fw_test_near(((double)p.s.site.memory_bytes - fw_test_plan_state(&c)) / GB, 15.5 + 0.3, 0.1);
    c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    fw_test_near(fw_test_plan_state(&c) / GB, 4.1, 0.05);
    fw_test_plan_fini(&p);
    fw_test_near(parameters("Qwen3-1.7B") / GB, 1.72, 0.005);
    fw_test_near(state_gb("Qwen3-1.7B", 1, FW_SHARD_DDP, FW_F32), 27.5, 0.05);
    fw_test_near(state_gb("Qwen3-1.7B", 8, FW_SHARD_ZERO3, FW_F32), 3.44, 0.01);
    /* DDP fits a card of 48 GB, as it is said to. */
    fw_test_plan_init(&p, "Qwen3-1.7B", "l40s", 8);
    p.s.length = 2048;
    assert_true(fw_test_plan_case(&p, FW_SHARD_DDP).fits);
    fw_test_plan_fini(&p);
}

/* "Qwen3-8B: 131.1 GB replicated, 16.4 on each of eight?" And the one card that holds a replica, 141 GB on the box, 140.4
 * GiB as reported, has 18 GiB left for the rest. */
static void test_eight_billion(void **state) {
    (void)state;
    fw_test_near(parameters("Qwen3-8B") / GB, 8.19, 0.005);
    fw_test_near(state_gb("Qwen3-8B", 1, FW_SHARD_DDP, FW_F32), 131.1, 0.05);
    fw_test_near(state_gb("Qwen3-8B", 8, FW_SHARD_ZERO3, FW_F32), 16.4, 0.05);
    const double reported = (double)fw_gpu_card_find("h200-nvl")->memory_bytes / 1073741824.0;
    fw_test_near(reported, 140.4, 0.05);
    const double replica = state_gb("Qwen3-8B", 1, FW_SHARD_DDP, FW_F32) * GB / 1073741824.0;
    fw_test_near(replica, 122.1, 0.05);
    fw_test_near(reported - replica, 18, 0.5);
    static const char *const too_small[] = {"rtx4090", "l40s", "rtx6000ada", "a100-80gb", "h100-sxm", "rtxpro6000"};
    for (size_t i = 0; i < sizeof too_small / sizeof too_small[0]; i++) {
        fw_test_plan p;
        fw_test_plan_init(&p, "Qwen3-8B", too_small[i], 8);
        assert_false(fw_test_plan_case(&p, FW_SHARD_DDP).fits);
        fw_test_plan_fini(&p);
    }
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen3-8B", "l40s", 8);
    assert_true(fw_test_plan_case(&p, FW_SHARD_ZERO3).fits);
    /* "Full gradients held between syncs?" 32.8 GB in fp32, more than a card of 48 has left beside 16.4 of states; so
     * plan sums them every time. */
    p.s.micro_n = 8;
    p.s.choose_sync = false;
    p.s.shard.sync_each = false;
    fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    fw_test_near((double)c.part[FW_PLAN_GRADIENTS] / GB, 32.8, 0.05);
    assert_true(c.held && !c.fits);
    p.s.choose_sync = true;
    c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    assert_true(!c.held && c.fits);
    fw_test_plan_fini(&p);
}

/* "Every process loads the whole model first: how much RAM do eight fp32 copies of an 8B take?" 262 GB: eight times the
 * weights' bytes, which finewire never takes and so has no figure for. Here each rank reads its share, so that all eight
 * together read one copy: 32.8 GB. */
static void test_eight_copies(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen3-8B", "l40s", 8);
    fw_test_near(8 * (double)fw_weights_bytes(&p.model.table, FW_F32) / GB, 262, 0.5);
    const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    fw_test_near(8 * (double)c.part[FW_PLAN_WEIGHTS] / GB, 32.8, 0.05);
    fw_test_plan_fini(&p);
}

/* "8-bit Adam: a byte instead of four for each of the two averages?" Two bytes a parameter and their scales for
 * eight; the input embedding keeps its eight. */
static void test_eight_bit_states(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen2.5-7B", "rtx5090", 2);
    const double n = (double)p.model.table.parameter_n;
    const double embedding = (double)p.model.table.param[0].n;
    p.s.optim = FW_OPTIM_ADAMW_8BIT;
    p.s.shard.optimizer = FW_OPTIMIZER_ADAMW_8BIT;
    const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near(((double)c.part[FW_PLAN_OPTIMIZER] - 8 * embedding) / (n - embedding), 2, 0.05);
    fw_test_plan_fini(&p);
}

/* "At any instant a card holds its slice and one layer in full": of 28, a small part of what replicating needs. */
static void test_one_layer_in_full(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen2.5-1.5B", "rtx5090", 2);
    assert_int_equal(p.model.config.L, 28);
    p.s.shard.prefetch = 0;
    const double block = 2 * (double)p.model.table.unit_size_n[1], edge = 2 * (double)p.model.table.unit_size_n[0];
    const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_ZERO3);
    /* the edge and one block of weights in bf16; the edge and two blocks of gradients in fp32 */
    fw_test_near((double)c.part[FW_PLAN_GATHERED], edge + block + 2 * edge + 2 * 2 * block, 1e6);
    assert_true(block < 0.04 * 2 * (double)p.model.table.parameter_n);
    fw_test_plan_fini(&p);
}

/* "From which size on is one card not enough for all weights?" Some ten billion parameters, with the largest of the table's
 * common cards: the 140.4 GiB of an H200 hold 16 bytes of 9.4 billion, so an 8B fits alone and a 14B does not. */
static void test_ten_billion(void **state) {
    (void)state;
    fw_test_near((double)fw_gpu_card_find("h200")->memory_bytes / 16 / GB, 10, 1);
    static const struct {
        const char *model;
        bool fits;
    } cases[] = {{"Qwen3-8B", true}, {"Qwen2.5-14B", false}, {"Llama-3.1-70B", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_test_plan p;
        fw_test_plan_init(&p, cases[i].model, "h200", 1);
        assert_int_equal(fw_test_plan_case(&p, FW_SHARD_DDP).fits, cases[i].fits);
        fw_test_plan_fini(&p);
    }
}

/* ---- the wire */

/* "What do links carry, both directions together?" H100 900, A100 600, a PCIe 5 slot 128, eight lanes of it 64 GB/s. */
static void test_link_headlines(void **state) {
    (void)state;
    fw_test_near(fw_gpu_card_find("h100")->nvlink_both_rate / GB, 900, 0);
    fw_test_near(fw_gpu_card_find("a100")->nvlink_both_rate / GB, 600, 0);
    fw_test_near(fw_pcie_headline_both_rate(5, 16) / GB, 128, 0);
    fw_test_near(fw_pcie_headline_both_rate(5, 8) / GB, 64, 0);
    /* "In one direction?" PCIe 4 x16 31.5; twelve NVLinks of 25 GB/s, 300. */
    fw_test_near(fw_machine_pcie_bytes_per_s(4, 16) / GB, 31.5, 0.05);
    fw_test_near(fw_gpu_card_find("a100")->nvlink_both_rate / 2 / GB, 12 * 25, 0);
    /* "Which cards list no NVLink?" */
    assert_true(fw_gpu_card_find("l40s")->nvlink_both_rate == 0);
    assert_true(fw_gpu_card_find("rtx6000ada")->nvlink_both_rate == 0);
    assert_true(fw_gpu_card_find("rtx4090")->nvlink_both_rate == 0);
    assert_true(fw_gpu_card_find("rtx5090")->nvlink_both_rate == 0);
    assert_true(fw_gpu_card_find("rtx3090")->nvlink_both_rate > 0);
}

/* On two cards, gradients in bf16, replicated. */
static fw_plan_case two_cards(const char *model, const char *gpu) {
    fw_test_plan p;
    fw_test_plan_init(&p, model, gpu, 2);
    p.s.shard.gradient_t = FW_BF16;
    const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_plan_fini(&p);
    return c;
}

/* "How long does a 7B's gradient take?" 15.24 GB: 17 ms at 900 GB/s, 240 at 64. "A 1.5B's?" About 3 GB. Between two cards
 * an all_reduce sends just that, (N-1)/N twice; plan has it at the rate of one direction, half of those: twice the time. */
static void test_gradient_on_the_wire(void **state) {
    (void)state;
    fw_plan_case c = two_cards("Qwen2.5-7B", "h100-sxm");
    fw_test_near((double)c.part[FW_PLAN_GRADIENTS] / GB, 15.24, 0.01);
    fw_test_near((double)c.wire.bytes / GB, 15.24, 0.01);
    fw_test_near(c.times.wire_headline_ms / 2, 17, 0.5);
    c = two_cards("Qwen2.5-7B", "rtx5090");
    fw_test_near((double)c.wire.bytes / GB, 15.24, 0.01);
    fw_test_near(c.times.wire_headline_ms / 2, 240, 2.5);
    c = two_cards("Qwen2.5-1.5B", "rtx5090");
    fw_test_near((double)c.part[FW_PLAN_GRADIENTS] / GB, 3, 0.1);
}

/* "LoRA trains about 1 % of the parameters: what crosses then?" 150 MB instead of 15 GB, 2.4 ms instead of 240,
 * in bf16. Plan sends an adapter's gradients in fp32: twice that. */
static void test_adapter_on_the_wire(void **state) {
    (void)state;
    /* An adapter on every matrix is that large at rank 32; and it cuts what is sent by 99 %, precision for precision. */
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen2.5-7B", "rtx5090", 2);
    const double all = (double)p.model.table.parameter_n;
    fw_test_plan_rank(&p, 32);
    fw_test_near((double)p.adapted.trained.parameter_n / all, 0.0106, 0.0005);
    const double full = (double)fw_test_plan_case(&p, FW_SHARD_DDP).wire.bytes;
    p.s.method = FW_METHOD_LORA;
    fw_test_near((double)fw_test_plan_case(&p, FW_SHARD_DDP).wire.bytes / full, 0.01, 0.001);
    fw_test_plan_rank(&p, 30); /* 1 % as near as a rank comes */
    const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near((double)c.trained_n / all, 0.01, 0.0001);
    fw_test_near((double)c.wire.bytes / 2 / 1e6, 150, 5);
    fw_test_near(c.times.wire_headline_ms / 2 / 2, 2.4, 0.05); /* and at the rate of one direction: twice again */
    fw_test_plan_fini(&p);
}

/* "Accumulate over 8?" One all_reduce for 8 micro-batches: an eighth of the traffic for the same examples. */
static void test_accumulation(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen2.5-7B", "rtx5090", 2);
    const double one = (double)fw_test_plan_case(&p, FW_SHARD_DDP).wire.bytes;
    p.s.micro_n = 8;
    const fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near((double)c.wire.bytes / (8 * one), 1.0 / 8, 1e-9);
    fw_test_plan_fini(&p);
}

/* "The effective batch of two cards at micro-batch 4, accumulation 8?" 64. "Tokens of a step on eight cards, one block of
 * 2,048 each?" 16,384. */
static void test_batches(void **state) {
    (void)state;
    fw_test_plan p;
    fw_test_plan_init(&p, "Qwen2.5-0.5B", "rtx5090", 2);
    p.s.batch = 4;
    p.s.micro_n = 8;
    fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near(c.times.tokens_per_s * c.times.step_ms / 1e3 / (double)p.s.length, 64, 1e-6);
    fw_test_plan_fini(&p);
    fw_test_plan_init(&p, "Qwen3-1.7B", "l40s", 8);
    p.s.length = 2048;
    c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_test_near(c.times.tokens_per_s * c.times.step_ms / 1e3, 16384, 1e-6);
    fw_test_plan_fini(&p);
}

/* "DDP sums fp32 gradients, FSDP gathers bf16 weights twice and scatters fp32 gradients: the same total?" It is. "And at one
 * precision?" FSDP's three passes are half as much again as the two of an all_reduce. DDP: 2 (N-1)/N of the gradients. */
static void test_passes(void **state) {
    (void)state;
    static const int worlds[] = {2, 4, 8};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        const double N = worlds[i];
        fw_test_plan p;
        fw_test_plan_init(&p, "Qwen3-8B", "l40s", worlds[i]);
        const double n = (double)p.model.table.parameter_n;
        double ddp = (double)fw_test_plan_case(&p, FW_SHARD_DDP).wire.bytes;
        double fsdp = (double)fw_test_plan_case(&p, FW_SHARD_ZERO3).wire.bytes;
        fw_test_near(ddp / (2 * (N - 1) / N * 4 * n), 1, 1e-4);
        fw_test_near(fsdp / ddp, 1, 1e-4);
        p.s.shard.gradient_t = FW_BF16;
        ddp = (double)fw_test_plan_case(&p, FW_SHARD_DDP).wire.bytes;
        fsdp = (double)fw_test_plan_case(&p, FW_SHARD_ZERO3).wire.bytes;
        fw_test_near(fsdp / ddp, 1.5, 1e-4);
        /* "Stages 1 and 2 cost about what DDP costs." */
        fw_test_near((double)fw_test_plan_case(&p, FW_SHARD_ZERO1).wire.bytes / ddp, 1, 1e-4);
        fw_test_near((double)fw_test_plan_case(&p, FW_SHARD_ZERO2).wire.bytes / ddp, 1, 1e-4);
        fw_test_plan_fini(&p);
    }
}

/* ---- files */

/* "How large is a checkpoint?" 12 bytes a parameter: 98 GB for an 8B. For Qwen3-1.7B PyTorch's holds the shared matrix, 311
 * million, under both names: 21.9 GB; ours, once, 20.6. "And the final model?" The bf16 file: 4.06 GB by the file's count. */
static void test_checkpoints(void **state) {
    (void)state;
    fw_plan_report *r = report_of("Qwen3-8B");
    fw_test_near((double)r->checkpoint_bytes / GB, 98, 0.5);
    fw_plan_report_destroy(r);
    r = report_of("Qwen3-1.7B");
    const double ours = (double)r->checkpoint_bytes;
    fw_test_near(ours / GB, 20.6, 0.1);
    fw_test_near((double)r->final_bytes / GB, 3.44, 0.01);
    fw_plan_report_destroy(r);
    fw_test_plan once, twice;
    fw_test_plan_init(&once, "Qwen3-1.7B", "l40s", 8);
    fw_test_plan_init(&twice, "Qwen3-1.7B", "l40s", 8);
    count_twice(&twice);
    fw_test_near((double)(twice.model.table.parameter_n - once.model.table.parameter_n) / 1e6, 311, 0.5);
    const double shared =
        (double)fw_weights_bytes(&twice.model.table, FW_F32) - (double)fw_weights_bytes(&once.model.table, FW_F32);
    fw_test_near((ours + shared) / GB, 21.9, 0.05);
    fw_test_near((double)fw_weights_bytes(&twice.model.table, FW_BF16) / GB, 4.06, 0.01);
    fw_test_plan_fini(&once);
    fw_test_plan_fini(&twice);
}

/* ---- what to do */

static fw_plan_advice advice_for(const char *model, const char *gpu, int world, fw_method method) {
    fw_test_plan p;
    fw_plan_advice a;
    fw_test_plan_init(&p, model, gpu, world);
    p.s.method = method;
    assert_int_equal(fw_plan_advise(&a, &p.s), FW_OK);
    fw_test_plan_fini(&p);
    return a;
}

/* "Does the job fit on one card?" Then a second one is for throughput; else an adapter; else the lowest sharding. */
static void test_order_of_questions(void **state) {
    (void)state;
    fw_plan_advice a = advice_for("Qwen2.5-0.5B", "rtx5090", 2, FW_METHOD_AUTO);
    assert_true(a.fits && a.one_job_each && a.method == FW_METHOD_FULL && a.strategy == FW_SHARD_DDP);
    /* a 7B on cards of 32 GB, one or two: an adapter */
    for (int world = 1; world <= 2; world++) {
        a = advice_for("Qwen2.5-7B", "rtx5090", world, FW_METHOD_AUTO);
        assert_true(a.fits && a.one_job_each && a.method == FW_METHOD_LORA && a.scenario.recompute);
    }
    assert_false(advice_for("Qwen2.5-7B", "rtx5090", 2, FW_METHOD_FULL).fits);
    /* all of a 7B, and no less: eight cards, sharded, and over at least 8 micro-batches on that wire */
    a = advice_for("Qwen2.5-7B", "rtx5090", 8, FW_METHOD_FULL);
    assert_true(a.fits && !a.one_job_each && a.strategy == FW_SHARD_ZERO3 && a.scenario.micro_n >= 8);
    /* "An adapter for models up to some 13B needs one card with much memory." */
    a = advice_for("Qwen2.5-14B", "a100-80gb", 1, FW_METHOD_AUTO);
    assert_true(a.fits && a.method == FW_METHOD_LORA);
    /* "A 70B on one card?" Only with 4-bit weights. */
    a = advice_for("Llama-3.1-70B", "h100-sxm", 1, FW_METHOD_AUTO);
    assert_true(a.fits && a.method == FW_METHOD_QLORA);
}

/* "Split the model instead?" Not each matrix over PCIe; and stages idle: layers 1 to 14 on one card, 15 to 28 on the other,
 * half the time with one micro-batch, a ninth with eight. */
static void test_splitting_the_model(void **state) {
    (void)state;
    fw_test_plan p;
    fw_plan_split split;
    fw_test_plan_init(&p, "Qwen2.5-1.5B", "rtx5090", 2);
    fw_plan_case c = fw_test_plan_case(&p, FW_SHARD_DDP);
    fw_plan_split_tensor(&split, &p.s, &c);
    assert_false(split.ruled_in);
    /* "A collective inside every layer, both ways": four a layer, two more where it is recomputed */
    fw_test_near((double)split.wire_bytes, 28.0 * 6 * 2 * 1024 * 1536 * 2 / 2, 1);
    fw_plan_split_pipeline(&split, &p.s, &c);
    assert_int_equal(p.model.config.L / split.way, 14);
    fw_test_near(split.bubble, 1.0 / 2, 1e-9);
    assert_true(split.wire_bytes < c.wire.bytes / 100);
    p.s.micro_n = 8;
    fw_plan_split_pipeline(&split, &p.s, &c);
    fw_test_near(split.bubble, 1.0 / 9, 1e-9);
    fw_test_plan_fini(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sixteen_bytes),
        cmocka_unit_test(test_what_the_sixteen_are),
        cmocka_unit_test(test_stages_on_two),
        cmocka_unit_test(test_sixteen_over_n),
        cmocka_unit_test(test_seven_billion_on_32_gb),
        cmocka_unit_test(test_seventy_billion),
        cmocka_unit_test(test_one_point_seven),
        cmocka_unit_test(test_eight_billion),
        cmocka_unit_test(test_eight_copies),
        cmocka_unit_test(test_eight_bit_states),
        cmocka_unit_test(test_one_layer_in_full),
        cmocka_unit_test(test_ten_billion),
        cmocka_unit_test(test_link_headlines),
        cmocka_unit_test(test_gradient_on_the_wire),
        cmocka_unit_test(test_adapter_on_the_wire),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_order_of_questions),
        cmocka_unit_test(test_splitting_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
