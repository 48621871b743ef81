"""Small tokenizers of every kind that the reader knows, trained with the tokenizers package on the texts below, and
hostile texts. make_tokenizer_kinds.py writes reference ids with them, compare_tokenizers.py compares at length."""
import copy
import json
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind; it's the dog's day. We'll see, they've said.",
    "In the beginning there was a river, and the river ran through the town where the miller and his daughter lived.",
    "She said: \"I'd rather walk than wait.\" He answered that waiting was walking too, only slower, and in one place.",
    "def add(a, b):\n    return a + b\n\n\nfor i in range(10):\n    print(i, add(i, i * 2))  # 3.14159, 2718\n",
    "#include <stdio.h>\n\nint main(void) {\n\tprintf(\"%d\\n\", 0x1F & 255);\n\treturn 0;\n}\n",
    "Der Müller mahlt das Korn; die Tochter trägt's über die Brücke. Größe, Straße, Fluß, Öl, Äpfel, Übung.",
    "L'été dernier, nous avons traversé la forêt où l'on dit qu'un garçon naïf a disparu. Ça va, Noël, cœur.",
    "Река течёт через город, и мельница стоит на берегу. Мы пойдём туда завтра утром, если не будет дождя.",
    "河流穿过小镇，磨坊立在岸边。明天早上如果不下雨，我们就去那里。他说：“走路总比等待好。”一二三四五六七八九十。",
    "川は町を流れ、水車小屋は岸に立っている。あしたのあさ、雨が降らなければ、そこへ行きましょう。カタカナもあります。",
    "강은 마을을 지나 흐르고 물레방아는 강가에 서 있다. 내일 아침 비가 오지 않으면 그곳에 가자.",
    "النهر يجري عبر البلدة والطاحونة على الضفة. سنذهب إلى هناك غدا صباحا. ١٢٣٤٥",
    "नदी नगर से होकर बहती है और चक्की किनारे पर खड़ी है। कल सुबह हम वहाँ जाएँगे। १२३",
    "😀😃 👍🏽 👨‍👩‍👧 🏳️‍🌈 → ≤ ≥ ∑ ∞ € £ © ™ … — – « » “ ” ‘ ’",
    "    four spaces\n        eight spaces\n\ttab\n\n\n\nempty lines   \n  end",
] * 3

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN2.replace(r"\p{N}| ", r"\p{N}{1,3}| ")
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
# bytes that UTF-8 never has, spelt as byte level spells them: DeepSeek's first files add them behind the vocabulary
NEVER = "\u00c0\u00c1" + "".join(chr(c) for c in range(0xF5, 0x100))

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BYTE_DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def normal(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def metaspace(scheme="always", cut=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}


def decode(*steps):
    return {"type": "Sequence", "decoders": list(steps)}


def added(first_id, *tokens):
    flags = ("special", "normalized", "lstrip", "rstrip", "single_word")
    return [{"id": first_id + i, "content": content, **{f: f in on.split() for f in flags}} for i, (content, on) in enumerate(tokens)]


def train(model, pre, trainer, normalizer=None):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(CORPUS, trainer)
    file = json.loads(tokenizer.to_str())
    file["pre_tokenizer"] = file["normalizer"] = None
    file["model"]["merges"] = [list(m) if isinstance(m, (list, tuple)) else m.split(" ") for m in file["model"]["merges"]]
    return file


def bases():
    quiet = {"show_progress": False}
    out = {}
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    out["bytes"] = train(models.BPE(), pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]),
                         trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, **quiet))
    # as SentencePiece: three specials, 256 bytes, then characters and merges; rare characters are left out
    fallback = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    out["pieces"] = train(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), pre_tokenizers.Metaspace(),
                          trainers.BpeTrainer(vocab_size=900, special_tokens=fallback, limit_alphabet=150, **quiet))
    out["pieces"]["added_tokens"] = out["pieces"]["added_tokens"][:3]
    out["words"] = train(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), pre_tokenizers.Whitespace(),
                         trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], end_of_word_suffix="</w>", limit_alphabet=120, **quiet), normalizers.Lowercase())
    out["hashes"] = train(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"), pre_tokenizers.Whitespace(),
                          trainers.BpeTrainer(vocab_size=500, special_tokens=["[UNK]"], continuing_subword_prefix="##", limit_alphabet=120, **quiet))
    return out


