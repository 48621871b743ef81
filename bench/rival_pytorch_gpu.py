#!/usr/bin/env python3
"""The step of `finewire train` on one GPU in PyTorch, for tools/gpu_check: bf16 autocast over fp32 weights, torch.compile,
SDPA, fused AdamW, gradient checkpointing.

    bench/rival_pytorch_gpu.py MODEL_DIR LENGTH BATCH        random tokens; prints tokens/s and peak memory"""
import statistics
import sys
import time

import torch
from transformers import AutoModelForCausalLM

STEPS = 8


def main():
    folder, length, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="sdpa").cuda()
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    compiled = torch.compile(model)
    ids = torch.randint(0, 250, (batch, length), device="cuda")
    times = []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    rate = batch * length / statistics.median(times[3:])
    print(f"torch {torch.__version__}: {rate:.0f} tokens/s, peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB, "
          f"batch {batch} x {length}")


if __name__ == "__main__":
    main()
