#!/usr/bin/env python3
"""Write tests/data/tokenizer_kinds.json: small tokenizers of every kind, and ids and texts of the tokenizers package.

    pip install tokenizers
    tests/parity/make_tokenizer_kinds.py

A case's "ids" are the package's; "literal" its encode_special_tokens, "text" and "plain" its decode with and without
special tokens, each left out where it is the same as the one before ("text" as the input)."""
import json
import pathlib

from tokenizers import Tokenizer
from tokenizer_kinds import FIXED, bases, kinds, patched, texts

out = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizer_kinds.json"
base = bases()


def case(tokenizer, text):
    tokenizer.encode_special_tokens = False
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = True
    literal = tokenizer.encode(text, add_special_tokens=False).ids
    row = {"in": text, "ids": ids}
    if literal != ids:
        row["literal"] = literal
    full, plain = (tokenizer.decode(ids, skip_special_tokens=skip) if ids else "" for skip in (False, True))
    if full != text:
        row["text"] = full
    if plain != full:
        row["plain"] = plain
    return row


rows = []
for i, (name, base_name, patch) in enumerate(kinds(base)):
    tokenizer = Tokenizer.from_str(json.dumps(patched(base[base_name], patch)))
    inputs = FIXED[i % 3::3] + texts(i, 10) if i > 8 else FIXED + texts(i, 10)
    rows.append({"name": name, "base": base_name, "patch": patch, "cases": [case(tokenizer, t) for t in inputs]})

with out.open("w") as file:
    file.write('{"bases": {\n')
    for i, (name, tokenizer) in enumerate(base.items()):
        file.write(f'{json.dumps(name)}: {json.dumps(tokenizer, separators=(",", ":"), ensure_ascii=False)}' + (",\n" if i + 1 < len(base) else "\n"))
    file.write('},\n"kinds": [\n')
    for i, row in enumerate(rows):
        file.write(json.dumps(row, separators=(",", ":")) + (",\n" if i + 1 < len(rows) else "\n"))
    file.write("]}\n")
print(out, out.stat().st_size, "bytes,", len(rows), "kinds,", sum(len(r["cases"]) for r in rows), "texts")