LLAMA2_NORM = normal({"type": "Prepend", "prepend": "▁"}, replace(" ", "▁"))
PIECE_DECODER = decode(replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"})
LLAMA2_DECODER = decode(replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0})
LLAMA2_POST = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
               "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
CHAT = ("<|im_start|>", "special"), ("<|im_end|>", "special lstrip rstrip"), ("<think>", ""), ("the river", "normalized single_word"), (" y ", "normalized lstrip"), ("Éé", "normalized"), ("\n\n", "rstrip")
PIECE_ADDED = [("<unk>", "special"), ("<s>", "special"), ("</s>", "special rstrip")]


def kinds(base):
    """(name, base, patch): top-level keys replaced, "model" updated, "drop" renames tokens of the vocabulary away."""
    n = {name: len(file["model"]["vocab"]) for name, file in base.items()}
    chat, more = added(n["bytes"], *CHAT), added(n["pieces"], ("<|user|>", "special rstrip"), ("<|end|>", "special"), ("hello", "normalized"), (" day", "normalized lstrip rstrip"))
    llama = {"added_tokens": base["pieces"]["added_tokens"] + more, "decoder": LLAMA2_DECODER, "post_processor": LLAMA2_POST}
    out = [
        ("gpt2", "bytes", {"pre_tokenizer": {**BYTES, "use_regex": True}, "decoder": BYTE_DECODER}),
        ("roberta", "bytes", {"pre_tokenizer": {**BYTES, "use_regex": True, "add_prefix_space": True}, "decoder": BYTE_DECODER, "added_tokens": chat,
                              "post_processor": {"type": "RobertaProcessing", "sep": ["<think>", n["bytes"] + 2], "cls": ["<|im_start|>", n["bytes"]], "trim_offsets": True, "add_prefix_space": True}}),
        ("qwen2", "bytes", {"normalizer": {"type": "NFC"}, "pre_tokenizer": sequence(split(QWEN2), BYTES), "decoder": BYTE_DECODER, "added_tokens": chat}),
        ("llama3", "bytes", {"pre_tokenizer": sequence(split(LLAMA3), BYTES), "decoder": BYTE_DECODER, "model": {"ignore_merges": True}, "added_tokens": chat}),
        ("cl100k", "bytes", {"pre_tokenizer": sequence(split(CL100K, "Removed", True), BYTES), "decoder": BYTE_DECODER}),
        ("tekken", "bytes", {"pre_tokenizer": sequence(split(TEKKEN), BYTES), "decoder": BYTE_DECODER, "model": {"ignore_merges": True}}),
        ("o200k", "bytes", {"pre_tokenizer": sequence(split(O200K), BYTES), "decoder": BYTE_DECODER}),
        ("deepseek3", "bytes", {"pre_tokenizer": sequence(split(r"\p{N}{1,3}"), split(CJK), split(DEEPSEEK3), BYTES), "decoder": BYTE_DECODER, "normalizer": normal()}),
        ("deepseek coder", "bytes", {"pre_tokenizer": sequence(split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK), {"type": "Digits", "individual_digits": True}, BYTES), "decoder": BYTE_DECODER}),
        ("smollm", "bytes", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, {**BYTES, "use_regex": True}), "decoder": BYTE_DECODER}),
        ("llama2", "pieces", {**llama, "normalizer": LLAMA2_NORM}),
        ("llama2 metaspace first", "pieces", {**llama, "pre_tokenizer": metaspace("first", False)}),
        ("metaspace always", "pieces", {**llama, "pre_tokenizer": metaspace("always", False), "decoder": metaspace()}),
        ("metaspace split", "pieces", {**llama, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True, "str_rep": "▁"}, "decoder": metaspace("first")}),
        ("metaspace never", "pieces", {**llama, "pre_tokenizer": metaspace("never"), "decoder": metaspace("never")}),
        ("metaspace after digits", "pieces", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, metaspace("first", True)), "decoder": PIECE_DECODER}),
        ("gemma", "pieces", {**llama, "normalizer": replace(" ", "▁"), "pre_tokenizer": split(" ", "MergedWithPrevious", kind="String"), "decoder": PIECE_DECODER, "model": {"fuse_unk": True}}),
        ("bytes missing", "pieces", {"normalizer": LLAMA2_NORM, "decoder": LLAMA2_DECODER, "drop": ["<0xF0>", "<0xC3>", "<0x0A>", "<0xE0>"]}),
        ("bytes missing unfused", "pieces", {"normalizer": LLAMA2_NORM, "decoder": LLAMA2_DECODER, "drop": ["<0xF0>", "<0xC3>", "<0xE0>"], "model": {"fuse_unk": False}}),
        ("no fallback", "pieces", {"pre_tokenizer": metaspace(), "decoder": metaspace(), "model": {"byte_fallback": False}}),
        ("no fallback unfused", "pieces", {"pre_tokenizer": metaspace(), "decoder": metaspace(), "model": {"byte_fallback": False, "fuse_unk": False}}),
        ("no unknown", "pieces", {"pre_tokenizer": metaspace(), "decoder": metaspace(), "model": {"byte_fallback": False, "unk_token": None}}),
        ("whole pieces", "pieces", {**llama, "normalizer": LLAMA2_NORM, "model": {"ignore_merges": True}}),
        ("no decoder", "pieces", {"normalizer": LLAMA2_NORM}),
        ("clip", "words", {"normalizer": normal({"type": "NFC"}, replace(r"\s+", " ", "Regex"), {"type": "Lowercase"}), "pre_tokenizer": {"type": "Whitespace"}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}),
        ("words by spaces", "words", {"normalizer": {"type": "Lowercase"}, "pre_tokenizer": sequence({"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Contiguous"}), "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}),
        ("hashes", "hashes", {"normalizer": {"type": "StripAccents"}, "pre_tokenizer": {"type": "Whitespace"}}),
        ("hashes nfd", "hashes", {"normalizer": normal({"type": "NFD"}, {"type": "StripAccents"}, {"type": "Strip", "strip_left": True, "strip_right": True}), "pre_tokenizer": sequence({"type": "CharDelimiterSplit", "delimiter": " "}, {"type": "Punctuation"})}),
        ("byte level normalizer", "bytes", {"normalizer": normal({"type": "NFKC"}, {"type": "ByteLevel"}), "decoder": BYTE_DECODER, "added_tokens": chat}),
        ("byte level inside", "bytes", {"pre_tokenizer": sequence({**BYTES, "use_regex": True, "add_prefix_space": True}, split("Ġ", "MergedWithNext", kind="String"), {"type": "Digits", "individual_digits": True}), "decoder": decode(BYTE_DECODER, replace(r"[!?]", "", "Regex"))}),
        ("nmt", "pieces", {"normalizer": normal({"type": "Nmt"}, {"type": "NFKC"}, replace(r" {2,}", " ", "Regex"), {"type": "Strip", "strip_left": False, "strip_right": True}), "pre_tokenizer": metaspace("first"), "decoder": metaspace("first")}),
        ("nfkd lower", "pieces", {"normalizer": normal({"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"}), "pre_tokenizer": metaspace("always"), "decoder": metaspace("always"), "added_tokens": llama["added_tokens"]}),
        ("replace and strip", "pieces", {"normalizer": normal(replace(r"\p{Lu}|\d{2}", "<>", "Regex"), replace("th", ""), {"type": "Strip", "strip_left": True, "strip_right": False}), "pre_tokenizer": metaspace("first", False),
                                         "decoder": decode(replace("▁", " "), {"type": "Strip", "content": " ", "start": 2, "stop": 0}, {"type": "ByteFallback"})}),
    ]
    for i, behavior in enumerate(("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext")):
        for invert in (False, True):
            kind = {"pre_tokenizer": sequence(split(r"\p{P}|\s" if i % 2 else r"[a-z]+|\d", behavior, invert), BYTES), "decoder": BYTE_DECODER}
            out.append((f"split {behavior}{' inverted' if invert else ''}", "bytes", kind))
        out.append((f"string {behavior}", "bytes", {"pre_tokenizer": sequence(split("e", behavior, i == 2, "String"), split("  ", behavior, False, "String"), BYTES), "decoder": BYTE_DECODER}))
        out.append((f"punctuation {behavior}", "pieces", {"pre_tokenizer": sequence({"type": "Punctuation", "behavior": behavior}, metaspace()), "decoder": metaspace()}))
    deepseek = [("<｜begin▁of▁sentence｜>", "special normalized"), *((c, "normalized") for c in NEVER), ("<｜User｜>", "normalized"), ("<think>", "normalized")]
    out.append(("deepseek2", "bytes", {"pre_tokenizer": sequence(split("[\r\n]"), split("\\s?[A-Za-z\u00b5\u00c0-\u024f\u0370-\u03ff\u0400-\u0481\uff21-\uff3a]+"), split(r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), split(r"\s+$"),
                                                                 split("[一-龥ࠀ-一가-\ud7ff]+"), {"type": "Digits", "individual_digits": True}, BYTES),
                                       "decoder": BYTE_DECODER, "normalizer": normal(), "added_tokens": added(n["bytes"], *deepseek), "drop": list(NEVER)}))
    out.append(("bloom", "bytes", {"pre_tokenizer": sequence(split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), BYTES), "decoder": BYTE_DECODER}))
    out.append(("lines", "bytes", {"pre_tokenizer": sequence(split(r"^\s+|.$|(?i:^the)"), split(r"[a[bc]d]+", "MergedWithNext"), BYTES), "decoder": BYTE_DECODER}))
    # which piece is the first, where the normaliser has put something before it, joined or taken apart what stands there
    mark = {"type": "Prepend", "prepend": "▁"}
    for name, normalizer, before in (("a mark", mark, split("▁", kind="String")), ("more", normal({"type": "Prepend", "prepend": "a b"}, {"type": "Lowercase"}), {"type": "WhitespaceSplit"}),
                                     ("parts", {"type": "NFD"}, split(r"\p{M}")), ("compatible", normal({"type": "NFKC"}, replace(r"\p{Lu}", "<>", "Regex")), {"type": "Punctuation"}),
                                     ("longer", replace("th", "e t"), split(" ", "MergedWithPrevious", kind="String")), ("bytes", None, {**BYTES, "use_regex": True, "add_prefix_space": True})):
        out.append((f"metaspace first behind {name}", "pieces", {"normalizer": normalizer, "pre_tokenizer": sequence(before, metaspace("first", True)), "decoder": PIECE_DECODER}))
    return out


