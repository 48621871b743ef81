#!/usr/bin/env python3
"""Compare ids and decoded texts with the tokenizers package over many generated hostile texts.

    pip install tokenizers
    tests/parity/compare_tokenizers.py PROGRAM [--texts N] [--seed S] [--only NAME] [FOLDER ...]

PROGRAM is build/tests/test_text_kinds. Every kind of tokenizer_kinds.py gets N texts; FOLDERs hold a tokenizer.json
each, and get ten times as many. Prints one line a tokenizer and the first differences; exit 1 when there are any."""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer
from tokenizer_kinds import FIXED, bases, kinds, patched, texts

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("folders", nargs="*", type=pathlib.Path)
parser.add_argument("--texts", type=int, default=2000)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--only")
options = parser.parse_intermixed_args()


def ours(folder, inputs):
    frames = b"".join(struct.pack("=II", special, len(t)) + t for special, t in inputs)
    run = subprocess.run([options.program, "--serve", folder], input=frames, stdout=subprocess.PIPE)
    out, at = run.stdout, 0
    for _ in inputs:
        if at == len(out):
            return
        (n,) = struct.unpack_from("=I", out, at)
        ids = list(struct.unpack_from(f"={n}i", out, at + 4))
        at += 4 + 4 * n
        shown = []
        for _ in range(2):
            (n,) = struct.unpack_from("=I", out, at)
            shown.append(out[at + 4:at + 4 + n].decode())
            at += 4 + n
        yield ids, shown


def compare(name, folder, tokenizer, inputs):
    frames = [(special, text) for text in inputs for special in (1, 0)]
    different, done = 0, 0
    for (special, text), (ids, shown) in zip(frames, ours(folder, [(s, t.encode()) for s, t in frames])):
        done += 1
        tokenizer.encode_special_tokens = not special
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        decoded = [tokenizer.decode(expected, skip_special_tokens=skip) if expected else "" for skip in (False, True)]
        if ids == expected and shown == decoded:
            continue
        different += 1
        if different <= 3:
            print(f"  {name}: {text!r} special={special}\n    ours {ids} {shown}\n    ref. {expected} {decoded}")
    if done < len(frames):
        different += 1
        print(f"  {name}: our side ended after {done} of {len(frames)}: {frames[done][1]!r}")
    print(f"{name}: {len(inputs)} texts, {different} differences", flush=True)
    return len(inputs), different


total, wrong = 0, 0
with tempfile.TemporaryDirectory() as work:
    base = bases()
    for i, (name, base_name, patch) in enumerate(kinds(base)):
        if options.only not in (None, name):
            continue
        text = json.dumps(patched(base[base_name], patch))
        (pathlib.Path(work) / "tokenizer.json").write_text(text)
        n, bad = compare(name, work, Tokenizer.from_str(text), FIXED + texts(1000 * options.seed + i, options.texts))
        total, wrong = total + n, wrong + bad
for folder in options.folders:
    if not (folder / "tokenizer.json").exists():
        print(f"{folder}: skipped, it holds no tokenizer.json")
        continue
    n, bad = compare(str(folder), folder, Tokenizer.from_file(str(folder / "tokenizer.json")), FIXED + texts(options.seed, 10 * options.texts))
    total, wrong = total + n, wrong + bad
print(f"{total} texts, each with and without special tokens: {wrong} differences")
sys.exit(1 if wrong else 0)
