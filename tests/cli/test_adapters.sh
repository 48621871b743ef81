#!/usr/bin/env bash
# Adapters through the commands: trained, looked at, run, merged into their base (A19), exported; what is refused by name.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  "$FINEWIRE" "$@" >out 2>&1
  local got=$?
  if [ $got -ne "$code" ]; then echo "finewire $*: exit code $got, expected $code"; cat out; failed=1; fi
  if ! grep -qF -- "$text" out; then echo "finewire $*: the output lacks \"$text\":"; cat out; failed=1; fi
}
fail() { echo "$*"; failed=1; }
# number KEY: of the JSON object that was printed last
number() { python3 -c 'import json, sys; print(json.load(open("out"))[sys.argv[1]])' "$1"; }
holds() { python3 -c "import sys; sys.exit(not ($1))" || fail "does not hold: $1"; }

python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1
for i in $(seq 1 24); do
  printf '{"messages": [{"role": "user", "content": "a%s"}, {"role": "assistant", "content": "b%s"}]}\n' "$i" "$i"
done >data.jsonl
train() {
  "$FINEWIRE" train --model model --dataset data.jsonl --disable_tqdm --logging_steps 1 --learning_rate 1e-2 \
    --per_device_train_batch_size 4 "$@" >out 2>&1 || { cat out; fail "finewire train $* failed"; }
}
loss() { # MODEL AND ADAPTER...: of the data, in fp32
  "$FINEWIRE" eval --dataset data.jsonl --bf16 false --json "$@" >out 2>err || { cat err; fail "eval $*"; }
  number loss
}

train --output_dir run --use_peft --lora_r 4 --use_dora --lora_modules_to_save norm --max_steps 6 --num_processes 2 \
  --strategy zero3 --save_strategy no
for file in adapter_config.json adapter_model.safetensors tokenizer.json; do
  [ -s run/final/$file ] || fail "the final folder lacks $file"
done
for file in config.json model.safetensors; do
  [ ! -e run/final/$file ] || fail "the final folder has a model's $file"
done
grep -qF '"base_model_name_or_path": "model"' run/final/adapter_config.json || fail "the base is not named"
grep -qF '"use_dora": true' run/final/adapter_config.json || fail "the configuration does not say DoRA"

# with its base, named or found; without, the base alone
base=$(loss --model model) adapted=$(loss --model model --adapter run/final) found=$(loss --adapter run/final)
holds "$adapted < $base - 0.05 and $found == $adapted"
expect 0 "answer_tokens" generate --model model --adapter run/final --prompt a1 --max_new_tokens 3 --json

# merged: which base, how far off, and the same losses without the adapter
expect 0 "base = model (weights " merge run/final --output merged32 --dtype fp32
grep -qF "largest difference of logits from base + adapter = " out || fail "no difference is told"
grep -qF "model = merged32 (fp32)" out || fail "the type is not told"
merged=$(loss --model merged32)
holds "abs($merged - $adapted) < 1e-5"
expect 0 '"same_likeliest"' merge --adapter run/final --model model --output merged --json
difference=$(number largest_difference) largest=$(number largest_logit)
holds "0 < $difference < 0.05 * $largest and $(number compared_tokens) == 64"
[ "$(number base) $(number dtype)" = "model bf16" ] || fail "merge --json does not say base and type"
rounded=$(loss --model merged)
holds "abs($rounded - $adapted) < 0.02 * $adapted"
expect 0 "model = merged" merge run/final --output merged --check_tokens 0
if grep -qF "logits" out; then fail "--check_tokens 0 compares"; fi

# a run goes on from the folder
train --output_dir further --adapter_name_or_path run/final --max_steps 4 --save_strategy no
holds "$(loss --model model --adapter further/final) < $adapted"
expect 2 "lora_r is given" train --model model --dataset data.jsonl --output_dir x --adapter_name_or_path run/final --lora_r 2

expect 2 "use_peft is false (the command line), but adapter_name_or_path is run/final" train --model model \
  --dataset data.jsonl --output_dir x --adapter_name_or_path run/final --use_peft false
train --output_dir further4 --adapter_name_or_path run/final --load_in_4bit --max_steps 2 --save_strategy no
grep -qF "packed    nf4 in blocks of 64: " out || fail "the start does not say what is packed"
grep -qE "^.*adapter   DoRA r 4, alpha .*, on q_proj k_proj .* down_proj of [0-9]+ blocks?, .*norm.* whole: .* trained of" out ||
  fail "the start does not say what the adapter is"