def patched(base, patch):
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


FIXED = [
    "", " ", "\n", "\0", "a\0b", "  lead and trail  ", "I'm sure you'll say it's theirs, WE'LL SEE'S 'ſ", "the  answer   is 12345 and 6.7e-89",
    "tabs\tand\r\nCRLF\r\n\r\nand\n\n\nlines \n \n x", "café cafe\u0301 Å A\u030a \u212b Éé E\u0301e\u0301", "e\u0301" * 5 + "e\u0323\u0301 \u0301 \u0323",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "日本語の文章。ＡＢＣ１２３ 河流穿过小镇，磨坊", "\u0663\u0664 \u2167 \u00bd \u00b2 \U0001d7d8 \U00010d40", "😀😀 👨‍👩‍👧 🏳️‍🌈👍🏽",
    "\u00a0n\u2003e\u2028l\u2029p\u3000w\u180ev\u200bz\ufeffb\x85x\x0by\x0cz\x1cs\x7fd", "ﬁ ſ ß ẞ İ ı ǅ Σ ς", "a" * 70, " " * 40 + "x", "\n" * 9 + " " + "\n" * 3, "▁▁ ▁the▁river ▁",
    "<|im_start|>user\nhello<|im_end|>\n<|im_start|>", "a <|im_end|> b<think>\n\n\n the river the rivers y  y ", "<s> hello </s>  x<unk><0x41><0xE4>", "<|user|>  hi <|end|> hello day  day",
    "_-=+*/\\|~`@#$%^&(){}[]<>?!;:'\",.¿¡…—‘’“”«»", "".join(chr(c) for c in range(1, 128)), "".join(chr(c) for c in range(128, 256)),
    "def f(x):\n    return {'a': [1, 2.5e3]}  # ok\n\n\n", "HelloWORLDfooBar 'S don't DON'T x'll/\n//\r\n", "\U0001fae9\u1c89\u1c8a\ua7cb\U0001cc00\U000105c9", "\ufffe\uffff\U0010ffff\ue000\ufffd",
    "\u20ae \u20c4\u20a1 \u209d \u2b96x \u0378\u0530 \u2e60", # unassigned code points, inside the ranges that classes are written with
]
PIECES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "'s", "'LL", "the", " the", "ing", "12", "\u0663", "e\u0301", "é", "\u0323", "ﬁ", "😀", "日", "河流", "<", "|", ">", "<|im_end|>", "<think>", "<s>",
          "</s>", "<|user|>", "hello", " day", "▁", "_", ".", "，", "A", "Bc", "\u180e", "\u1c89", "\0", "\u200d", "\ufe0f", "👍", "\U0001f3fd", "İ", "ß", "Ω", "ǅ", "\u2028", "/", "!?", "½", "\x85", "가", "\u11a8", "the river", " y ", "\n\n"]


