#!/usr/bin/env python3
"""A model folder of a given shape with random weights and a byte tokenizer, for measuring where nothing can be downloaded.

    bench/make_random_model.py SHAPE DIR        SHAPE: pico, tiny, 0.5B, 1.5B, 3B, 7B (Qwen2.5's)

Weights are bf16 and look random (standard deviation 0.02; one block of numbers, repeated from other places); the
tokenizer knows 256 bytes and the marks of ChatML, so a text of n bytes is n tokens. Needs Python only."""
import array
import json
import pathlib
import random
import struct
import sys

#         hidden  inner   layers heads kv  vocab   tied
SHAPES = {
    "pico": (36, 60, 2, 3, 1, 301, True),
    "tiny": (256, 704, 4, 8, 4, 512, True),
    "0.5B": (896, 4864, 24, 14, 2, 151936, True),
    "1.5B": (1536, 8960, 28, 12, 2, 151936, True),
    "3B": (2048, 11008, 36, 16, 2, 151936, True),
    "7B": (3584, 18944, 28, 28, 4, 152064, False),
}
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
          "+ '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def tensors(shape):
    hidden, inner, layers, heads, kv, vocab, tied = shape
    size = hidden // heads
    yield "model.embed_tokens.weight", (vocab, hidden)
    for i in range(layers):
        at = f"model.layers.{i}."
        for name, rows, columns in (("q", heads * size, hidden), ("k", kv * size, hidden), ("v", kv * size, hidden)):
            yield f"{at}self_attn.{name}_proj.weight", (rows, columns)
            yield f"{at}self_attn.{name}_proj.bias", (rows,)
        yield f"{at}self_attn.o_proj.weight", (hidden, heads * size)
        yield f"{at}mlp.gate_proj.weight", (inner, hidden)
        yield f"{at}mlp.up_proj.weight", (inner, hidden)
        yield f"{at}mlp.down_proj.weight", (hidden, inner)
        yield f"{at}input_layernorm.weight", (hidden,)
        yield f"{at}post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    if not tied:
        yield "lm_head.weight", (vocab, hidden)


def bf16(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def write_weights(path, shape):
    rng = random.Random(7)
    block = array.array("H", (bf16(rng.gauss(0, 0.02)) for _ in range(1 << 18)))
    block = block.tobytes() * 2
    half = len(block) // 2
    header, at = {}, 0
    for name, size in tensors(shape):
        n = 2 * size[0] * (size[1] if len(size) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, entry in header.items():
            left = entry["data_offsets"][1] - entry["data_offsets"][0]
            if "norm" in name:
                f.write(struct.pack("<H", bf16(1.0)) * (left // 2))
                continue
            while left > 0:
                start, now = 2 * rng.randrange(half // 2), min(left, half)
                f.write(block[start:start + now])
                left -= now


def byte_characters():
    """The letter that stands for each byte in a byte-level vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {}, 0
    for byte in range(256):
        letters[byte] = chr(byte) if byte in shown else chr(256 + extra)
        extra += byte not in shown
    return letters


def write_tokenizer(folder):
    letters = byte_characters()
    vocab = {letters[byte]: byte for byte in range(256)}
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    added = [{"id": 256 + i, "content": mark, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, mark in enumerate(marks)]
    split = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
             r"|\s+")
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "add_bos_token": False, "chat_template": CHATML, "model_max_length": 32768,
        "added_tokens_decoder": {str(entry["id"]): {key: value for key, value in entry.items() if key != "id"}
                                 for entry in added}}))


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    shape, folder = SHAPES[sys.argv[1]], pathlib.Path(sys.argv[2])
    hidden, inner, layers, heads, kv, vocab, tied = shape
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": vocab,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": tied, "rope_theta": 1000000.0,
        "hidden_act": "silu", "use_sliding_window": False, "attention_dropout": 0.0, "torch_dtype": "bfloat16",
        "eos_token_id": 258, "bos_token_id": 256}, indent=2))
    write_tokenizer(folder)
    write_weights(folder / "model.safetensors", shape)


if __name__ == "__main__":
    main()
