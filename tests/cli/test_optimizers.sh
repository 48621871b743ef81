#!/usr/bin/env bash
# --optim through the binary: every optimizer trains, goes on from its checkpoint bit by bit, and is cut anew for other ranks and
# strategies with nothing changed; what it does not take is refused; lr_scale_rule says what it does.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
fail() { echo "$*"; failed=1; }

# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  "$FINEWIRE" "$@" >out 2>&1
  local got=$?
  if [ $got -ne "$code" ]; then echo "finewire $*: exit code $got, expected $code"; cat out; failed=1; fi
  if ! grep -qF -- "$text" out; then echo "finewire $*: the output lacks \"$text\":"; cat out; failed=1; fi
}

python3 "$FW_SOURCE_DIR/bench/make_random_model.py" tiny model || exit 1
for i in $(seq 1 12); do
  printf '{"messages": [{"role": "user", "content": "a%s"}, {"role": "assistant", "content": "b%s"}]}\n' "$i" "$i"
done >data.jsonl
train() {
  "$FINEWIRE" train --model model --dataset data.jsonl --disable_tqdm --logging_steps 1 --learning_rate 1e-3 \
    --max_steps 3 --lr_scheduler_type constant --save_total_limit 9 "$@" >out 2>&1 ||
    { cat out; fail "finewire train $* failed"; }
}

for optim in sgd lion lion_8bit lamb adafactor adamw_8bit; do
  arguments=(--optim "$optim")
  [ "$optim" = sgd ] && arguments+=(--optim_args "momentum=0.9,nesterov=true")
  train "${arguments[@]}" --output_dir $optim --num_processes 2 --strategy zero3 --save_steps 2 --per_device_train_batch_size 1
  grep -qF "loss" out || fail "$optim: no loss"
  # it goes on bit by bit from step 2, on the same ranks
  mkdir again && cp -r $optim/step-00000002 $optim/run.json again/
  train "${arguments[@]}" --output_dir again --num_processes 2 --strategy zero3 --save_steps 3 --per_device_train_batch_size 1
  expect 0 "0 of" ckpt diff $optim/step-00000003 --against again/step-00000003 --moments
  cmp $optim/final/model.safetensors again/final/model.safetensors || fail "$optim: not the same after a resume"
  # cut anew by ckpt, and by a run of other ranks under another strategy, which starts from the same state
  expect 0 "checkpoint = cut/step-00000002" ckpt reshard $optim/step-00000002 --output cut --ranks 3
  expect 0 "0 of" ckpt diff $optim/step-00000002 --against cut --moments
  expect 0 "sound" ckpt verify cut
  mkdir other && cp -r cut/step-00000002 $optim/run.json other/
  train "${arguments[@]}" --output_dir other --num_processes 1 --strategy ddp --max_steps 3 \
    --per_device_train_batch_size 2
  python3 - $optim <<'PY' || fail "$optim: other losses on other ranks"
import json, sys
def loss(folder):
    for line in open(f"{folder}/metrics.jsonl"):
        row = json.loads(line)
        if row.get("step") == 3 and "loss" in row:
            return row["loss"]
a, b = loss(sys.argv[1]), loss("other")
assert a is not None and b is not None and abs(a - b) < 2e-2 * a, (a, b)
PY
  rm -rf again other cut
done
grep -q '"optimizer.state.model.layers.0.self_attn.q_proj.weight.state2": {"dtype":"U8"' adamw_8bit/step-*2/manifest.json ||
  fail "no codes in the checkpoint of adamw_8bit"
grep -q "q_proj.weight.exp_avg_sq_row" adafactor/step-00000002/manifest.json || fail "no rows in the checkpoint of adafactor"
# the reader that follows the page, which is slow: on a small model
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico pico || exit 1
train --model pico --output_dir small --num_processes 2 --strategy zero2 --optim adafactor --save_steps 3
python3 "$FW_SOURCE_DIR/tests/checkpoint/read_checkpoint.py" small/step-00000003 >tensors || fail "the reader of the page"
grep -q "exp_avg_sq_col" tensors || fail "the reader does not find the columns"

# saved behind the training, and with the state elsewhere: the same
train --optim adamw_8bit --output_dir behind --num_processes 2 --strategy zero3 --save_steps 2 --save_async \
  --per_device_train_batch_size 1
expect 0 "0 of" ckpt diff adamw_8bit/step-00000003 --against behind/step-00000003 --moments
for place in cpu nvme; do
  train --optim adamw_8bit --output_dir away-$place --num_processes 2 --strategy zero3 --save_steps 2 \
    --offload_optimizer $place --per_device_train_batch_size 1
  expect 0 "0 of" ckpt diff adamw_8bit/step-00000003 --against away-$place/step-00000003 --moments
done
train --optim paged_adamw_8bit --output_dir paged --num_processes 2 --strategy zero3 --save_steps 2 \
  --per_device_train_batch_size 1
expect 0 "0 of" ckpt diff adamw_8bit/step-00000003 --against paged/step-00000003 --moments

# a resume under another optimizer
expect 2 "has the state of optimizer lamb, and this run's is adafactor" train --model model --dataset data.jsonl \
  --output_dir lamb --optim adafactor --max_steps 4 --num_processes 1

# what is not there
refuse() { expect 2 "$1" train --model model --dataset data.jsonl --output_dir new "${@:2}"; }
refuse "did you mean adamw_8bit" --optim adamw_8bits
refuse "an optimizer that finewire does not have yet" --optim galore_adamw
refuse "momentum is nothing that lamb takes" --optim lamb --optim_args momentum=0.9
refuse "it must be a number from 0 to 1" --optim sgd --optim_args momentum=2
refuse "lr_scale_base_batch does not say" --lr_scale_rule linear
refuse "lr_scale_rule is none" --lr_scale_base_batch 4
[ ! -e new ] || fail "something refused left a folder"

# the rate follows the batch, and says so
train --output_dir scaled --num_processes 2 --lr_scale_rule sqrt --lr_scale_base_batch 8 --per_device_train_batch_size 1 \
  --save_strategy no --gradient_accumulation_steps 1
grep -qF "learning rate 0.001 x sqrt(2 sequences a step / 8) = 0.0005" out || { cat out; fail "the scaled rate is not told"; }
grep -qF "of warm-up; learning rate 0.0005," out || { cat out; fail "the start does not say the rate of the steps"; }
grep -q '"learning_rate": *0.0005' scaled/metrics.jsonl || fail "the rate of the steps is not the scaled one"

train --output_dir scaled --overwrite_output_dir --num_processes 2 --lr_scale_rule linear --lr_scale_base_batch 8 \
  --per_device_train_batch_size 1 --save_strategy no --gradient_accumulation_steps 2
grep -qF "learning rate 0.001 x (4 sequences a step / 8) = 0.0005" out || { cat out; fail "the scaled rate is not told"; }

# DeepSpeed's words
echo '{"optimizer": {"type": "Lamb", "params": {"lr": 1e-3, "max_coeff": 10, "min_coeff": 0.01}}}' >lamb.json
expect 2 "has the state of optimizer lion_8bit, and this run's is lamb" train --model model --dataset data.jsonl \
  --output_dir lion_8bit --deepspeed lamb.json --max_steps 4 --num_processes 1
exit $failed