def character(rng):
    """Any scalar value, the lower planes more often."""
    limit = rng.choice((0x80, 0x80, 0x100, 0x300, 0x800, 0x3000, 0x10000, 0x20000, 0x110000))
    code = rng.randrange(limit)
    return "?" if 0xD800 <= code < 0xE000 else chr(code)


def hostile(rng):
    how = rng.randrange(8)
    if how == 0:  # any characters
        return "".join(character(rng) for _ in range(rng.randrange(1, 40)))
    if how == 1:  # one run, or two
        return "".join(rng.choice((character(rng), rng.choice(PIECES))) * rng.randrange(1, 60) for _ in range(rng.randrange(1, 3)))
    if how == 2:  # words of one block
        first = rng.randrange(0x20, 0x3000, 16)
        return " ".join("".join(chr(first + rng.randrange(48)) for _ in range(rng.randrange(1, 9))) for _ in range(rng.randrange(1, 8)))
    if how == 3:  # a part of the training text with something thrown in
        text = rng.choice(CORPUS)
        at, size = rng.randrange(len(text)), rng.randrange(1, 60)
        return text[at:at + size] + rng.choice(PIECES) + text[at + size:at + size + 20]
    if how == 4:  # letters with marks
        return "".join(chr(rng.choice((0x61, 0x41, 0x4B, 0x915, 0x1100, 0xAC00, 0x20)) + rng.randrange(20)) + "".join(chr(0x300 + rng.randrange(0x70)) for _ in range(rng.randrange(3))) for _ in range(rng.randrange(1, 15)))
    if how == 5:  # pairs of bytes
        return "".join(chr(rng.randrange(256)) + chr(rng.randrange(128)) for _ in range(rng.randrange(1, 20)))
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 25)))


def texts(seed, n):
    rng = random.Random(seed)
    return [hostile(rng) for _ in range(n)]
