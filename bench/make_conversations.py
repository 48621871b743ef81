#!/usr/bin/env python3
"""Conversations for benchmarks: `make_conversations.py N WORDS FILE` writes N of at least WORDS words, the same ones
on every call. Of a few hundred words and more, each is longer than 512 tokens, so that batches are full."""
import json
import random
import sys

WORDS = """river stone garden window letter morning engine market winter bridge paper summer table silver forest answer
number people water machine story mountain question kitchen history music island planet language teacher picture
build carry follow measure remember compare explain choose repair travel listen gather finish water deliver quick
quiet narrow simple early distant careful broken yellow gentle heavy several because however therefore between
without under after before around the a of to in and is that it for on with as at by from this""".split()


def sentence(rng):
    words = rng.choices(WORDS, k=rng.randint(6, 16))
    return " ".join(words).capitalize() + "."


def conversation(rng, words):
    messages, count = [{"role": "system", "content": "You write as it comes."}], 0  # templates add none of their own
    while count < words or messages[-1]["role"] != "assistant":
        role = "user" if len(messages) % 2 == 1 else "assistant"
        content = " ".join(sentence(rng) for _ in range(2 if role == "user" else 5))
        messages.append({"role": role, "content": content})
        count += len(content.split())
    return {"messages": messages}


if __name__ == "__main__":
    count, words, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rng = random.Random(20)
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(count):
            f.write(json.dumps(conversation(rng, words)) + "\n")
