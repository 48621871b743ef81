#!/usr/bin/env bash
# What training says of state that is kept elsewhere: where that saves nothing, what contradicts it, and a file that cannot be made.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model >/dev/null || exit 1
for i in 1 2 3 4; do
  printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b%s"}]}\n' $i
done >data.jsonl

# expect CODE TEXT ARGUMENTS...: one step
expect() {
  local code=$1 text=$2
  shift 2
  "$FINEWIRE" train --model model --dataset data.jsonl --output_dir run --overwrite_output_dir --max_steps 1 --save_strategy no \
    --device cpu --num_threads 1 "$@" >out 2>&1
  local got=$?
  if [ $got -ne "$code" ] || ! grep -qF -- "$text" out; then
    echo "FAILED: train $*: exit code $got, expected $code and \"$text\""
    cat out
    failed=1
  fi
}

for lever in "--offload_optimizer cpu" "--optim paged_adamw_32bit" "--optim paged_adamw_8bit"; do
  # shellcheck disable=SC2086 # two words
  expect 0 "what is offloaded to cpu or paged stays in the same memory" $lever
done
expect 0 "whose optimizer state stays: nothing is offloaded" --offload_optimizer nvme --wrap model
expect 0 "a rank in elsewhere, by " --offload_optimizer nvme --offload_dir elsewhere
[ -z "$(ls -A elsewhere)" ] || { echo "FAILED: the file has a name"; failed=1; }
expect 2 "offload_optimizer is nvme (the command line) contradicts optim is paged_adamw (the command line)" \
  --offload_optimizer nvme --optim paged_adamw
touch taken
expect 6 "offload_dir: cannot make folder taken" --offload_optimizer nvme --offload_dir taken
(
  ulimit -f 100
  expect 6 "could not size a file for offloaded state in elsewhere: File too large; name another folder with --offload_dir" \
    --offload_optimizer nvme --offload_dir elsewhere
  exit $failed
) || failed=1
exit $failed
