#!/usr/bin/env bash
# A folder that bitsandbytes has packed in 4 bits: evaluated, asked, trained whole and beside an adapter, and merged; what
# cannot be read of such folders is named.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
fail() {
  echo "FAILED: $1"
  cat out
  failed=1
}
# expect CODE TEXT ARGUMENTS...
expect() {
  local code=$1 text=$2
  shift 2
  "$FINEWIRE" "$@" >out 2>&1
  local got=$?
  [ $got -eq "$code" ] || fail "finewire $*: exit code $got, expected $code"
  grep -qF -- "$text" out || fail "finewire $*: the output lacks \"$text\""
}

python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico pico >/dev/null || exit 1
cp -r "$FW_SOURCE_DIR/tests/data/quant/llama_tied_4bit" packed
# the byte tokenizer has more ids than this model: its marks take the places of the first three bytes, and few letters are left
python3 - <<'PY' || exit 1
import json
tokenizer = json.load(open("pico/tokenizer.json"))
vocabulary = {text: number for text, number in tokenizer["model"]["vocab"].items() if 3 <= number < 113}
for token in tokenizer["added_tokens"]:
    token["id"] -= 256
    vocabulary[token["content"]] = token["id"]
tokenizer["model"]["vocab"] = vocabulary
json.dump(tokenizer, open("packed/tokenizer.json", "w"))
config = json.load(open("pico/tokenizer_config.json"))
config["added_tokens_decoder"] = {str(int(k) - 256): v for k, v in config["added_tokens_decoder"].items()}
json.dump(config, open("packed/tokenizer_config.json", "w"))
PY
for i in 1 2 3 4 5 6 7 8; do
  printf '{"prompt": "ab", "completion": "b%s"}\n' "$i"
done >data.jsonl
data=(--dataset data.jsonl --device cpu)

expect 0 "loss = " eval --model packed "${data[@]}"
plain=$(grep '^loss' out)
# an adapter: the folder stays in 4 bits, with or without being asked to
for how in "" --load_in_4bit; do
  # shellcheck disable=SC2086 # no argument or one
  expect 0 "nf4 nested in blocks of 64" train --model packed "${data[@]}" --use_peft --lora_r 2 --max_steps 2 --logging_steps 1 \
    --save_strategy no --learning_rate 1e-2 --output_dir "adapter$how" $how
  grep -q "frozen weights (4-bit)" out || fail "the frozen weights are not in 4 bits"
done
cmp adapter/final/adapter_model.safetensors adapter--load_in_4bit/final/adapter_model.safetensors ||
  fail "asking for 4 bits changes the adapter"
expect 0 "loss = " eval --model packed --adapter adapter/final "${data[@]}"
[ "$(grep '^loss' out)" != "$plain" ] || fail "the adapter changes nothing"
expect 0 "difference" merge --model packed --adapter adapter/final --output merged
expect 0 "loss = " eval --model merged "${data[@]}"
# nothing is frozen: it is read as the numbers that its codes stand for
expect 0 "model = whole/final" train --model packed "${data[@]}" --max_steps 1 --save_strategy no --output_dir whole
grep -q "4-bit" out && fail "a full fine-tune has weights in 4 bits"

# codes that are stored as numbers of another type, as FSDP wants them (bnb_4bit_quant_storage), are the same
mkdir stored
cp packed/*.json stored/
python3 - <<'PY' || exit 1
import json, struct
data = open("packed/model.safetensors", "rb").read()
n = struct.unpack_from("<Q", data)[0]
header = json.loads(data[8:8 + n])
for name, tensor in header.items():
    if name + ".quant_map" in header:
        tensor["dtype"], tensor["shape"] = "BF16", [tensor["shape"][0] // 2, 1]
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("stored/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
PY
expect 0 "loss = " eval --model stored "${data[@]}"
[ "$(grep '^loss' out)" = "$plain" ] || fail "codes in another type are other codes"

# another type than the folder's has no effect, and a line says so
for how in "--load_in_4bit --bnb_4bit_quant_type fp4" "--load_in_4bit --use_bnb_nested_quant false"; do
  # shellcheck disable=SC2086
  expect 0 "is in 4 bits already, nf4 nested, and is taken as it is" train --model packed "${data[@]}" --use_peft --max_steps 1 \
    --save_strategy no --output_dir other --overwrite_output_dir $how
done
# the plan knows it from config.json alone
expect 0 "stays so beside an adapter: qlora" plan --model packed --device cpu --use_peft
grep -q "^QLoRA" out || fail "the plan is of another method"

# what cannot be read
python3 - <<'PY' || exit 1
import json, shutil, struct
data = bytearray(open("packed/model.safetensors", "rb").read())
n = struct.unpack_from("<Q", data)[0]
at = json.loads(data[8:8 + n])["model.layers.1.mlp.up_proj.weight.nested_absmax"]["data_offsets"][0]
struct.pack_into("<f", data, 8 + n + at, float("inf"))
shutil.copytree("packed", "infinite")
open("infinite/model.safetensors", "wb").write(data)
PY
expect 3 "model.layers.1.mlp.up_proj.weight.nested_absmax: element 0 is inf" train --model infinite "${data[@]}" --use_peft \
  --max_steps 1 --save_strategy no --output_dir other --overwrite_output_dir
for value in 0x7fc0 0x7f7f; do # bf16: NaN; the largest
  rm -rf huge && cp -r pico huge
  python3 - $value <<'PY' || exit 1
import json, struct, sys
data = bytearray(open("pico/model.safetensors", "rb").read())
n = struct.unpack_from("<Q", data)[0]
start, end = json.loads(data[8:8 + n])["model.layers.1.mlp.down_proj.weight"]["data_offsets"]
for at in range(start + 14 if sys.argv[1] == "0x7fc0" else start, start + 16 if sys.argv[1] == "0x7fc0" else end, 2):
    struct.pack_into("<H", data, 8 + n + at, int(sys.argv[1], 16))
open("huge/model.safetensors", "wb").write(data)
PY
  text="model.layers.1.mlp.down_proj.weight, from element 0 on: element 7 is nan"
  [ $value = 0x7fc0 ] || text="model.layers.1.mlp.down_proj.weight, its scales, whose sum is too large for fp32"
  expect 3 "$text" train --model huge "${data[@]}" --use_peft --load_in_4bit --use_bnb_nested_quant --max_steps 1 \
    --save_strategy no --output_dir other --overwrite_output_dir
done
spoil() { sed "$1" packed/config.json >spoilt/config.json; }
cp -r packed spoilt
spoil 's/load_in_4bit": true/load_in_4bit": false/; s/load_in_8bit": false/load_in_8bit": true/'
expect 3 "in 8 bits" eval --model spoilt "${data[@]}"
spoil 's/"quant_method": "bitsandbytes"/"quant_method": "gptq"/'
expect 3 '"quant_method" gptq' eval --model spoilt "${data[@]}"
exit $failed