# beside a base in 4 bits: the folder says so, and the merge is into the numbers that the codes stand for (A19)
train --output_dir qlora --use_peft --lora_r 4 --load_in_4bit --use_bnb_nested_quant --max_steps 4 --save_steps 2
found=$(loss --adapter qlora/final) asked=$(loss --adapter qlora/final --load_in_4bit --use_bnb_nested_quant)
other=$(loss --adapter qlora/final --load_in_4bit false)
holds "$found == $asked and $found != $other"
expect 0 "in 4 bits as nf4 nested: the numbers that they stand for" merge qlora/final --output dequantised --dtype fp32
holds "abs($(loss --model dequantised) - $found) < 1e-5"
expect 0 "adapter = " ckpt export qlora --output exported
for file in qlora/final/*; do cmp "$file" "exported/${file##*/}" || fail "the export has another ${file##*/}"; done
"$FINEWIRE" train --model model --dataset data.jsonl --output_dir qlora --use_peft --lora_r 4 --max_steps 6 --disable_tqdm \
  --per_device_train_batch_size 4 >out 2>&1 && fail "a run goes on beside a base that is not in 4 bits any more"
grep -qF "base_quantization" out || fail "it is not said why"
expect 2 "adapter's r was 4 and is 5" train --model model --dataset data.jsonl --output_dir qlora --use_peft --lora_r 5 \
  --load_in_4bit --use_bnb_nested_quant --max_steps 6 --per_device_train_batch_size 4
expect 2 "leave out --dtype" ckpt export qlora --output exported16 --dtype bf16
[ ! -e exported16 ] || fail "a refused export left a folder"
expect 0 "written as fp32" ckpt export qlora --output exported32 --dtype fp32
expect 2 "load_in_4bit needs adapter" eval --model model --dataset data.jsonl --load_in_4bit

# another base: by its weights, by its shape
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico other >/dev/null || exit 1
printf 'xyzw' | dd of=other/model.safetensors bs=1 seek=$(($(stat -c %s other/model.safetensors) - 64)) conv=notrunc 2>/dev/null
expect 3 "was trained on other weights than those of other" merge run/final --model other --output wrong
expect 0 "base = other" merge run/final --model other --output forced --force --check_tokens 0
sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 1/' other/config.json
expect 3 "other" eval --model other --adapter run/final --dataset data.jsonl
[ ! -e wrong ] || fail "a refused merge left a folder"

# what is no adapter, and what finewire does not have
expect 3 "the adapter's folder nowhere does not exist" merge nowhere --output x
expect 3 "it is a model's folder, to be given as --model" generate --model model --adapter model --prompt a
expect 3 "is an adapter; give it as --adapter" generate --model run/final --prompt a
expect 2 "finewire merge needs an adapter" merge --output x
expect 2 "--output" merge run/final
expect 2 "is the folder of the adapter that is read" merge run/final --output ./run/final/
[ -s run/final/adapter_model.safetensors ] || fail "a merge into its own folder took the adapter away"
cp -r run/final damaged
sed -i 's/"use_rslora": false/"use_rslora": false, "trainable_token_indices": [3]/' damaged/adapter_config.json
expect 3 '"trainable_token_indices" is [3]: finewire does not have that' merge damaged --output x
rm damaged/adapter_model.safetensors
cp run/final/adapter_config.json damaged
touch damaged/adapter_model.bin
expect 3 "a Python pickle, and no adapter_model.safetensors; convert it with peft" merge damaged --output x
mv merged32/tokenizer.json merged32/foreign.txt
expect 2 "which finewire did not write" merge run/final --output merged32
# ---- options of adapters: names that are not there, what has no effect
again=(train --model model --dataset data.jsonl --output_dir other --max_steps 1 --save_strategy no)
expect 2 "--lora_task_type is SEQ_CLS; it must be CAUSAL_LM" "${again[@]}" --use_peft --lora_task_type SEQ_CLS
expect 2 "did you mean q_proj?" "${again[@]}" --use_peft --lora_target_modules q_porj
expect 2 "--lora_modules_to_save lm_head" "${again[@]}" --use_peft --lora_target_modules lm_head
expect 0 "on q_proj v_proj o_proj gate_proj up_proj down_proj of 2 blocks" train --model model --dataset data.jsonl \
  --output_dir excluded --max_steps 1 --save_strategy no --use_peft --exclude_modules k_proj
python3 -c 'import json; assert json.load(open("excluded/final/adapter_config.json"))["exclude_modules"] == ["k_proj"]' ||
  fail "the folder does not say what was excluded"
expect 0 '"loss"' eval --model model --adapter excluded/final --dataset data.jsonl --json
expect 2 "adapter was set and is not set" train --model model --dataset data.jsonl --output_dir excluded --max_steps 1
expect 0 "lora_r has no effect without --use_peft" "${again[@]}" --lora_r 8
printf 'lora_target_modules: [q_proj, v_proj]\nlora_rank_pattern: {v_proj: 2}\nlora_task_type: CAUSAL_LM\n' >lists.yaml
expect 0 "adapter = other/final" "${again[@]}" --recipe lists.yaml --use_peft --overwrite_output_dir
[ -s other/final/adapter_model.safetensors ] || fail "lists of a recipe made no adapter"

exit $failed
