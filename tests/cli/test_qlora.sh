#!/usr/bin/env bash
# finewire train --load_in_4bit: one rank and shared out, with single and double quantisation; what it says and refuses.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/model"
# Weights of many sizes from a linear congruence; the tokenizer has a token for each byte.
python3 - "$folder/model" <<'PYTHON' || exit 1
import array, json, struct, sys
folder, C, F, H, V, L = sys.argv[1], 64, 128, 4, 512, 2

def write(name, content):
    json.dump(content, open(f"{folder}/{name}", "w"))

write("config.json", dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=C, intermediate_size=F,
                          num_attention_heads=H, num_key_value_heads=H, num_hidden_layers=L, vocab_size=V,
                          max_position_embeddings=256, rms_norm_eps=1e-5, rope_theta=10000, tie_word_embeddings=True,
                          hidden_act="silu"))
shown = [*range(33, 127), *range(161, 173), *range(174, 256)]  # these bytes stand for themselves, as in GPT-2
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
hidden = [byte for byte in range(256) if byte not in shown]
tokens = special + [chr(byte) for byte in shown] + [chr(256 + i) for i in range(len(hidden))]
write("tokenizer.json", dict(
    version="1.0", normalizer=None, post_processor=None, decoder={"type": "ByteLevel"},
    added_tokens=[dict(id=i, content=text, special=True, single_word=False, lstrip=False, rstrip=False,
                       normalized=False) for i, text in enumerate(special)],
    pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
    model={"type": "BPE", "vocab": {text: i for i, text in enumerate(tokens)}, "merges": []}))
write("tokenizer_config.json", dict(bos_token=special[1], eos_token=special[2], pad_token=special[0], chat_template=
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"))

shapes = {"model.embed_tokens.weight": [V, C], "model.norm.weight": [C]}
for layer in range(L):
    block = {"self_attn.q_proj": [C, C], "self_attn.k_proj": [C, C], "self_attn.v_proj": [C, C],
             "self_attn.o_proj": [C, C], "mlp.gate_proj": [F, C], "mlp.up_proj": [F, C], "mlp.down_proj": [C, F],
             "input_layernorm": [C], "post_attention_layernorm": [C]}
    shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in block.items()}
header, data, seed = {}, array.array("f"), 1
for name, shape in shapes.items():
    n = shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [4 * len(data), 4 * (len(data) + n)]}
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) % 2**31
        data.append(1.0 if len(shape) == 1 else (seed / 2**30 - 1) / 8)
text = json.dumps(header).encode()
with open(f"{folder}/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data.tobytes())
PYTHON
for i in 1 2 3 4 5 6 7 8; do
  printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b%s"}]}\n' $i
done >"$folder/data.jsonl"

fail() {
  echo "FAILED: $1"
  cat "$folder/out"
  failed=1
}
# run CODE ARGUMENTS...: two steps of the whole set; what it writes is in $folder/out
run() {
  local code=$1
  shift
  "$FINEWIRE" train --model "$folder/model" --dataset "$folder/data.jsonl" --output_dir "$folder/run" \
    --overwrite_output_dir --max_steps 2 --save_strategy no --logging_steps 1 --device cpu "$@" >"$folder/out" 2>&1
  local got=$?
  [ $got -eq "$code" ] || fail "train $*: exit $got, not $code"
}
losses() { grep -o '"loss": *[0-9.e-]*' "$folder/run/metrics.jsonl"; }
lora=(--use_peft --lora_r 4 --learning_rate 1e-2)

run 0 "${lora[@]}" --load_in_4bit --per_device_train_batch_size 4
grep -q 'frozen weights (4-bit)' "$folder/out" || fail "the plan names no weights in 4 bits"
grep -q 'units at work: frozen weights (unpacked)' "$folder/out" || fail "the plan has no room for an unpacked block"

for how in "" "--use_bnb_nested_quant" "--bnb_4bit_quant_type fp4"; do
  first=
  for strategy in ddp zero2 zero3; do
    # shellcheck disable=SC2086 # no argument or two
    run 0 "${lora[@]}" --load_in_4bit $how --num_processes 2 --strategy $strategy --per_device_train_batch_size 2
    got=$(losses)
    [ -n "$got" ] || fail "no losses"
    if [ -z "$first" ]; then first=$got; fi
    [ "$got" = "$first" ] || fail "$strategy $how: other losses than ddp's"
  done
done
grep -q 'frozen weights (4-bit, own share)' "$folder/out" || fail "zero3 does not share the 4-bit weights out"

run 2 --load_in_4bit
grep -q 'load_in_4bit needs use_peft' "$folder/out" || fail "4 bits without an adapter are not refused by name"
run 0 "${lora[@]}" --bnb_4bit_quant_type fp4
grep -q 'no effect without load_in_4bit' "$folder/out" || fail "a type without 4 bits is not warned of"
exit $failed
