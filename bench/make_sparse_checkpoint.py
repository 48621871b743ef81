#!/usr/bin/env python3
"""A checkpoint of any size that takes next to no space: its files are holes, but for a mark in the first and the last block of
every tensor. For seeing what `finewire ckpt` takes of memory and time on a model that does not fit here, and that what it
writes stands where it should.

    make_sparse_checkpoint.py 70b|8b|1b OUT/step-00000001 [RANKS]

Every rank has whole tensors, so each has one file; docs/checkpoint-format.md says the rest."""
import json
import os
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "checkpoint"))
from read_checkpoint import xxh64, xxh64_rounds  # noqa: E402

BLOCK = 1 << 20
MARK_N = 8  # values; 32 bytes are one round of the checksum
SIZES = {"70b": (8192, 64, 8, 28672, 80, 128256), "8b": (4096, 32, 8, 14336, 32, 128256), "1b": (2048, 32, 8, 8192, 16, 128256)}
known = {}


def zeros(n):
    if n not in known:
        known[n] = xxh64(bytes(n))
    return known[n]


def zeros_but_last(n, text):
    if (n, "lanes") not in known:
        known[n, "lanes"] = xxh64_rounds(bytes(n - len(text)))
    return xxh64(text, known[n, "lanes"], n - len(text))


def mark(i, last):
    """The values at the end of the first (or of the last) block of tensor i, each the same in bf16 and fp32."""
    return [i % 100 + 1, i // 100 + 1, 2 if last else 1, 0.5, -1, -i % 7, 192, 1]


def marks(i, size):
    """[(where in a tensor of so many bytes, the mark's bytes, the block's size)]; one where there is one block."""
    begins = sorted({0, (size - 1) // BLOCK * BLOCK})
    blocks = [(begin, min(BLOCK, size - begin)) for begin in begins]
    return [(begin + n - 4 * MARK_N, struct.pack(f"<{MARK_N}f", *mark(i, begin > 0)), n) for begin, n in blocks]


def shapes_of(size):
    hidden, heads, kv, ffn, layers, vocab = SIZES[size]
    head = hidden // heads
    block = {"self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (kv * head, hidden), "self_attn.v_proj": (kv * head, hidden),
             "self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden),
             "mlp.down_proj": (hidden, ffn), "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,)}
    shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
    return shapes | {f"model.layers.{i}.{name}.weight": shape for i in range(layers) for name, shape in block.items()}


def arrays_of(name):
    return name, f"optimizer.state.{name}.exp_avg", f"optimizer.state.{name}.exp_avg_sq"


def main():
    hidden, heads, kv, ffn, layers, vocab = SIZES[sys.argv[1]]
    folder, ranks = pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 16
    head, shapes = hidden // heads, shapes_of(sys.argv[1])
    number = {full: i for i, full in enumerate(full for name in shapes for full in arrays_of(name))}
    folder.mkdir(parents=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_attention_heads": heads,
              "num_key_value_heads": kv, "head_dim": head, "intermediate_size": ffn, "num_hidden_layers": layers,
              "vocab_size": vocab, "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192,
              "rope_theta": 500000.0, "hidden_act": "silu", "torch_dtype": "float32"}
    text = json.dumps(config).encode()
    (folder / "config.json").write_bytes(text)
    files, tensors = {"config.json": {"bytes": len(text), "xxh64": xxh64(text)}}, {}
    parts = [[] for _ in range(ranks)]
    for i, (name, shape) in enumerate(shapes.items()):
        for full in arrays_of(name):
            parts[i % ranks].append((full, shape))
    for rank, part in enumerate(parts):
        header, at, name = {}, 0, f"shard-{rank + 1:05d}-model-00001-of-00001.safetensors"
        for tensor, shape in part:
            size = 4 * shape[0] * (shape[1] if len(shape) == 2 else 1)
            header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
            at += size
        offsets = {tensor: {"saved_offsets": [0] * len(shape)} for tensor, shape in part}
        header["__metadata__"] = {"format": "pt", "producer": "finewire", "DCP_VERSION": "1.0",
                                  "DCP_SHARDING_INFO": json.dumps(offsets)}
        head_text = json.dumps(header).encode()
        head_text = (len(head_text) + -len(head_text) % 8).to_bytes(8, "little") + head_text + b" " * (-len(head_text) % 8)
        with open(folder / name, "wb") as file:
            file.write(head_text)
            os.ftruncate(file.fileno(), len(head_text) + at)
            for tensor, shape in part:
                begin, end = header[tensor]["data_offsets"]
                for where, text, _ in marks(number[tensor], end - begin):
                    os.pwrite(file.fileno(), text, len(head_text) + begin + where)
        files[name] = {"bytes": len(head_text) + at, "header_bytes": len(head_text), "header_xxh64": xxh64(head_text)}
        for tensor, shape in part:
            begin, end = header[tensor]["data_offsets"]
            hashes = [zeros(BLOCK)] * -(-(end - begin) // BLOCK)
            for where, text, size in marks(number[tensor], end - begin):
                hashes[where // BLOCK] = zeros_but_last(size, text)
            tensors[tensor] = {"dtype": "F32", "shape": shape, "pieces": [
                {"file": name, "offsets": [0] * len(shape), "shape": shape, "start": len(head_text) + begin,
                 "bytes": end - begin, "xxh64": "".join(hashes)}]}
    n = sum(a * (b[0] if b else 1) for a, *b in shapes.values())
    manifest = {"format": "finewire-checkpoint", "format_version": 3, "finewire_version": "0.1.0", "saved_at": "2026-01-01T00:00:00Z",
                "step": 1, "optimizer_step": 1, "epoch": 0.0, "epoch_i": 0, "position": 0, "seed": "0" * 16, "data_seed": "0" * 16,
                "data_hash": "0" * 16, "world_size": ranks, "strategy": "zero3", "parameter_n": n, "block_bytes": BLOCK,
                "files": files, "tensors": tensors}
    body = json.dumps(manifest)[:-1].encode() + b",\n  "
    (folder / "manifest.json").write_bytes(body + f'"manifest_xxh64": "{xxh64(body)}"\n}}\n'.encode())
    print(f"{n / 1e9:.1f} G parameters, {12 * n / 1e9:.0f} GB of holes, a manifest of {len(body) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
