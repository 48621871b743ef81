#!/usr/bin/env python3
"""Write tests/data/text_cases.json: ids and renderings of the public reference for hostile texts.

    pip install tokenizers transformers jinja2
    build/tests/test_text_parity --write DIR      # the tiny tokenizers
    tests/parity/make_text_cases.py DIR [QWEN3]   # QWEN3: a folder with Qwen3's tokenizer, for hashes of its ids

A case's ids are those of the tokenizers package; "literal" is its encode_special_tokens. Variants change the
tiny tokenizer's file, so that every step and option that the reader knows is met.
"""
import copy
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

work = pathlib.Path(sys.argv[1])
qwen3 = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
out = pathlib.Path(__file__).resolve().parent.parent / "data" / "text_cases.json"

TEXTS = [
    "", " ", "\n", "\0", "a\0b", "Hello world", "  leading and trailing  ", "I'm sure you'll say it's theirs, WE'LL SEE'S",
    "the  answer   is    12345 and 6.7e-89", "tabs\tand\r\nCRLF\r\n\r\nand\n\n\nlines \n \n x", "caf\u00e9 and cafe\u0301, \u00c5 A\u030a \u212b",
    "e\u0301" * 9 + "e\u0323\u0301 e\u0301\u0323", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002\uff21\uff22\uff11",
    "\u0663\u0664 \u2167 \u00bd \u00b2 \U0001d7d8 \U00010d40 \U00011de0", "\U0001f600\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
    "\u00a0nbsp\u2003em\u2028line\u2029para\u3000wide\u180evowel\u200bzero\ufeffbom", "\x85next\x0bvt\x0cff\x1csep\x7fdel",
    "'\u017f 'S 'LL 'Re \u2019s", "ﬁ ſ ß ẞ İ ı ǅ", "\u0915\u094d\u0937\u093f \u09c7\u09be \u0e33 \u0f73 \u0344", "a" * 200, " " * 100 + "x",
    "\n" * 50 + " " + "\n" * 3, "x " * 60, "1" * 30, "\u4e00" * 40, "_-=+*/\\|~`@#$%^&(){}[]<>?!;:'\",.",
    "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n", "a<|im_end|>b <|im_end|> <|endoftext|><|endoftext|>", "<|im_start", "|im_end|>",
    "<<|im_end|>>", "<think>\nwhy\n</think>\n\nok", "<|im_\u200bend|> <|IM_END|>", "\U0001fae9\u1c89\u1c8a\ua7cb\U0001cc00\U000105c9\U000105d2\u0307",
    "\U00011935\U00011930 \u32ff \u0897a\u0345", "\ufffe\uffff\U0001fffe\U0010ffff\ue000", "".join(chr(c) for c in range(1, 256)),
    "".join(chr(c) for c in range(0x300, 0x370)), "def f(x):\n    return {'a': [1, 2.5e3]}  # ok\n\n\n", "user assistant system question answer",
]
PIECES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "'s", "'LL", "the", " the", "ing", "12", "\u0663", "e\u0301", "\u00e9", "\u0323", "\ufb01", "\U0001f600",
          "\u65e5", "<", "|", ">", "<|im_end|>", "<x>", "ab", " y ", "<think>", "_", ".", "A", "\u180e", "\u1c89", "\0"]
random.seed(7)
TEXTS += ["".join(random.choice(PIECES) for _ in range(random.randrange(3, 25))) for _ in range(40)]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern, behavior, invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def steps(*list_):
    return {"type": "Sequence", "pretokenizers": list(list_) + [BYTES]}


def added(first_id, *tokens):
    flags = ("special", "normalized", "lstrip", "rstrip", "single_word")
    return [{"id": first_id + i, "content": content, **{f: f in on.split() for f in flags}} for i, (content, on) in enumerate(tokens)]


VARIANTS = [
    ("gpt2", "qwen2", {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}}),
    ("prefix space", "qwen2", {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}),
    ("llama3", "qwen2", {"normalizer": None, "pre_tokenizer": steps(split(LLAMA3, "Isolated")), "model": {"ignore_merges": True}}),
    ("NFD", "qwen2", {"normalizer": {"type": "NFD"}}),
    ("NFKC", "qwen2", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}}),
    ("NFKD", "qwen2", {"normalizer": {"type": "NFKD"}}),
    ("removed", "qwen2", {"pre_tokenizer": steps(split(r"\s+", "Removed"))}),
    ("inverted", "qwen2", {"pre_tokenizer": steps(split(r"\p{L}+|\d", "Removed", True))}),
    ("previous", "qwen2", {"pre_tokenizer": steps(split(r"[^\S\n]+|\p{Nd}", "MergedWithPrevious"))}),
    ("next", "qwen2", {"pre_tokenizer": steps(split(" ", "MergedWithNext", kind="String"))}),
    ("contiguous", "qwen2", {"pre_tokenizer": steps(split(r"\p{P}", "Contiguous"), {"type": "Digits", "individual_digits": False})}),
    ("empty matches", "qwen2", {"pre_tokenizer": steps(split(r"x*", "Isolated"))}),
    ("look-around", "qwen2", {"pre_tokenizer": steps(split(r"(?<=[a-m])\p{Ll}|(?<!\s)\d+?|[!-/:-@]", "Isolated"))}),
    ("added", "qwen2", {"added_tokens": added(397, ("<|im_start|>", "special"), ("<|im_end|>", "special lstrip rstrip"), ("<x>", "normalized"),
                                              ("the world", "single_word"), (" y ", "lstrip"), ("\u212b", "normalized"), ("\n\n", "rstrip"))}),
    ("unknown", "qwen2", {"drop": ["Q", "\u00e5", "!"], "model": {"unk_token": "Z", "fuse_unk": False}}),
    ("unknown fused", "qwen2", {"drop": ["Q", "\u00e5", "!", "?"], "model": {"unk_token": "Z", "fuse_unk": True}}),
    ("bytes missing", "qwen2", {"drop": ["Q", "\u00e5", "!", "?"]}),
]


