#!/usr/bin/env bash
# finewire train --load_in_4bit together with everything else that saves memory, under every strategy: the classic recipe
# (paged_adamw_8bit), state and frozen weights elsewhere, recomputing. Nothing of it changes a bit of losses or adapter.
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
# run ARGUMENTS...: two steps; what it writes is in $folder/out, the losses and the adapter are in $got
run() {
  "$FINEWIRE" train --model "$folder/model" --dataset "$folder/data.jsonl" --output_dir "$folder/run" --overwrite_output_dir \
    --max_steps 2 --save_strategy no --logging_steps 1 --device cpu --num_threads 1 --use_peft --lora_r 16 \
    --learning_rate 1e-2 "${four[@]}" "$@" >"$folder/out" 2>&1 || fail "train $* failed"
  got=$(grep -o '"loss": *[0-9.e-]*, \|"grad_norm": *[0-9.e-]*' "$folder/run/metrics.jsonl"
    cksum <"$folder/run/final/adapter_model.safetensors")
  grep -q 'all taken and no more' "$folder/out" || fail "$*: not what was planned"
}
# same WHAT ARGUMENTS...: a run that ends as $want says
same() {
  local what=$1
  shift
  run "$@"
  [ "$got" = "$want" ] || fail "$what: other losses or another adapter: $got; without: $want"
}

four=(--load_in_4bit)
all=(--num_processes 2 --per_device_train_batch_size 2)
groups=(--num_processes 4 --per_device_train_batch_size 1 --strategy hsdp --shard_group_size 2)
run "${all[@]}" --optim adamw_8bit
eight=$got
run "${all[@]}"
[ "$got" != "$eight" ] || fail "no moment is in 8 bits"
want=$got
for strategy in ddp zero2 zero3; do
  these=("${all[@]}" --strategy "$strategy")
  same "$strategy, offload to a file" "${these[@]}" --offload_optimizer nvme
  same "$strategy, selective" "${these[@]}" --gradient_checkpointing selective
  want=$eight same "$strategy, paged 8 bits" "${these[@]}" --optim paged_adamw_8bit
done
these=("${all[@]}" --strategy zero3)
same "zero3, frozen weights in a file" "${these[@]}" --offload_optimizer nvme --offload_params nvme
grep -q 'frozen weights (4-bit, own share)' "$folder/out" && fail "frozen weights are not in the file"
same "zero3, frozen weights in memory of the host, recomputed" "${these[@]}" --offload_optimizer nvme --offload_params cpu \
  --gradient_checkpointing true --gradient_checkpointing_every 2 --prefetch 2
grep -q 'frozen weights, offloaded' "$folder/out" || fail "frozen weights are not in memory of the host"

run "${groups[@]}"
want=$got
same "hsdp, all in files" "${groups[@]}" --offload_optimizer nvme --offload_params nvme --gradient_checkpointing true
run "${groups[@]}" --optim adamw_8bit
want=$got
same "hsdp, paged 8 bits" "${groups[@]}" --optim paged_adamw_8bit

# one rank: the frozen weights of blocks are in the file but for those at work
for how in "" "--use_dora" "--bnb_4bit_quant_type fp4 --use_bnb_nested_quant"; do
  # shellcheck disable=SC2086 # no argument, one or more
  run $how
  want=$got
  # shellcheck disable=SC2086
  same "one rank $how" $how --offload_optimizer nvme --offload_params nvme
done

# the same of frozen weights in 16 and 32 bits
four=()
for how in "" "--bf16 false --lora_modules_to_save up_proj"; do
  # shellcheck disable=SC2086
  run $how "${all[@]}" --strategy zero3
  want=$got
  for place in cpu nvme; do
    # shellcheck disable=SC2086
    same "$place, zero3 $how" $how "${all[@]}" --strategy zero3 --offload_optimizer $place --offload_params $place
    grep -q 'frozen weights (.*share)' "$folder/out" && fail "$place $how: frozen weights are on the device"
  done
done
exit $failed
