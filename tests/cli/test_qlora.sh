#!/usr/bin/env bash
# finewire train --load_in_4bit: one rank and shared out, with single and double quantisation; what it says and refuses.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" tiny "$folder/model" >/dev/null || exit 1
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
