#!/usr/bin/env bash
# What finewire plan says of saving is what a run saves: the bytes of every optimizer, of full fine-tunes and adapters, and a
# rank's part of them, which --save_async holds in memory.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
fail() { echo "$*"; failed=1; }
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" tiny model || exit 1
printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n%.0s' 1 2 >data.jsonl

compare() { # METHOD OPTIONS...
  local method=$1; shift
  rm -rf run
  "$FINEWIRE" train --model model --dataset data.jsonl --output_dir run --disable_tqdm --num_threads 1 --max_steps 1 \
    --per_device_train_batch_size 1 "$@" >out 2>&1 || { cat out; fail "finewire train $* failed"; return; }
  "$FINEWIRE" plan --model model --gpus 4 --gpu l40s --method "$method" --json "$@" >plan.json 2>out || { cat out; fail "plan $*"; return; }
  python3 - "$*" <<'PYTHON' || failed=1
import json
import sys
saved = sum(p["bytes"] for t in json.load(open("run/step-00000001/manifest.json"))["tensors"].values() for p in t["pieces"])
plan = json.load(open("plan.json"))
ranks = 4
said = plan["checkpoint_bytes"], plan["save_async_bytes_a_rank"]
if said != (saved, -(-saved // ranks)):
    sys.exit(f"{sys.argv[1]}: the plan says {said}, {saved} were saved")
PYTHON
}
for optim in adamw_torch sgd lion_32bit lamb adafactor adamw_8bit lion_8bit; do compare full --optim $optim; done
compare lora --use_peft --lora_r 4
"$FINEWIRE" plan --model model --gpus 4 --gpu l40s --method full --optim lion_32bit >out 2>&1 || fail plan
tr -s '\n ' ' ' <out >unwrapped
grep -qF "state, 8 bytes for each that is trained" unwrapped || { cat out; fail "the bytes of an element"; }
grep -qF -- "--save_async takes a copy of its part too" unwrapped || { cat out; fail "no row about saving"; }
exit $failed
