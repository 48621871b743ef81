#!/usr/bin/env python3
"""Numbers of the public reference for adapters: peft on the tiny models of tests/parity/models, fp32.

Run by hand when a case is added: it is no part of the build or of `make test`.

    pip install torch transformers peft safetensors numpy
    python3 tests/parity/make_adapter_reference.py [NAME ...]

For every case below it writes adapters/NAME/adapter_config.json, as peft's save_pretrained writes it, and
adapters/NAME/reference.safetensors:

    magnitude.NAME F32        DoRA magnitudes at the start (a row's norm times a number near 1)
    logits F32 [t, V]         of document 0, at the start
    loss F32 [1]              of window 0 at the start: see make_reference.py, whose documents and base weights these are
    grad.NAME F32             gradient of that loss, per trained tensor
    losses, grad_norms, learning_rate F32 [20]      20 steps of AdamW, windows 0, 1, 0, 1, ...

NAME is what the tensor is called in adapter_model.safetensors. Initial values are not stored: lora_A and lora_B are
`weight(NAME)` of make_reference.py (fw_test_weight in tests/support/tiny_model.c); where START is "zero", lora_B is 0,
as training begins. What an adapter trains of the base begins with the base's values.

Where lora_dropout is not 0, peft computes as ever, but which inputs are dropped is what device/dropout.h and
train/token_buffers.c say for SEED, and not chance: `Dropped` below takes the place of its dropout modules.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors import safe_open
from safetensors.numpy import save_file
from transformers import Trainer, get_linear_schedule_with_warmup

from make_reference import (CLIP, DOCUMENTS, HERE, LEARNING_RATE, PER_MICRO, STEPS, WARMUP, WEIGHT_DECAY, loss_sum,
                            make_documents, make_model, mix, weight)

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = {  # name: model, start, what LoraConfig is given
    "lora_qwen3": ("qwen3_untied", "full", dict(r=4, lora_alpha=8, target_modules=LINEAR)),
    "lora_llama": ("llama_tied", "zero", dict(r=3, lora_alpha=12, target_modules=["q_proj", "v_proj"])),
    "rslora_qwen3": ("qwen3_tied", "full", dict(r=4, lora_alpha=4, use_rslora=True, target_modules=["v_proj", "down_proj"])),
    "rslora_llama": ("llama_tied", "full", dict(r=2, lora_alpha=3, use_rslora=True, target_modules=["o_proj", "up_proj"])),
    "dora_qwen3": ("qwen3_tied", "full", dict(r=2, lora_alpha=4, use_dora=True, target_modules=LINEAR)),
    "dora_llama": ("llama_bias", "zero", dict(r=3, lora_alpha=6, use_dora=True, target_modules=LINEAR)),
    "pattern_llama": ("llama_tied", "full", dict(
        r=4, lora_alpha=8, target_modules=LINEAR, layers_to_transform=[0, 2],
        rank_pattern={"q_proj": 2, "model.layers.2.mlp.down_proj": 3}, alpha_pattern={"gate_proj": 3, "layers.0.self_attn.o_proj": 1})),
    "saved_qwen3": ("qwen3_untied", "full", dict(
        r=2, lora_alpha=4, target_modules=["q_proj", "k_proj"], modules_to_save=["lm_head", "norm", "up_proj"])),
    "embed_llama": ("llama_tied", "full", dict(r=2, lora_alpha=4, target_modules=["v_proj"], modules_to_save=["embed_tokens"])),
    "head_qwen3": ("qwen3_tied", "full", dict(r=2, lora_alpha=4, target_modules=["v_proj"], modules_to_save=["lm_head"])),
    "bias_all_llama": ("llama_bias", "full", dict(r=2, lora_alpha=2, target_modules=["q_proj", "down_proj"], bias="all")),
    "bias_own_llama": ("llama_bias", "full", dict(r=2, lora_alpha=2, target_modules=["k_proj", "gate_proj"], bias="lora_only")),
    "dropped_lora_qwen3": ("qwen3_untied", "full", dict(r=3, lora_alpha=6, lora_dropout=0.4, target_modules=LINEAR)),
    "dropped_dora_llama": ("llama_bias", "full", dict(r=2, lora_alpha=4, lora_dropout=0.3, use_dora=True, target_modules=LINEAR)),
    "dropped_dora_qwen3": ("qwen3_tied", "zero", dict(
        r=3, lora_alpha=3, lora_dropout=0.25, use_dora=True, use_rslora=True, target_modules=["q_proj", "v_proj", "down_proj"])),
}
SEED = 42
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Dropped(torch.nn.Module):
    """Dropout of one module's inputs [1, T, I]: of document `sample` at step `step`, which are the same for all modules."""
    step, sample = 0, 0

    def __init__(self, path, p):
        super().__init__()
        layer, module = path.split("layers.")[1].split(".")[0], path.rsplit(".", 1)[1]
        self.salt, self.p = int(layer) * len(LINEAR) + LINEAR.index(module), p

    def forward(self, x):
        if not self.training:
            return x
        return torch.where(torch.from_numpy(self.kept(*x.shape[1:])), x / (1 - self.p), torch.zeros_like(x))

    def kept(self, positions, channels):
        bits = lambda *numbers: np.bitwise_xor.reduce([np.uint64(n) for n in numbers])
        with np.errstate(over="ignore"):
            index = np.uint64(Dropped.sample << 32) | np.arange(positions, dtype=np.uint64)
            key = mix((mix(bits(mix(np.uint64(SEED) + GOLDEN), Dropped.step) + GOLDEN) ^ index) + GOLDEN)
            row = mix(key ^ mix(np.uint64(self.salt) + GOLDEN))[:, None]
            x = np.arange(channels, dtype=np.uint32)[None] * np.uint32(0x9E3779B9) + row.astype(np.uint32)
            x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
            x ^= (row >> np.uint64(32)).astype(np.uint32)
            x = (x ^ (x >> np.uint32(15))) * np.uint32(0xD35A2D97)
        return (x ^ (x >> np.uint32(15))) >= np.uint32(np.float64(np.float32(self.p)) * 2**32)


