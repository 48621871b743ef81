#!/usr/bin/env python3
"""PyTorch reads a checkpoint as it is, and transformers what is exported from it. Needs torch, safetensors, transformers.

    check_with_torch.py finewire step-00000050

Compares every tensor of three readers, bit by bit: read_checkpoint.py (the page of the format), the distributed-checkpoint
reader of PyTorch, and the files that PyTorch consolidates; then the fp32 export with the model that transformers loads."""
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from transformers import AutoModelForCausalLM

import read_checkpoint

finewire, folder = sys.argv[1], sys.argv[2]
manifest = read_checkpoint.read_manifest(folder)
files = read_checkpoint.read_files(folder, manifest)
block_bytes = manifest.get("block_bytes")
want = {name: torch.frombuffer(read_checkpoint.read_tensor(tensor, files, block_bytes), dtype=torch.float32).reshape(tensor["shape"])
        for name, tensor in manifest["tensors"].items()}
weights = [name for name in want if not name.startswith("optimizer.state.")]

state = {name: torch.empty_like(tensor) for name, tensor in want.items()}
dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(folder), no_dist=True)
for name, tensor in want.items():
    assert torch.equal(state[name], tensor), f"{name}: another tensor from HuggingFaceStorageReader"
print(f"torch {torch.__version__}: {len(want)} tensors equal ({manifest['world_size']} ranks, {manifest['strategy']}, "
      f"{sum('header_bytes' in file for file in manifest['files'].values())} files)")

with tempfile.TemporaryDirectory() as scratch:
    consolidate_safetensors_files(folder, scratch, {name: 1 for name in weights})
    found = load_file(os.path.join(scratch, "model-00001-of-00001.safetensors"))
    assert set(found) == set(weights)
    for name in weights:
        assert torch.equal(found[name], want[name]), f"{name}: another tensor in the consolidated file"
    print(f"consolidated by torch: {len(weights)} parameters equal")

    exported = os.path.join(scratch, "exported")
    subprocess.run([finewire, "ckpt", "export", folder, "--output", exported, "--dtype", "fp32"], check=True,
                   stdout=subprocess.DEVNULL)
    model = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32)
    found = model.state_dict()
    for name in weights:
        assert torch.equal(found[name], want[name]), f"{name}: another tensor in transformers"
    print(f"exported, loaded by transformers: {len(weights)} parameters equal")
