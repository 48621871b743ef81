#!/usr/bin/env python3
"""The job of `finewire train` done with PyTorch and transformers, for bench/bench_train. Never part of CI.

    pip install torch transformers
    python3 bench/rival_pytorch.py --model DIR --data FILE.jsonl --batch 2 --length 512 --mode autocast
    torchrun --nproc-per-node 2 bench/rival_pytorch.py ...            # gloo, DistributedDataParallel

A full fine-tune (--lora: adapters of that rank on all linear layers, by peft) with AdamW and gradient checkpointing, in the plain form that people write: the model computes its
loss from labels, attention is the default (SDPA), the optimizer is the fastest of torch's own (fused). Modes:

    autocast   fp32 weights and moments, computing in bf16 by torch.autocast (what `bf16: true` of a Trainer does)
    bf16       weights and moments in bf16: faster and smaller, but small updates are lost
    fp32       everything in fp32

Prints one JSON object: tokens per second of all ranks (median over the steps after the first two), the peak
resident memory summed over ranks, and the seconds from the start of the command (FW_BENCH_START, in seconds since
1970, or the start of this process) to the beginning and to the end of the first step, and the CPU seconds that all
ranks had taken by then (torchrun's own are not among them).
"""
import argparse
import json
import os
import statistics
import time


def process_start():
    """Seconds since 1970 at which this process started."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as f:
        uptime = float(f.read().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def peak_resident_bytes():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def read_samples(path, tokenizer, length):
    """ChatML ids of each conversation, and labels on assistant content and its end-of-turn token."""
    samples = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            ids, labels = [], []
            for message in json.loads(line)["messages"]:
                for text, learn in ((f"<|im_start|>{message['role']}\n", False),
                                    (f"{message['content']}<|im_end|>", message["role"] == "assistant"), ("\n", False)):
                    part = tokenizer(text, add_special_tokens=False)["input_ids"]
                    ids += part
                    labels += part if learn else [-100] * len(part)
            samples.append((ids[:length], labels[:length]))
    return samples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="Hugging Face folder")
    parser.add_argument("--data", required=True, help="JSONL of messages")
    parser.add_argument("--mode", choices=("autocast", "bf16", "fp32"), default="autocast")
    parser.add_argument("--batch", type=int, default=2, help="conversations of a rank and step")
    parser.add_argument("--length", type=int, default=512, help="tokens kept of a conversation")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2, help="of each rank")
    parser.add_argument("--learning_rate", type=float, default=1e-5)
    parser.add_argument("--lora", type=int, default=0, help="rank of adapters on all linear layers; 0: a full fine-tune")
    parser.add_argument("--no_checkpointing", action="store_true")
    options = parser.parse_args()
    start = float(os.environ.get("FW_BENCH_START", process_start()))
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if world > 1:
        import torch.distributed as dist
        dist.init_process_group("gloo")

    samples = read_samples(options.data, AutoTokenizer.from_pretrained(options.model), options.length)
    dtype = torch.bfloat16 if options.mode == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype)
    model.config.use_cache = False
    if not options.no_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if options.lora:
        from peft import LoraConfig, get_peft_model
        model.enable_input_require_grads()  # checkpointing with a frozen embedding needs it
        model = get_peft_model(model, LoraConfig(r=options.lora, lora_alpha=2 * options.lora, target_modules="all-linear",
                                                 task_type="CAUSAL_LM"))
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    decay = [p for p in trained if p.dim() >= 2]
    plain = [p for p in trained if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
                                  lr=options.learning_rate, fused=True)
    parameters = trained
    if world > 1:
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    ready, ready_cpu = time.time() - start, time.process_time()
    step_seconds, step_cpu_seconds, step_tokens, losses, first_step = [], [], [], [], None
    for step in range(options.steps):
        began, began_cpu = time.perf_counter(), time.process_time()
        at = (step * world + rank) * options.batch
        batch = [samples[(at + b) % len(samples)] for b in range(options.batch)]
        longest = max(len(ids) for ids, _ in batch)
        pad = lambda values, fill: torch.tensor([v + [fill] * (longest - len(v)) for v in values])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.mode == "autocast"):
            loss = model(input_ids=pad([ids for ids, _ in batch], 0), labels=pad([l for _, l in batch], -100),
                         attention_mask=pad([[1] * len(ids) for ids, _ in batch], 0)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
        step_seconds.append(time.perf_counter() - began)
        step_cpu_seconds.append(time.process_time() - began_cpu)
        step_tokens.append(sum(len(ids) for ids, _ in batch))
        if first_step is None:
            first_step, first_step_cpu = time.time() - start, time.process_time()

    steady_cpu = statistics.median(step_cpu_seconds[2:] or step_cpu_seconds)
    totals = torch.tensor([step_tokens[-1], peak_resident_bytes(), steady_cpu, ready_cpu, first_step_cpu],
                          dtype=torch.float64)
    if world > 1:
        dist.all_reduce(totals)
        dist.destroy_process_group()
    if rank == 0:
        steady = step_seconds[2:] or step_seconds
        print(json.dumps({
            "program": f"torch {torch.__version__}", "mode": options.mode, "ranks": world, "threads": options.threads,
            "batch": options.batch, "length": options.length, "lora": options.lora, "checkpointing": not options.no_checkpointing,
            "tokens_per_s": round(totals[0].item() / statistics.median(steady), 1),
            "tokens_per_cpu_s": round(totals[0].item() / totals[2].item(), 1),
            "peak_bytes": int(totals[1].item()), "ready_s": round(ready, 2), "first_step_s": round(first_step, 2),
            "ready_cpu_s": round(totals[3].item(), 2), "first_step_cpu_s": round(totals[4].item(), 2),
            "step_s": [round(s, 3) for s in step_seconds], "step_cpu_s": [round(s, 3) for s in step_cpu_seconds],
            "losses": [round(l, 5) for l in losses]}))


if __name__ == "__main__":
    main()
