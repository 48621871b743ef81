#!/usr/bin/env python3
"""A reader of checkpoints written from docs/checkpoint-format.md alone, with nothing but Python: checks every checksum and
prints a digest of every tensor.

    read_checkpoint.py step-00000050            "NAME SHAPE XXH64" a tensor, sorted by name
    read_checkpoint.py step-00000050 --weights  the parameters only
"""
import json
import math
import os
import sys

P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                      0x27D4EB2F165667C5)
MASK = (1 << 64) - 1


def rotate(x, n):
    return ((x << n) | (x >> (64 - n))) & MASK


def mix(lane, word):
    return rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64_rounds(data, lanes=((P1 + P2) & MASK, P2, 0, -P1 & MASK)):
    """The four lanes after whole rounds of 32 bytes."""
    words = memoryview(data).cast("Q")
    for at in range(0, len(words), 4):
        lanes = [mix(lane, words[at + i]) for i, lane in enumerate(lanes)]
    return lanes


def xxh64(data, lanes=None, before=0):
    """lanes, before: go on after so many bytes, which were hashed in whole rounds."""
    words = memoryview(data)[:len(data) // 8 * 8].cast("Q")
    at = len(data) // 32 * 4
    if before + len(data) >= 32:
        lanes = xxh64_rounds(memoryview(data)[:at * 8], lanes) if lanes else xxh64_rounds(memoryview(data)[:at * 8])
        value = sum(rotate(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            value = ((value ^ mix(0, lane)) * P1 + P4) & MASK
    else:
        value = P5
    value = (value + before + len(data)) & MASK
    for word in words[at:]:
        value = (rotate(value ^ mix(0, word), 27) * P1 + P4) & MASK
    rest = bytes(data[len(words) * 8:])
    if len(rest) >= 4:
        value = (rotate(value ^ int.from_bytes(rest[:4], "little") * P1 & MASK, 23) * P2 + P3) & MASK
        rest = rest[4:]
    for byte in rest:
        value = rotate(value ^ byte * P5 & MASK, 11) * P1 & MASK
    value = (value ^ value >> 33) * P2 & MASK
    value = (value ^ value >> 29) * P3 & MASK
    return f"{value ^ value >> 32:016x}"


def need(condition, message):
    if not condition:
        sys.exit(f"{sys.argv[0]}: {message}")


def read_manifest(folder):
    with open(os.path.join(folder, "manifest.json"), "rb") as file:
        text = file.read()
    body = text[:text.rindex(b'"manifest_xxh64"')]
    manifest = json.loads(text)
    need(manifest["format"] == "finewire-checkpoint" and manifest["format_version"] <= 3, "another format")
    need(text[len(body):] == f'"manifest_xxh64": "{xxh64(body)}"\n}}\n'.encode(), "the manifest is damaged")
    return manifest


def read_files(folder, manifest):
    files = {}
    for name, said in manifest["files"].items():
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = data = file.read()
        need(len(data) == said["bytes"], f"{name} has {len(data)} bytes, not {said['bytes']}")
        if "header_bytes" not in said:
            need(xxh64(data) == said["xxh64"], f"{name} is damaged")
            continue
        need(xxh64(data[:said["header_bytes"]]) == said["header_xxh64"], f"the header of {name} is damaged")
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        offsets = json.loads(header["__metadata__"]["DCP_SHARDING_INFO"])
        need(header["__metadata__"]["format"] == "pt", f"{name} is not marked pt")
        need(set(offsets) == set(header) - {"__metadata__"}, f"{name}: DCP_SHARDING_INFO has other tensors")
    return files


def first_element(offsets, shape):
    return offsets[0] if len(shape) == 1 else offsets[0] * shape[1] + offsets[1]


def checksums(data, block_bytes):
    """16 digits for each block; version 2 had one of the whole piece."""
    return "".join(xxh64(data[at:at + block_bytes]) for at in range(0, len(data), block_bytes))


def read_tensor(tensor, files, block_bytes):
    """All bytes of a tensor."""
    out = bytearray()
    size = {"F32": 4, "U8": 1}[tensor["dtype"]]
    for piece in sorted(tensor["pieces"], key=lambda p: first_element(p["offsets"], tensor["shape"])):
        need(first_element(piece["offsets"], tensor["shape"]) * size == len(out), "pieces leave a gap or overlap")
        data = files[piece["file"]][piece["start"]:piece["start"] + piece["bytes"]]
        need(len(data) == size * math.prod(piece["shape"]), "a piece lies outside of its file")
        need(checksums(data, block_bytes or len(data)) == piece["xxh64"], f"a piece in {piece['file']} is damaged")
        out += data
    need(len(out) == size * math.prod(tensor["shape"]), "pieces end before the tensor")
    return out


def main():
    manifest = read_manifest(sys.argv[1])
    files = read_files(sys.argv[1], manifest)
    for name, tensor in sorted(manifest["tensors"].items()):
        data = read_tensor(tensor, files, manifest.get("block_bytes"))
        if "--weights" not in sys.argv or not name.startswith("optimizer.state."):
            print(name, tensor["shape"], xxh64(data))


if __name__ == "__main__":
    main()
