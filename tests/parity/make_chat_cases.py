#!/usr/bin/env python3
"""Write tests/data/chat/*.json: what transformers renders for chat templates and for pieces of the language.

    pip install transformers jinja2
    tests/parity/make_chat_cases.py

The templates in tests/data/chat/*.jinja are ours: each has the structure of a model family's template (which turns it
folds together, where white space goes, how tool calls, reasoning and documents are written), in words and control tokens
of our own choosing where they do not matter. language.json goes through Jinja itself (jinja_cases.py); an "error"
says that the reference refuses the template, and so must we. strftime_now is asked at a fixed time.
"""
import datetime
import json
import pathlib
import random
import warnings

from transformers.utils import chat_template_utils as reference

from jinja_cases import CASES

warnings.filterwarnings("ignore")
folder = pathlib.Path(__file__).resolve().parent.parent / "data" / "chat"
NOW = 1700000000  # 2023-11-14, 22:13:20 UTC


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW, tz=datetime.timezone.utc)


reference.datetime = FixedTime
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


def render(template, case):
    """As apply_chat_template(tokenize=False) does it."""
    messages = reference._normalize_chat_messages(case["messages"])
    try:
        texts, _ = reference.render_jinja_template(
            [messages], tools=case.get("tools"), documents=case.get("documents"), chat_template=template,
            add_generation_prompt=case.get("prompt", False), **SPECIAL, **case.get("variables", {}))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:120]}
    return {"text": texts[0]}


def write(name, value):
    (folder / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace('},{"', '},\n{"') + "\n")


TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}, {"role": "user", "content": "x"}]
write("language.json", [{"template": t, **render(t, {"messages": TALK})} for t in CASES])

WORDS = ["", "Hello", " padded ", "two\nlines\n", "\n\nlead", "caf\u00e9 \u65e5\u672c \U0001f600", "<|im_end|>", "</s>", "{{ x }} {% y %}",
         'quote " and \\ back', "<think>\nhm\n</think>\n\nso", "<think></think>bare", "a</think>b", "it's", "\t", "[INST] x [/INST]"]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Weather \u00b0C", "parameters": {
            "type": "object", "properties": {"city": {"type": "string", "description": "It's a \"city\""}, "days": {"type": "integer"}},
            "required": ["city"]}}},
         {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}]
ARGUMENTS = [{"city": "Graz", "days": 2}, {}, {"city": "\u6771\u4eac", "x": [1.5, None, True, {"y": "\n"}]}, '{"city": "Graz"}']
DOCUMENTS = [{"title": "One", "text": "first text"}, {"title": "Two", "text": "second\ntext"}]
pick = random.Random(11)


def assistant(with_tools, with_reasoning):
    message = {"role": "assistant", "content": pick.choice(WORDS)}
    if with_reasoning and pick.random() < 0.6:
        message["reasoning_content"] = pick.choice(WORDS)
    if with_tools and pick.random() < 0.6:
        message["tool_calls"] = [{"id": f"call{i:05d}", "type": "function",
                                  "function": {"name": pick.choice(["weather", "now"]), "arguments": pick.choice(ARGUMENTS)}}
                                 for i in range(pick.randrange(1, 3))]
        message["content"] = pick.choice([None, "", "Let me see."])
    return message


def conversation():
    system, tools, reasoning, documents = (pick.random() < p for p in (0.5, 0.4, 0.3, 0.15))
    messages = [{"role": "system", "content": pick.choice(WORDS)}] if system else []
    for _ in range(pick.randrange(1, 4)):
        messages.append({"role": "user", "content": pick.choice(WORDS)})
        if pick.random() < 0.85:
            messages.append(assistant(tools, reasoning))
            calls = messages[-1].get("tool_calls", [])
            for call in calls:
                messages.append({"role": "tool", "name": call["function"]["name"], "tool_call_id": call["id"],
                                 "content": pick.choice(["21 \u00b0C", '{"ok": true}', ""])})
            if calls and pick.random() < 0.8:
                messages.append(assistant(False, reasoning))
    case = {"messages": messages, "prompt": pick.random() < 0.4}
    if tools and pick.random() < 0.8:
        case["tools"] = TOOLS[:pick.randrange(1, 3)]
    if documents:
        case["documents"] = DOCUMENTS
    if pick.random() < 0.2:
        case["variables"] = {"enable_thinking": pick.random() < 0.5}
    return case


cases = [conversation() for _ in range(60)]
cases += [{"messages": [{"role": "user", "content": "q"}], "prompt": True},
          {"messages": [{"role": "assistant", "content": "first"}]},
          {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
          {"messages": [{"role": "system", "content": "only"}]},
          {"messages": [{"role": "narrator", "content": "odd"}]}]
templates = {path.stem: path.read_bytes().decode() for path in sorted(folder.glob("*.jinja"))}
write("families.json", {"cases": cases, "families": {
    name: [render(text, case) for case in cases] for name, text in templates.items()}})
for name, text in templates.items():
    good = sum("text" in render(text, case) for case in cases)
    print(f"{name}: {good} of {len(cases)} rendered, the others refused by the template")
