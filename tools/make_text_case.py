#!/usr/bin/env python3
"""Write src/text/jinja/jinja_case.inc: characters whose upper or title case is more than one character, and numbers that are
no decimal digits.

    tools/make_text_case.py > src/text/jinja/jinja_case.inc

The library for Unicode here (utf8proc) maps one character to one; Python's str.upper follows SpecialCasing.txt.
These properties never change once a character is assigned, so Python's version of Unicode hardly matters.
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


def kind(code):
    char = chr(code)
    return char.isnumeric() and not char.isdecimal(), char.isdigit()


print("/* What str.isnumeric, and perhaps str.isdigit, knows beside decimal digits. */")
print("static const struct number_range {\n    uint32_t first, last;\n    bool is_digit;\n} number_ranges[] = {")
first = 0
for code in range(1, 0x110001):
    if code == 0x110000 or kind(code) != kind(first):
        if kind(first)[0]:
            print(f"    {{0x{first:x}, 0x{code - 1:x}, {str(kind(first)[1]).lower()}}},")
        first = code
print("};")
