#!/usr/bin/env python3
"""Writes, into tests/data/quant by default:

    reference.json        what bitsandbytes makes of hostile and plain numbers; every number as the bits of its fp32, in hex
    models.json           CRC-32 of the dequantised matrices (fp32, as bytes) of blocks of tiny models (make_reference.py)
    llama_tied_4bit/      a tiny model of models.json as transformers saves it with bitsandbytes: NF4, double quantisation
    linear4bit.safetensors, linear4bit.json    two matrices as bitsandbytes saves them, and the CRCs of what it reads back

    OMP_NUM_THREADS=1 make_quant_reference.py [FOLDER]

Needs torch, transformers, safetensors and bitsandbytes 0.50 (CPU)."""

import json
import pathlib
import sys
import tempfile
import zlib

import numpy as np
import torch
import bitsandbytes as bnb
import bitsandbytes.functional as F
from safetensors.torch import save_file

from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from make_reference import make_model, weight

HERE = pathlib.Path(__file__).resolve().parent


def bits(x):
    return x.detach().float().contiguous().view(-1).numpy().view(np.uint32).astype(">u4").tobytes().hex()


def raw(x):
    return x.contiguous().view(torch.uint8).view(-1).numpy().tobytes().hex()


def inputs():
    rng = np.random.default_rng(7)
    normal = lambda n: rng.standard_normal(n).astype(np.float32)
    yield "normal", normal(64 * 4)
    yield "short last block", normal(64 * 2 + 37)
    yield "one number", normal(1)
    yield "odd and short", normal(5)
    yield "zeros", np.zeros(128, np.float32)
    yield "zeros, short", np.zeros(67, np.float32)
    yield "negative zeros", -np.zeros(64, np.float32)
    yield "constant blocks", np.repeat(np.float32([3, -2, 1e-30, 65504]), 64)
    outlier = normal(256) * np.float32(1e-4)
    outlier[[5, 70, 200]] = [100, -7, 3e38]
    yield "outliers", outlier
    yield "denormal", normal(128) * np.float32(1e-40)
    yield "around 1e-38", normal(128) * np.float32(1e-38)
    yield "denormal, short", normal(70) * np.float32(1e-39)
    yield "smallest", np.repeat(np.float32([1.4e-45, -1.4e-45]), 40)
    yield "largest", np.tile(np.float32([3.4028234e38, -3.4028234e38, 1, 0]), 20)
    for kind in ("nf4", "fp4"):  # on the middles and one step beside them, with 1 in each block as its scale
        code = torch.sort(F.get_4bit_type(kind, device="cpu")).values.numpy()
        middle = ((code[:-1] + code[1:]) / np.float32(2)).astype(np.float32)
        block = np.concatenate([middle, np.nextafter(middle, np.float32(2)), np.nextafter(middle, np.float32(-2)), [1]])
        yield "middles of " + kind, np.concatenate([block, np.zeros(64 - len(block))]).astype(np.float32)
    yield "bf16", torch.tensor(normal(64 * 9 + 3)).bfloat16().float().numpy()


def four_bit(x, kind, block, nested):
    t = torch.tensor(x)
    packed, state = F.quantize_4bit(t, blocksize=block, quant_type=kind, compress_statistics=nested)
    case = {"kind": kind, "block": block, "nested": nested, "code": raw(packed)}
    if nested:
        case |= {"scale_code": raw(state.absmax), "nested_absmax": bits(state.state2.absmax), "offset": bits(state.offset)}
    else:
        case["absmax"] = bits(state.absmax)
    case["unpacked"] = bits(F.dequantize_4bit(packed, state))
    state.dtype = torch.bfloat16
    case["unpacked_bf16"] = raw(F.dequantize_4bit(packed, state))
    return case


def eight_bit(x, signed, block):
    code = F.create_dynamic_map(signed=signed)
    packed, state = F.quantize_blockwise(torch.tensor(x), code=code, blocksize=block)
    return {
        "signed": signed,
        "block": block,
        "code": raw(packed),
        "absmax": bits(state.absmax),
    }


def crc(x):
    """Zeros without a sign: bitsandbytes has FP4's code 8 in two ways."""
    return zlib.crc32((x.detach().float() + 0.0).contiguous().numpy().tobytes())


