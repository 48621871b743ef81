#!/usr/bin/env python3
"""torch.save and torch.load of the tensors that bench_checkpoint.c writes: parameters of SmolLM2-135M's shapes with as many
layers as make MILLIONS, and two moments of each, in fp32.

    rival_checkpoint_torch.py FOLDER MILLIONS ROUNDS

torch-save includes the sync of the file; torch-load reads it from the page cache. A line each: NAME 1 BYTES SECONDS CPU_SECONDS."""
import os
import sys
import time

import torch

folder, millions, rounds = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
block = {"q": (576, 576), "k": (192, 576), "v": (192, 576), "o": (576, 576), "gate": (1536, 576), "up": (1536, 576),
         "down": (576, 1536), "input_norm": (576,), "post_norm": (576,)}
size = sum(torch.Size(shape).numel() for shape in block.values())
layers = max(1, round((millions * 1e6 - 49152 * 576) / size))
shapes = {"embed": (49152, 576), "norm": (576,)}
shapes |= {f"layers.{i}.{name}": shape for i in range(layers) for name, shape in block.items()}
model = {name: torch.rand(shape) for name, shape in shapes.items()}
moments = {name: {"exp_avg": torch.rand(shape), "exp_avg_sq": torch.rand(shape)} for name, shape in shapes.items()}
size = 12 * sum(tensor.numel() for tensor in model.values())
path = os.path.join(folder, "torch.pt")
for _ in range(rounds):
    begin, cpu = time.monotonic(), time.process_time()
    with open(path, "wb") as file:
        torch.save({"model": model, "optimizer": moments}, file)
        file.flush()
        os.fsync(file.fileno())
    print("torch-save", 1, size, f"{time.monotonic() - begin:.4f}",
          f"{time.process_time() - cpu:.4f}", flush=True)
    begin, cpu = time.monotonic(), time.process_time()
    loaded = torch.load(path)
    print("torch-load", 1, size, f"{time.monotonic() - begin:.4f}",
          f"{time.process_time() - cpu:.4f}", flush=True)
    del loaded
os.unlink(path)
