"""Writes what bitsandbytes keeps in 8 bits, for finewire to be held against.

    python tests/parity/make_8bit_reference.py

- src/quant/dynamic_map.inc: the numbers that codes stand for, signed and not, and from which place of the scale from
  -1 to 1 in steps of 1/32767.5 on each code is taken. bitsandbytes' CPU library looks codes up in a table of these
  places; the table is read out of it here by giving it each of them.
- tests/parity/optimizers/state_8bit.json: codes and scales of AdamW8bit and Lion8bit after 1, 2 and 50 steps, as
  checksums and for the last as they are, and the weights, for a tensor of 20 blocks of which the last is short. Gradients
  come from a formula in whole numbers that the test has too.

Needs torch and bitsandbytes (0.50.2 wrote the committed files).
"""
import base64, json, zlib
import numpy as np, torch
import bitsandbytes as bnb
from bitsandbytes import functional as F

torch.set_num_threads(1)
f32 = np.float32
PLACES = 65536


def table_of(code):
    grid = (np.arange(PLACES, dtype=np.float64) / (PLACES - 1) * 2 - 1).astype(f32)
    rows = -(-PLACES // 255)
    blocks = np.ones((rows, 256), f32)  # the last of each block is its largest
    padded = np.zeros(rows * 255, f32)
    padded[:PLACES] = grid
    blocks[:, :255] = padded.reshape(rows, 255)
    out, _ = torch.ops.bitsandbytes.quantize_blockwise(torch.from_numpy(blocks.reshape(-1)), code.clone(), 256)
    return out.numpy().reshape(rows, 256)[:, :255].reshape(-1)[:PLACES].astype(int)


def write_map(path):
    text = ["/* Made by tests/parity/make_8bit_reference.py: see quant/dynamic_map.h. */"]
    for name, signed in (("SIGNED", True), ("UNSIGNED", False)):
        code = F.create_dynamic_map(signed=signed)
        table = table_of(code)
        assert (np.diff(table) >= 0).all() and table[-1] == 255
        first = [int(np.searchsorted(table, k)) for k in range(256)]
        for what, values in (("VALUES", [float(v).hex() + "f" for v in code.tolist()]), ("PLACES", first)):
            text.append(f"#define FW_DYNAMIC_{name}_{what} \\")
            rows = [", ".join(str(v) for v in values[i : i + 8]) for i in range(0, 256, 8)]
            text.append(", \\\n".join("    " + r for r in rows))
            text.append("")
    open(path, "w").write("\n".join(text).rstrip() + "\n")


def gradient(step, n):
    i = np.arange(n, dtype=np.uint64)
    x = (i * np.uint64(2654435761) + np.uint64(step) * np.uint64(40503)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(13)
    value = ((x & np.uint64(0xFFFF)).astype(np.int64) - 32768).astype(f32) * f32(2.0**-20)
    scale = np.array([2.0 ** -((k * 5) % 17) for k in range(n // 256 + 1)], f32)[np.arange(n) // 256]
    value = value * scale
    value[(x >> np.uint64(20)) % np.uint64(7) == 0] = 0
    return value.astype(f32)


def crc(t):
    return zlib.crc32(t.detach().numpy().tobytes())


def run(kind, n):
    w = torch.nn.Parameter(torch.from_numpy(gradient(0, n) * f32(64)))
    if kind == "adamw":
        o = bnb.optim.AdamW8bit([w], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    else:
        o = bnb.optim.Lion8bit([w], lr=1e-4, betas=(0.9, 0.99), weight_decay=0.01)
    result = {"n": n, "checks": {}}
    for step in range(1, 51):
        w.grad = torch.from_numpy(gradient(step, n))
        o.step()
        s = o.state[w]
        names = [k for k in ("state1", "absmax1", "state2", "absmax2") if k in s]
        if step in (1, 2, 50):
            result["checks"][str(step)] = {k: crc(s[k]) for k in names}
    for k in names:
        result[k] = base64.b64encode(s[k].numpy().tobytes()).decode()
    result["weights"] = base64.b64encode(w.detach().numpy().tobytes()).decode()
    return result


if __name__ == "__main__":
    write_map("src/quant/dynamic_map.inc")
    out = {"bitsandbytes": bnb.__version__, "adamw": run("adamw", 5000), "lion": run("lion", 5000)}
    json.dump(out, open("tests/parity/optimizers/state_8bit.json", "w"), indent=1)
