#!/usr/bin/env python3
"""Blocks of every GGUF tensor type that finewire reads, and what the public `gguf` package makes of them.

Run by hand when a type is added: it is no part of the build or of `make test`.

    pip install gguf numpy safetensors
    python3 tests/data/gguf/make_blocks.py

Writes blocks.safetensors: TYPE.blocks U8 [n blocks * bytes], TYPE.values F32 [n blocks * values]. The bytes are random
but for the fp16 scales, which are finite, subnormal ones included.
"""
import pathlib

import gguf
import numpy as np
from safetensors.numpy import save_file

# Where the fp16 numbers of a block are.
HALVES = {
    "F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
rng = np.random.default_rng(7)
out = {}
for name in ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]:
    kind = gguf.GGMLQuantizationType[name]
    block_n, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    n = 64 if block_n == 1 else 5 if block_n == 32 else 3
    blocks = rng.integers(0, 256, (n, block_bytes), dtype=np.uint8)
    for at in HALVES.get(name, []):
        scale = (rng.standard_normal(n) * 10.0 ** rng.integers(-7, 3, n)).astype(np.float16)
        blocks[:, at : at + 2] = scale.view(np.uint8).reshape(n, 2)
    if name == "F32":
        blocks = rng.standard_normal(n).astype(np.float32).view(np.uint8).reshape(n, 4)
    if name == "BF16":
        blocks = np.ascontiguousarray(rng.standard_normal(n).astype(np.float32).view(np.uint8).reshape(n, 4)[:, 2:])
    values = gguf.dequantize(blocks.reshape(1, -1), kind).reshape(-1).astype(np.float32)
    assert values.size == n * block_n and np.isfinite(values).all(), name
    out[f"{name}.blocks"] = blocks.reshape(-1)
    out[f"{name}.values"] = values
save_file(out, pathlib.Path(__file__).with_name("blocks.safetensors"))
