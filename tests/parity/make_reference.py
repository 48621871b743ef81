#!/usr/bin/env python3
"""Numbers of the public reference (transformers on torch, CPU) for the tiny models of tests/parity/models.

Run by hand when a model is added: it is no part of the build or of `make test`.

    pip install torch transformers safetensors numpy
    python3 tests/parity/make_reference.py [NAME ...]

For every models/NAME.json it writes reference/NAME.safetensors:

    tokens I32 [n]            all documents behind each other
    document_lengths I32 [d]  the first half of the documents is window 0, the second half window 1;
                              each window is two micro-batches of four documents
    is_target I32 [n]         1: the loss counts the prediction of this token (never a document's first)
    logits F32 [t, V]         of document 0
    loss F32 [1]              window 0: sum over targets / number of targets, documents run one by one
    grad.NAME F32             gradient of that loss, per parameter
    learning_rate F32 [20], losses_fp32, grad_norms_fp32 F32 [20]    20 steps of AdamW, windows 0, 1, 0, 1, ...
    losses_bf16, losses_pure_bf16 F32 [20]  the same with bf16 autocast over fp32 weights, and all in bf16

Weights are not stored: `weight` below and fw_test_weight in tests/support/tiny_model.c make the same numbers.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM, get_linear_schedule_with_warmup

HERE = pathlib.Path(__file__).resolve().parent
STEPS, WARMUP, LEARNING_RATE, WEIGHT_DECAY, CLIP = 20, 4, 3e-3, 0.1, 1.0
DOCUMENTS, PER_MICRO = 16, 4


def mix(x):
    """splitmix64's finaliser on an array of uint64 (wraps)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def bits(name, n):
    """64 bits for each index of a named array: FNV-1a of the name, then splitmix64."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return mix(np.uint64(h) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def weight(name, n):
    """Exact in fp32: a power of two times an integer below 2^24 in magnitude; norms lie around 1."""
    z = bits(name, n)
    if "norm" in name:
        return (1.0 + ((z >> np.uint64(48)).astype(np.int64) - 2**15) * 2.0**-18).astype(np.float32)
    if name.endswith(".bias"):
        exponent = -27
    elif "embed_tokens" in name or "lm_head" in name:
        exponent = -25
    else:
        exponent = -26
    return (((z >> np.uint64(40)).astype(np.int64) - 2**23) * 2.0**exponent).astype(np.float32)


def make_model(config_path, dtype=torch.float32):
    config = AutoConfig.from_pretrained(config_path)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():
        for name, p in model.named_parameters():  # a tied head is the embedding and not listed
            p.copy_(torch.from_numpy(weight(name, p.numel())).reshape(p.shape))
    return model.to(dtype)


def make_documents(name, vocab):
    z = bits("documents of " + name, 4096)
    documents, at = [], DOCUMENTS
    for i in range(DOCUMENTS):
        length = 4 + int(z[i] >> np.uint64(32)) % 20
        tokens = (z[at:at + length] >> np.uint64(20)) % np.uint64(vocab)
        target = (z[at:at + length] >> np.uint64(10)) % np.uint64(5) < 3
        target[0] = False
        target[-1] = True
        documents.append((tokens.astype(np.int32), target.astype(np.int32)))
        at += length
    return documents


def loss_sum(model, document):
    tokens, target = document
    logits = model(input_ids=torch.from_numpy(tokens.astype(np.int64))[None]).logits[0].float()
    labels = torch.from_numpy(np.where(target == 1, tokens, -100).astype(np.int64))
    return torch.nn.functional.cross_entropy(logits[:-1], labels[1:], ignore_index=-100, reduction="sum"), logits


def train(model, windows, autocast):
    decay = [p for p in model.parameters() if p.dim() == 2]
    plain = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": WEIGHT_DECAY},
                                   {"params": plain, "weight_decay": 0.0}], lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8)
    schedule = get_linear_schedule_with_warmup(optimizer, WARMUP, STEPS)
    losses, norms, rates = [], [], []
    for step in range(STEPS):
        window = windows[step % 2]
        targets = sum(int(t.sum()) for _, t in window)
        total = 0.0
        for at in range(0, len(window), PER_MICRO):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                loss = sum(loss_sum(model, d)[0] for d in window[at:at + PER_MICRO]) / targets
            loss.backward()
            total += float(loss.detach())
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
        rates.append(optimizer.param_groups[0]["lr"])
        losses.append(total)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return losses, norms, rates


def reference(config_path):
    name = config_path.stem
    documents = make_documents(name, json.loads(config_path.read_text())["vocab_size"])
    windows = [documents[:DOCUMENTS // 2], documents[DOCUMENTS // 2:]]
    f32 = lambda values: np.asarray(values, dtype=np.float32).reshape(-1)
    model = make_model(config_path)
    sums = [loss_sum(model, d) for d in windows[0]]
    loss = sum(s for s, _ in sums) / sum(int(t.sum()) for _, t in windows[0])
    loss.backward()
    out = {
        "tokens": np.concatenate([t for t, _ in documents]),
        "is_target": np.concatenate([t for _, t in documents]),
        "document_lengths": np.asarray([len(t) for t, _ in documents], dtype=np.int32),
        "logits": sums[0][1].detach().numpy().copy(),
        "loss": f32([float(loss.detach())]),
    }
    for parameter, p in model.named_parameters():
        out["grad." + parameter] = p.grad.numpy().copy()
    losses, norms, rates = train(make_model(config_path), windows, False)
    out["losses_fp32"], out["grad_norms_fp32"], out["learning_rate"] = f32(losses), f32(norms), f32(rates)
    out["losses_bf16"] = f32(train(make_model(config_path), windows, True)[0])
    out["losses_pure_bf16"] = f32(train(make_model(config_path, torch.bfloat16), windows, False)[0])
    path = HERE / "reference" / (name + ".safetensors")
    save_file(out, path)
    worst = np.max(np.abs(out["losses_bf16"] / out["losses_fp32"] - 1))
    pure = np.max(np.abs(out["losses_pure_bf16"] / out["losses_fp32"] - 1))
    print(f"{name}: {path.stat().st_size} bytes, loss {losses[0]:.6f} -> {losses[-1]:.6f}, norms {max(norms):.3f} -> "
          f"{min(norms):.3f}, largest logit {np.abs(out['logits']).max():.2f}, bf16 off by {worst:.2e}, pure {pure:.2e}")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for config in sorted((HERE / "models").glob("*.json")):
        if len(sys.argv) == 1 or config.stem in sys.argv[1:]:
            reference(config)