def matrices(config):
    """Names and shapes of a block's matrices, blocks in order."""
    c = config["hidden_size"]
    heads, kv = config["num_attention_heads"], config.get("num_key_value_heads", config["num_attention_heads"])
    d = config.get("head_dim") or c // heads
    f = config["intermediate_size"]
    shapes = {
        "self_attn.q_proj": (heads * d, c),
        "self_attn.k_proj": (kv * d, c),
        "self_attn.v_proj": (kv * d, c),
        "self_attn.o_proj": (c, heads * d),
        "mlp.gate_proj": (f, c),
        "mlp.up_proj": (f, c),
        "mlp.down_proj": (c, f),
    }
    for layer in range(config["num_hidden_layers"]):
        for name, shape in shapes.items():
            yield f"model.layers.{layer}.{name}.weight", shape


def models():
    """Matrices are given as one row: the CPU library takes the scales of wrong blocks where a row's width is no multiple of
    the block, which its GPU kernels do not."""
    out = {}
    for variant in ("llama_tied", "qwen3_untied"):
        config = json.loads((HERE / "models" / (variant + ".json")).read_text(encoding="utf-8"))
        out[variant] = {}
        for name, shape in matrices(config):
            x = torch.tensor(weight(name, shape[0] * shape[1]))
            out[variant][name] = {
                kind + (" nested" if nested else ""): crc(
                    F.dequantize_4bit(*F.quantize_4bit(x, quant_type=kind, compress_statistics=nested))
                )
                for kind in ("nf4", "fp4")
                for nested in (False, True)
            }
    return out


def linear4bit(folder):
    tensors, sums = {}, {}
    rng = np.random.default_rng(9)
    for name, kind, nested, shape in (("a", "nf4", True, (48, 40)), ("b", "fp4", False, (6, 30))):
        layer = bnb.nn.Linear4bit(shape[1], shape[0], bias=False, compress_statistics=nested, quant_type=kind)
        w = torch.tensor(rng.standard_normal(shape).astype(np.float32)).bfloat16()
        layer.weight = bnb.nn.Params4bit(w, requires_grad=False, compress_statistics=nested, quant_type=kind)
        layer = layer.to("cpu")
        layer.weight = layer.weight._quantize("cpu") if layer.weight.quant_state is None else layer.weight
        tensors |= {f"{name}.{key}": value.contiguous() for key, value in layer.state_dict().items()}
        layer.weight.quant_state.dtype = torch.float32
        layer.weight.quant_state.shape = torch.Size([shape[0] * shape[1]])  # see models()
        sums[name + ".weight"] = {"shape": shape, "crc": crc(F.dequantize_4bit(layer.weight.data, layer.weight.quant_state))}
    save_file(tensors, folder / "linear4bit.safetensors")
    return sums


def folder_4bit(folder):
    how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
    with tempfile.TemporaryDirectory() as plain:
        make_model(HERE / "models" / "llama_tied.json").save_pretrained(plain)
        model = AutoModelForCausalLM.from_pretrained(plain, quantization_config=how, dtype=torch.float32, device_map="cpu")
        model.save_pretrained(folder / "llama_tied_4bit")


def numbers():
    out = {
        "map8": [bits(F.create_dynamic_map(signed=False)), bits(F.create_dynamic_map())],
        "map4": {kind: bits(F.get_4bit_type(kind, device="cpu")) for kind in ("nf4", "fp4")},
        "tensors": [],
        "means": [],
    }
    for name, x in inputs():
        layouts = [(64, False), (64, True)] + ([(128, True), (32, False)] if name == "short last block" else [])
        cases = [four_bit(x, kind, block, nested) for kind in ("nf4", "fp4") for block, nested in layouts]
        eights = [eight_bit(x, True, 256), eight_bit(np.abs(x), False, 256)]
        out["tensors"].append({"name": name, "x": bits(torch.tensor(x)), "four_bit": cases, "eight_bit": eights})
    rng = np.random.default_rng(8)
    for n in (1, 7, 8, 31, 32, 33, 513, 1030):  # scales: their mean is what sums are hard to repeat for
        x = np.abs(rng.standard_normal(n)).astype(np.float32)
        out["means"].append({"x": bits(torch.tensor(x)), "mean": bits(torch.tensor(x).mean())})
    return out


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "data" / "quant"
    folder.mkdir(parents=True, exist_ok=True)
    folder_4bit(folder)
    for name, value in (("reference", numbers()), ("models", models()), ("linear4bit", linear4bit(folder))):
        text = json.dumps(value, indent=0 if name == "reference" else 1)
        (folder / (name + ".json")).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