def file_name(parameter):
    """Name in adapter_model.safetensors of a parameter of the peft model."""
    for part in (".modules_to_save.default", ".default"):
        parameter = parameter.replace(part, "")
    return parameter.removesuffix(".weight") if "lora_magnitude_vector" in parameter else parameter


def make_adapted(case):
    variant, start, options = CASES[case]
    model = make_model(HERE / "models" / (variant + ".json"))
    model.name_or_path = "tiny/" + variant
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options))
    for path, module in adapted.named_modules():
        if "default" in getattr(module, "lora_dropout", {}) and options.get("lora_dropout", 0) > 0:
            module.lora_dropout["default"] = Dropped(path, options["lora_dropout"])
    adapted.peft_config["default"].base_model_name_or_path = "tiny/" + variant
    trained = {file_name(n): p for n, p in adapted.named_parameters() if p.requires_grad}
    saved = {n for n in get_peft_model_state_dict(adapted, save_embedding_layers=False)}
    assert set(trained) <= saved, (set(trained) - saved)
    with torch.no_grad():
        for name, p in trained.items():
            if ".lora_A" in name or ".lora_B" in name:
                value = torch.from_numpy(weight(name, p.numel())).reshape(p.shape)
                p.copy_(torch.zeros_like(p) if ".lora_B" in name and start == "zero" else value)
            elif "magnitude" in name and start == "full":
                p.mul_(1 + torch.from_numpy(weight(name, p.numel())))
    return adapted, trained


def dropped_loss(adapted, step, first, documents):
    """Sum of the losses of neighbouring documents as a step of a training has it."""
    total = 0
    for i, document in enumerate(documents):
        Dropped.step, Dropped.sample = step, first + i
        total = total + loss_sum(adapted, document)[0]
    return total


def train(adapted, trained, windows):
    decayed = set(Trainer.get_decay_parameter_names(None, adapted))
    is_decayed = {file_name(n): n in decayed for n, p in adapted.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in trained.items() if is_decayed[n]], "weight_decay": WEIGHT_DECAY},
         {"params": [p for n, p in trained.items() if not is_decayed[n]], "weight_decay": 0.0}],
        lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8)
    schedule = get_linear_schedule_with_warmup(optimizer, WARMUP, STEPS)
    losses, norms, rates = [], [], []
    for step in range(STEPS):
        window = windows[step % 2]
        targets = sum(int(t.sum()) for _, t in window)
        total = 0.0
        for at in range(0, len(window), PER_MICRO):
            first = step % 2 * len(window) + at
            loss = dropped_loss(adapted, step + 1, first, window[at:at + PER_MICRO]) / targets
            loss.backward()
            total += float(loss.detach())
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained.values(), CLIP)))
        rates.append(optimizer.param_groups[0]["lr"])
        losses.append(total)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return losses, norms, rates


def reference(case):
    variant = CASES[case][0]
    documents = make_documents(variant, json.loads((HERE / "models" / (variant + ".json")).read_text())["vocab_size"])
    windows = [documents[:DOCUMENTS // 2], documents[DOCUMENTS // 2:]]
    f32 = lambda values: np.asarray(values, dtype=np.float32).reshape(-1)
    adapted, trained = make_adapted(case)
    out = {"magnitude." + n: p.detach().numpy().copy() for n, p in trained.items() if "magnitude" in n}
    out["logits"] = loss_sum(adapted.eval(), windows[0][0])[1].detach().numpy().copy()
    loss = dropped_loss(adapted.train(), 1, 0, windows[0]) / sum(int(t.sum()) for _, t in windows[0])
    loss.backward()
    out["loss"] = f32([float(loss.detach())])
    for name, p in trained.items():
        out["grad." + name] = p.grad.numpy().copy()
    adapted, trained = make_adapted(case)
    losses, norms, rates = train(adapted.train(), trained, windows)
    out["losses"], out["grad_norms"], out["learning_rate"] = f32(losses), f32(norms), f32(rates)

    folder = HERE / "adapters" / case
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        adapted.save_pretrained(scratch, save_embedding_layers=False)
        config = json.loads((pathlib.Path(scratch) / "adapter_config.json").read_text())
        for key in ("target_modules", "modules_to_save"):  # sets: in any order
            if isinstance(config[key], list):
                config[key] = sorted(config[key])
        with safe_open(pathlib.Path(scratch) / "adapter_model.safetensors", "np") as f:
            extra = sorted(set(f.keys()) - set(trained))
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(out, folder / "reference.safetensors")
    print(f"{case}: {(folder / 'reference.safetensors').stat().st_size} bytes, {len(trained)} tensors, loss "
          f"{losses[0]:.6f} -> {losses[-1]:.6f}, norms {max(norms):.3f} -> {min(norms):.3f}, also saved: {extra}")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for case in CASES:
        if len(sys.argv) == 1 or case in sys.argv[1:]:
            reference(case)
