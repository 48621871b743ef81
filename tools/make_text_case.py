#!/usr/bin/env python3
"""Write src/text/jinja/jinja_case.inc: characters whose upper or title case is more than one character.

    tools/make_text_case.py > src/text/jinja/jinja_case.inc

The library for Unicode here (utf8proc) maps one character to one; Python's str.upper follows SpecialCasing.txt.
These mappings never change once a character is assigned, so Python's version of Unicode does not matter.
"""


def row(text):
    return "{" + ", ".join(f"0x{ord(c):x}" for c in text) + "}"


print("/* {code, upper case, title case}. Made by tools/make_text_case.py from Python's str; do not edit. */")
print("static const struct long_case {\n    uint32_t code, upper[3], title[3];\n} long_cases[] = {")
for code in range(0x110000):
    char = chr(code)
    if not 0xD800 <= code < 0xE000 and len(char.upper()) > 1:
        print(f"    {{0x{code:x}, {row(char.upper())}, {row(char.title())}}},")
print("};")