def patched(base, patch):
    """What test_text_parity.c does too: replace top-level keys, update model, take tokens away that no merge uses."""
    file = copy.deepcopy(base)
    for key, value in patch.items():
        if key == "model":
            file["model"].update(value)
        elif key == "drop":
            for token in value:  # the id goes to a name that no text has, so that no other id moves
                file["model"]["vocab"]["gone " + token] = file["model"]["vocab"].pop(token)
        else:
            file[key] = value
    return file


def fnv(ids):
    hash_ = 0xCBF29CE484222325
    for id_ in ids:
        hash_ = ((hash_ ^ id_) * 0x100000001B3) % 2**64
    return f"{hash_:016x}"


def cases(tokenizer, texts):
    rows = []
    for text in texts:
        tokenizer.encode_special_tokens = False
        special = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        literal = tokenizer.encode(text, add_special_tokens=False).ids
        rows.append({"text": text, "ids": special, **({"literal": literal} if literal != special else {})})
    return rows


result = {"tokenizers": [], "chats": [], "qwen3": []}
for style in ("smollm2", "qwen2", "qwen3"):
    tokenizer = Tokenizer.from_file(str(work / style / "tokenizer.json"))
    result["tokenizers"].append({"name": style, "base": style, "patch": {}, "cases": cases(tokenizer, TEXTS)})
for i, (name, style, patch) in enumerate(VARIANTS):
    file = patched(json.loads((work / style / "tokenizer.json").read_text()), patch)
    tokenizer = Tokenizer.from_str(json.dumps(file))
    result["tokenizers"].append({"name": name, "base": style, "patch": patch, "cases": cases(tokenizer, TEXTS[5 + i % 2 : 44 : 2] + TEXTS[44 + i % 4 :: 4])})

if qwen3:
    tokenizer = Tokenizer.from_file(str(qwen3 / "tokenizer.json"))
    result["qwen3"] = [{"text": c["text"], "n": len(c["ids"]), "hash": fnv(c["ids"])} for c in cases(tokenizer, TEXTS)]

U, A, S = "user", "assistant", "system"
CHATS = [
    [(U, "Hello")], [(S, "Be brief."), (U, "Hello")], [(U, "Hello"), (A, "Hi there!")], [(S, ""), (U, ""), (A, "")],
    [(U, "a"), (A, "b"), (U, "c"), (A, "d")], [(A, "I begin"), (U, "ok")], [(U, "x"), (S, "late system"), (A, "y")], [(U, "x"), (U, "y"), (A, "z"), (A, "w")],
    [(U, "\n\nline breaks\n\n"), (A, "\n\n  both ends \n\n")], [(U, "caf\u00e9 cafe\u0301"), (A, "\u0301mark first \U0001f600")],
    [(U, "q"), (A, "<think>\nbecause\n</think>\n\nanswer")], [(U, "q"), (A, "<think>\nold\n</think>\n\none"), (U, "again"), (A, "<think>new</think>two")],
    [(U, "q"), (A, "<think></think>x"), (A, "no block"), (A, "tail")], [(U, "q"), (A, "a</think>b</think>\n\nc")], [(U, "q"), (A, "<think>\n<think>\n\nr\n\n</think>\n\n\nc")],
    [(U, "q"), (A, "<think>unfinished")], [(U, "q"), (A, "<think>t</think>"), (U, "<tool_response>\n1\n</tool_response>"), (A, "<think>u</think>v")],
    [(U, "<tool_response></tool_response>"), (A, "<think>k</think>w")], [(A, "\n\nfirst"), (A, "\n\nlast")], [(U, "nul \0 inside"), (A, "\0")],
]
for style in ("smollm2", "qwen2", "qwen3"):
    template = json.loads((work / style / "tokenizer_config.json").read_text())["chat_template"]
    tokenizer = Tokenizer.from_file(str(work / style / "tokenizer.json"))
    for chat in CHATS:
        messages = [{"role": role, "content": content} for role, content in chat]
        for flags, options in ((0, {}), (1, {"add_generation_prompt": True}), (3, {"add_generation_prompt": True, "enable_thinking": False})):
            if flags == 3 and style != "qwen3":
                continue
            text = render_jinja_template([messages], chat_template=template, **options)[0][0]
            if style == "qwen3" and qwen3:  # the real template must say the same as the tiny one
                real = json.loads((qwen3 / "tokenizer_config.json").read_text())["chat_template"]
                assert render_jinja_template([messages], chat_template=real, **options)[0][0] == text
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            result["chats"].append({"style": style, "messages": messages, "flags": flags, "text": text, "ids": ids})

with out.open("w") as file:
    file.write("{\n")
    for k, (key, rows) in enumerate(result.items()):
        file.write(f'"{key}": [\n')
        for i, row in enumerate(rows):
            file.write(json.dumps(row, separators=(",", ":")) + (",\n" if i + 1 < len(rows) else "\n"))
        file.write("]" + (",\n" if k + 1 < len(result) else "\n"))
    file.write("}\n")
print(out, out.stat().st_size, "bytes")
