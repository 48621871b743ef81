#!/usr/bin/env bash
# Chat templates from the command line: any template is run, what is learnt of it, its options, and what is refused.
# The tokenizer has a token for each byte, so that targets can be counted by hand.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1

# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  "$FINEWIRE" "$@" >out 2>&1
  local got=$?
  if [ $got -ne "$code" ]; then echo "finewire $*: exit code $got, expected $code"; cat out; failed=1; fi
  if ! grep -qF -- "$text" out; then echo "finewire $*: the output lacks \"$text\":"; cat out; failed=1; fi
}
train() {
  local code=$1 text=$2; shift 2
  expect "$code" "$text" train --model model --dataset data.jsonl --disable_tqdm --max_steps 1 --save_strategy no \
    --output_dir run --overwrite_output_dir "$@"
}
say() { printf '%s\n' "$1" >model/chat_template.jinja; }
user='{"role": "user", "content": "q"}'
printf '{"messages": [%s, {"role": "assistant", "content": "one"}, %s, {"role": "assistant", "content": "two!"}]}\n' \
  "$user" "$user" >data.jsonl

# the folder's own template, ChatML: "one" and "two!" with an end of turn each
train 0 ", 9 of them targets"
train 0 ", 5 of them targets" --mask_history true
# Llama 2's form, with <|endoftext|> as its end: a blank before and after each answer is the model's to write
say "{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + ' <|endoftext|>' }}{% endif %}{% endfor %}"
train 0 ", 13 of them targets"
# tool calls, reasoning: 'f(1)' and what stands around it; a <think> block
say "{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}
{{ c.function.name }}({{ c.function.arguments.x }}){% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"
cp data.jsonl kept.jsonl
printf '{"messages": [%s, {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [{"function": {"name": "f", "arguments": "{\\"x\\": 1}"}}]}]}\n' "$user" >data.jsonl
train 0 ", 22 of them targets" # <think>hm</think> and f(1) and the end of the turn
expect 0 "* 1 reasoning" data show data.jsonl --model model --tokens
expect 0 "* 1 tool arguments" data show data.jsonl --model model --tokens
# marks in the data
printf '{"messages": [{"role": "user", "content": "qq", "train": true}, {"role": "assistant", "content": "a", "loss_weight": 0}]}\n' >data.jsonl
train 0 ", 3 of them targets"
cp model/chat_template.jinja kept.jinja
say "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% endif %}{% endfor %}"
printf '{"messages": [{"role": "user", "content": "qq", "train": true}, {"role": "assistant", "content": "a"}]}\n' >data.jsonl
train 0 "1 mark to learn a message do nothing"
expect 0 "marks     1 to learn a message do nothing" data stats data.jsonl --model model
cp kept.jinja model/chat_template.jinja
# what a user spells stays text, unless it is asked for
printf '{"messages": [{"role": "user", "content": "<|im_end|>"}, {"role": "assistant", "content": "a"}]}\n' >data.jsonl
train 0 ": 1 conversation, 30 tokens"
train 0 ": 1 conversation, 21 tokens" --allow_special_in_content true
# so do plain texts: 10 bytes and the end, or one token and the end; a text that was rendered has its own end
printf '{"text": "<|im_end|>a"}\n' >data.jsonl
train 0 ": 1 conversation, 12 tokens"
expect 0 "1 row has the spelling of control tokens" train --model model --dataset data.jsonl --disable_tqdm --max_steps 1 \
  --save_strategy no --output_dir run --overwrite_output_dir
expect 0 "1 row has the spelling of control tokens" data stats data.jsonl --model model
expect 0 "rows      1: 1 used" data stats data.jsonl --model model --allow_special_in_content true
if grep -q "spelling" out; then echo "a row is said to be literal that is not"; failed=1; fi
train 0 ": 1 conversation, 3 tokens" --allow_special_in_content true
printf '{"text": "a<|im_end|>"}\n' >data.jsonl
train 0 ": 1 conversation, 2 tokens" --allow_special_in_content true
printf '{"prompt": "<|im_start|>", "completion": "ab<|im_end|>"}\n' >data.jsonl
train 0 ": 1 conversation, 4 tokens, 3 of them targets" --allow_special_in_content true
# a template that leaves reasoning or whole turns out
say "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }} {{ m.content.split('</think>')[-1] }}<|im_end|>{% endfor %}"
printf '{"messages": [{"role": "system", "content": "s"}, {"role": "assistant", "content": "<think>w</think>a"}]}\n' >data.jsonl
train 0 "the chat template leaves out the reasoning of 1 assistant turn"
train 0 "the chat template leaves out 1 message"
# variables and the date
say "{{ strftime_now('%Y') }}{% for m in messages %}{{ m.role }}{{ m.content }}{{ 'x' * more }}<|im_end|>{% endfor %}"
cp kept.jsonl data.jsonl
train 0 ": 1 conversation, 55 tokens, 15 of them targets" --chat_template_kwargs '{"more": 3}' --chat_template_date 2024-02-29
train 2 "is no JSON object" --chat_template_kwargs 'more=3'
train 2 "add_generation_prompt is no variable of a template" --chat_template_kwargs '{"add_generation_prompt": true}'
train 2 "is no date" --chat_template_date 29.2.2024
expect 0 "" generate --model model --prompt hello --max_new_tokens 2 --chat_template_kwargs '{"more": 1}'
# a template for tools where it is not read: conversations with tools are refused, others are not
say "{% for m in messages %}{{ m.role + m.content }}{% endfor %}"
mkdir model/additional_chat_templates
echo '{{ tools }}' >model/additional_chat_templates/tool_use.jinja
printf '{"messages": [%s, {"role": "assistant", "content": "a"}], "tools": [{"name": "f"}]}\n' "$user" >tools.jsonl
expect 3 'additional_chat_templates/tool_use.jinja is the template of conversations with tools' data check tools.jsonl --model model
expect 0 '1 used' data check kept.jsonl --model model
rm -r model/additional_chat_templates
expect 0 'template  leaves out the tools of 1 conversation' data check tools.jsonl --model model
# what is refused says where
say "
{{ messages[0].content | nosuch }}"
train 3 'chat_template.jinja:2: there is no filter "nosuch" here'
say "{% for i in range(100000) %}{% for k in range(100000) %}{% endfor %}{% endfor %}"
train 3 "chat_template.jinja:1: the template needs more than 64 MiB of memory"
yes "$(cat data.jsonl)" | head -n 30 >many.jsonl
expect 3 "the chat template comes to its limits on each of the first 20 rows: many.jsonl:20" data stats many.jsonl --model model
say "{% for m in messages %}{{ m.role + m.content }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}"
printf '{"messages": [%s, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]}\n' "$user" >bare.jsonl
expect 0 'template  refuses the missing content of 1 message, and gets "" or none' data check bare.jsonl --model model
expect 0 '"content_refused": 1' data stats bare.jsonl --model model --json
expect 0 'to learn; the chat template refuses the missing content of 1 message' data show bare.jsonl --model model
say "{{ raise_exception('only poems') }}"
train 3 "the chat template refuses this conversation: only poems"
say "{% for m in messages %}"
train 3 "chat_template.jinja:1: the block that begins here is not closed by {% endfor %}"
# without a template only texts can be learnt
rm model/chat_template.jinja
python3 - <<'PYTHON'
import json
config = json.load(open("model/tokenizer_config.json"))
del config["chat_template"]
json.dump(config, open("model/tokenizer_config.json", "w"))
PYTHON
train 3 'the model has no chat template, which conversations need'
printf '{"text": "plain"}\n' >data.jsonl
train 0 ", 5 of them targets"
exit $failed
