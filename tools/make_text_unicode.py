#!/usr/bin/env python3
"""Write src/text/unicode_tables.inc: where the reference's Unicode data differ from what the libraries here may know.

    pip install tokenizers unicodedata2
    tools/make_text_unicode.py > src/text/unicode_tables.inc

The `tokenizers` package freezes three versions of Unicode: its normaliser's, its regex library's, and Rust's.
PCRE2 and utf8proc come from the system in whatever version it has. No code point ever changed its class once
assigned (this script checks), so the difference is only about code points that are newer than one of them.
They are found by asking the package about every code point.
"""
import sys

import unicodedata as old  # Python's own: 14.0 in 3.11, what the oldest supported systems know
import unicodedata2 as new
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TWO = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")  # told apart by regexes in use; elsewhere the first letter decides


def matched(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return {c for c in CODES if not split.pre_tokenize_str(chr(c))}


sets = {name: matched(r"\p{%s}" % name) for name in TWO + tuple("LNMPS")}


def reference_class(code):
    return next((name for name in TWO + tuple("LNMPS") if code in sets[name]), "Cn")


rows = []
for code in CODES:
    known = old.category(chr(code))
    if known != "Cn":
        reference = reference_class(code)
        if reference != "Cn" and not known.startswith(reference):
            sys.exit(f"U+{code:04X} is {known} and the reference says {reference}: a table row is not enough")
        continue
    later = new.category(chr(code))
    if later == "Cn":
        continue
    reference = reference_class(code)
    shown = reference if reference != "Cn" else ("Cf" if later == "Cf" else "Cn")
    shown = {"M": "Mn", "S": "So", "P": "Po", "N": "No", "L": "Lo"}.get(shown, shown)
    if rows and rows[-1][1] == code - 1 and rows[-1][2] == shown:
        rows[-1][1] = code
    else:
        rows.append([code, code, shown])

nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
inert = set()
for code in CODES:
    char = chr(code)
    order, parts = new.combining(char), new.decomposition(char)
    if order:  # beside a mark of another class it must move, unless the reference does not know it
        text = "a\u0345" + char if order < 240 else "a" + char + "\u0334"
        if nfd.normalize_str(text) != new.normalize("NFD", text):
            inert.add(code)
    if parts and nfkd.normalize_str(char) != new.normalize("NFKD", char):
        inert.add(code)
for code in list(inert):  # nor may the parts of a pair that the reference does not know be composed
    parts = new.decomposition(chr(code))
    if parts and not parts.startswith("<"):
        inert |= {int(p, 16) for p in parts.split() if old.category(chr(int(p, 16))) == "Cn" or int(p, 16) >= 0x10000}


digits = pre_tokenizers.Digits(individual_digits=True)
numeric = {c for c in CODES if len(digits.pre_tokenize_str("a" + chr(c))) > 1}
punctuation = {c for c in CODES if c >= 0x80 and not pre_tokenizers.Punctuation("removed").pre_tokenize_str(chr(c))}
accents = {c for c in CODES if normalizers.StripAccents().normalize_str(chr(c)) == ""}
lower = {c: normalizers.Lowercase().normalize_str(chr(c)) for c in CODES if c >= 0x80}
lower = {c: ord(to) for c, to in lower.items() if to != chr(c) and c != 0x130}  # U+0130 alone becomes two


def ranges(codes):
    out = []
    for code in sorted(codes):
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def mappings(pairs):
    """Runs of code points `step` apart that move by the same distance."""
    out = []
    for code, to in sorted(pairs.items()):
        if out and to - code == out[-1][3]:
            first, last, step, _ = out[-1]
            if code - last == (step or code - last) and code - last <= 2:
                out[-1][1:3] = code, code - last
                continue
        out.append([code, code, 0, to - code])
    return out


print(f"/* Made by tools/make_text_unicode.py from tokenizers {tokenizers.__version__} and Unicode {new.unidata_version}: do not edit. */")
print("static const fw_unicode_class newer_classes[] = {")
for first, last, name in rows:
    print(f"    {{0x{first:x}, 0x{last:x}, FW_CLASS_{name.upper()}}},")
print("};\nstatic const fw_unicode_range inert[] = {")
for first, last in ranges(inert):
    print(f"    {{0x{first:x}, 0x{last:x}}},")
print("};\nstatic const fw_unicode_range numeric[] = {")
for first, last in ranges(numeric):
    print(f"    {{0x{first:x}, 0x{last:x}}},")
print("};")
for name, codes in (("punctuation", punctuation), ("accents", accents)):
    print(f"static const fw_unicode_range {name}[] = {{")
    for first, last in ranges(codes):
        print(f"    {{0x{first:x}, 0x{last:x}}},")
    print("};")
print("static const fw_unicode_mapping lower[] = {")
for first, last, step, by in mappings(lower):
    print(f"    {{0x{first:x}, 0x{last:x}, {step or 1}, {by}}},")
print("};")
