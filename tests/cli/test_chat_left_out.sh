#!/usr/bin/env bash
# What a chat template writes nothing of is said by data show, stats, check and by training; an answer that would be learnt as
# an empty one is left out, with its reason. Marks count more than what is a prompt.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache NO_COLOR=
cd "$folder" || exit 1
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1

# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  last=$*
  "$FINEWIRE" "$@" --model model >out 2>&1
  local got=$?
  [ $got -eq "$code" ] || { echo "finewire $*: exit code $got, expected $code"; cat out; failed=1; }
  has "$text"
}
has() { grep -qF -- "$1" out || { echo "finewire $last: the output lacks \"$1\""; cat out; failed=1; }; }
lacks() { if grep -qF -- "$1" out; then echo "finewire $last: the output has \"$1\""; cat out; failed=1; fi; }
turns='{% for m in messages %}<|im_start|>{{ m.role }}
BODY<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}'
template() { printf '%s' "${turns/BODY/$1}" >model/chat_template.jinja; }

# tools, documents and tool calls of a template that knows none
template '{{ m.content }}'
cat >talk.json <<'END_OF_TALK'
[{"tools": "[{\"name\": \"f\"}]", "conversations": [{"from": "human", "value": "q"},
  {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {}}"},
  {"from": "observation", "value": "7"}, {"from": "gpt", "value": "seven"}]},
 {"tools": "[{\"name\": \"f\"}]", "documents": [{"title": "d"}],
  "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
 {"conversations": [{"role": "user", "content": "q"},
  {"role": "assistant", "content": "look", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]}]
END_OF_TALK
expect 3 "talk.json:1: the chat template writes nothing of the tool call that messages[1] is" data check talk.json
has "[tool_call_lost]"
has "1: a tool call that the chat template does not write"
has "template  leaves out tool calls of 1 message"
has "          leaves out the tools of 1 conversation"
has "          leaves out the documents of 1 conversation"
expect 0 "rows      3: 2 used, 1 left out" data check talk.json --allow_dropped
expect 0 '"tool_calls_left_out": 1' data stats talk.json --json
has '"tools_left_out": 1'
has '"tool_call_lost": 1'
expect 0 "== not used: talk.json:1: the chat template writes nothing of the tool call" data show talk.json
has "to learn; the chat template leaves out the tools of 1 conversation, the documents of 1 conversation"
expect 3 "talk.json:1: the chat template writes nothing" train --dataset talk.json --output_dir run --max_steps 1
expect 0 "the chat template leaves out the tools of 1 conversation: is the model made for tools?" \
  train --dataset talk.json --output_dir run --max_steps 1 --allow_dropped
has "1 conversation is left out: a tool call that the chat template does not write"
grep -qF '"reason":"tool_call_lost"' run/dropped.jsonl || { echo "dropped.jsonl lacks the reason"; failed=1; }
# one that knows them
template '{{ m.content }}{% if loop.first %}{{ tools | tojson if tools }}{{ documents | tojson if documents }}{% endif %}{{ m.tool_calls | tojson if m.tool_calls }}'
expect 0 "rows      3: 3 used, 0 left out" data check talk.json
lacks "leaves out"

# a part of what was said
printf '{"messages": [{"role": "user", "content": " question "}, {"role": "assistant", "content": "a"}]}\n' >one.jsonl
template '{{ m.content[:3] }}'
expect 0 "template  leaves out a part of 1 message" data check one.jsonl
template '{{ m.content | trim }}'
expect 0 "1 used, 0 left out" data check one.jsonl
lacks "leaves out"
expect 0 "one.jsonl: JSONL, shape messages, 1 row" data show one.jsonl
lacks "1 rows"

# a thought is the assistant's only
template '{{ m.content }}'
printf '{"messages": [{"role": "user", "content": "q</think>r"}, {"role": "assistant", "content": "a</think>b"}]}\n' >thought.jsonl
expect 0 "0 content " data show thought.jsonl --tokens
has "1 thought "
lacks "0 thought "

# a mark counts more than being the prompt
printf '{"prompt": [{"role": "user", "content": "q", "train": true}], "completion": [{"role": "assistant", "content": "a"}]}\n' >mark.jsonl
expect 0 "⟦q<|im_end|>⟧" data show mark.jsonl
has "⟦a<|im_end|>⟧"

# rows that lack what their shape has
printf '%s\n' '{"prompt": "p", "completion": "c"}' '{"prompt": "p"}' '{"completion": "c"}' >prompts.jsonl
expect 3 'prompts.jsonl:2: there is no "completion" in this row' data check prompts.jsonl
has 'prompts.jsonl:3: there is no "prompt" in this row'
printf '%s\n' '{"conversations": [{"from": "gpt", "value": "a"}]}' '{"conversation": [{"from": "gpt", "value": "a"}]}' >shares.jsonl
expect 3 'shares.jsonl:2: there is no "conversations" in this row' data check shares.jsonl
printf '%s\n' '{"instruction": "i", "output": "o"}' '{"instruction": "", "output": ""}' >alpaca.jsonl
expect 3 'alpaca.jsonl:2: "output" is empty: the model would learn to answer nothing [no_answer]' data check alpaca.jsonl
expect 0 "rows      2: 1 used, 1 left out" data stats alpaca.jsonl
exit $failed
