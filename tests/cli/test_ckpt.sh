#!/usr/bin/env bash
# finewire ckpt: what its commands print, leave and refuse, on checkpoints of a real run of three ranks; and the reader that
# follows docs/checkpoint-format.md.
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

python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1
for i in $(seq 1 24); do
  printf '{"messages": [{"role": "user", "content": "a%s"}, {"role": "assistant", "content": "b%s"}]}\n' "$i" "$i"
done >data.jsonl
train() {
  "$FINEWIRE" train --model model --dataset data.jsonl --disable_tqdm --logging_steps 1 --learning_rate 1e-3 \
    --per_device_train_batch_size 2 "$@" >out 2>&1 || { cat out; fail "finewire train $* failed"; }
}
train --output_dir run --num_processes 3 --strategy zero3 --max_steps 4 --save_steps 2
step2=run/step-00000002 step4=run/step-00000004

expect 0 "3 zero3" ckpt ls run
[ "$(grep -c complete out)" -eq 2 ] || fail "ckpt ls does not list two complete checkpoints"
expect 0 '"step": 4' ckpt ls run --json
python3 -c 'import json, sys; assert [c["step"] for c in json.load(sys.stdin)["checkpoints"]] == [2, 4]' <out || fail "ls"
expect 0 "$step4: sound" ckpt verify run
expect 0 "$step2: sound (weights not read)" ckpt verify $step2 --fast

# every tensor, by a reader made from the page of the format; nothing else is different when it is cut anew
python3 "$FW_SOURCE_DIR/tests/checkpoint/read_checkpoint.py" $step4 >tensors || fail "the reader of the page fails"
[ "$(grep -c exp_avg_sq tensors)" -eq 26 ] || fail "the reader does not find the moments of 26 parameters"
for ranks in 1 5 64; do
  expect 0 "checkpoint = cut$ranks/step-00000004" ckpt reshard run --output cut$ranks --ranks $ranks
  python3 "$FW_SOURCE_DIR/tests/checkpoint/read_checkpoint.py" cut$ranks/step-00000004 | cmp - tensors || fail "$ranks"
done
ls cut5/step-00000004/shard-00005-model-* >/dev/null || fail "no file of the fifth rank"
expect 0 "0 of 78 tensors moved" ckpt diff $step4 --against cut5 --moments
expect 0 "26 of 26 tensors moved" ckpt diff $step2 --against $step4

# never over what is read, another checkpoint or a running run; a checkpoint's own name is taken as its name
sum_before=$(cat $step4/* | cksum)
expect 2 "is the checkpoint that is read" ckpt reshard $step4 --output run --ranks 2
expect 2 "is the checkpoint that is read" ckpt reshard $step4 --output ./$step4/ --ranks 2 --overwrite
expect 2 "cut1/step-00000003 is the name of another checkpoint" ckpt reshard $step4 --output cut1/step-00000003 --ranks 2
expect 2 "cut1/step-00000004 is there already" ckpt reshard run --output cut1 --ranks 2
[ "$(cat $step4/* | cksum)" = "$sum_before" ] || fail "a refused reshard changed its source"
expect 0 "checkpoint = cut1/step-00000004" ckpt reshard run --output cut1/step-00000004 --ranks 2 --overwrite
ls cut1/step-00000004/shard-00002-model-* >/dev/null || fail "--overwrite did not replace the checkpoint"
expect 0 "checkpoint = cut9/step-00000004" ckpt reshard run --output cut9/step-00000004 --ranks 2
[ ! -e cut9/step-00000004/step-00000004 ] || fail "a checkpoint inside a checkpoint"
mkdir held
exec 9>held/.lock
flock -n 9 || fail "flock"
expect 2 "held is in use by another finewire" ckpt reshard run --output held --ranks 2
exec 9>&-
[ ! -e held/step-00000004 ] || fail "a refused reshard left a checkpoint"

# a checkpoint is no model, and the message says how one is made of it
expect 3 "$step4 is a checkpoint, not a model; run finewire ckpt export $step4" generate --model $step4 --prompt a

# the model that is exported is the one that the run wrote
expect 0 "model = exported" ckpt export run --output exported
for file in model.safetensors config.json tokenizer.json; do cmp exported/$file run/final/$file || fail $file; done
expect 0 "model = pieces" ckpt export run --output pieces --dtype fp32 --max_shard_size 50KB
ls pieces/model-00003-of-*.safetensors >/dev/null || fail "not cut by size"
expect 0 "answer" generate --model pieces --prompt a --max_new_tokens 2 --json
expect 2 "which finewire did not write" ckpt export run --output .

# damage: named, exit code 3, not resumed from
shard=$(ls $step4/shard-00002-*-00002-of-*)
printf 'x' | dd of="$shard" bs=1 seek=5000 conv=notrunc 2>/dev/null
expect 3 "$shard is damaged: the checksum of" ckpt verify run
expect 3 '"sound": false' ckpt verify run --json
expect 3 "is damaged" ckpt export $step4 --output other
[ ! -e other ] || fail "an export of something damaged left a folder"
truncate -s 100 "$shard"
expect 0 "does not count: $shard has 100 bytes" ckpt ls run
expect 2 "only complete checkpoint" ckpt rm $step2
expect 0 "removed $step4" ckpt rm $step4
expect 0 "removed $step2" ckpt rm $step2 --force
expect 0 "run holds no checkpoints" ckpt ls run
expect 2 "is not a checkpoint: nothing is removed" ckpt rm model

# checkpoints of others: which, and what converts them
foreign() { rm -rf foreign; mkdir -p "foreign/$(dirname "$1")"; touch "foreign/$1"; }
foreign __0_0.distcp
expect 3 "distributed checkpoint of PyTorch" ckpt verify foreign
expect 3 "dcp_to_torch" train --model model --dataset data.jsonl --output_dir new --resume_from_checkpoint foreign
foreign global_step5/mp_rank_00_model_states.pt
expect 3 "(python zero_to_fp32.py foreign OUT -t global_step5 --safe_serialization)" ckpt ls foreign
touch foreign/latest foreign/zero_to_fp32.py
expect 3 "(python foreign/zero_to_fp32.py foreign OUT --safe_serialization)" ckpt ls foreign
expect 3 "(python foreign/zero_to_fp32.py foreign OUT -t global_step5 --safe_serialization)" ckpt ls foreign/global_step5
# a folder that holds them: by name, and where a run is to be written, as a warning
foreign checkpoint-7/trainer_state.json
mkdir foreign/checkpoint-12 && touch foreign/checkpoint-12/optimizer.pt
expect 3 "foreign/checkpoint-12 is a checkpoint of transformers' Trainer" ckpt ls foreign
expect 3 "foreign/checkpoint-12 is" train --model model --dataset data.jsonl --output_dir new --resume_from_checkpoint foreign
train --output_dir foreign --max_steps 1
grep -qF "holds what is not gone on from: foreign/checkpoint-12 is a checkpoint of transformers' Trainer" out ||
  fail "no warning of another's checkpoints"
expect 0 "foreign/step-00000001" ckpt verify foreign
foreign trainer_state.json
expect 3 "transformers' Trainer" ckpt export foreign --output other
expect 3 "holds no checkpoints" ckpt verify model
expect 2 "--against" ckpt diff run
exit $failed
