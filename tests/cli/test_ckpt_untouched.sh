#!/usr/bin/env bash
# What must not be lost: folders that are no checkpoints, and checkpoints that are sound but cannot be read here and now.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  "$@" >out 2>&1
  local got=$?
  if [ $got -ne "$code" ]; then echo "$*: exit code $got, expected $code"; cat out; failed=1; fi
  if ! grep -qF -- "$text" out; then echo "$*: the output lacks \"$text\":"; cat out; failed=1; fi
}
fail() { echo "$*"; failed=1; }
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1
for i in $(seq 1 24); do
  printf '{"messages": [{"role": "user", "content": "a%s"}, {"role": "assistant", "content": "b%s"}]}\n' "$i" "$i"
done >data.jsonl
train=("$FINEWIRE" train --model model --dataset data.jsonl --disable_tqdm --num_threads 1 --per_device_train_batch_size 2
  --save_steps 2)
"${train[@]}" --output_dir run --max_steps 4 >out 2>&1 || { cat out; exit 1; }
again() { rm -rf "$1" && cp -r run "$1"; }
steps() { (cd "$1" && printf '%s ' ./*step-*); }
both="./step-00000002 ./step-00000004 "

# ckpt rm: a manifest.json or a name that begins like a checkpoint's makes none
mkdir -p work/app work/step-by-step work/step-00000007 work/set-aside-step-00000008
echo '{"name": "app", "start_url": "."}' >work/app/manifest.json
for dir in app step-by-step step-00000007 set-aside-step-00000008; do
  echo mine >work/$dir/notes
  expect 2 "work/$dir is not a checkpoint: nothing is removed" "$FINEWIRE" ckpt rm work/$dir
  expect 2 "is not a checkpoint" "$FINEWIRE" ckpt rm work/$dir --force
  [ "$(cat work/$dir/notes)" = mine ] || fail "work/$dir was removed"
done
expect 3 "there is nothing to remove" "$FINEWIRE" ckpt rm nowhere/step-00000002
[ ! -e nowhere ] || fail "a folder was made to remove something from it"
# what is left of a checkpoint is one, and so is a whole one under another name
again damaged && rm damaged/step-00000004/manifest.json && mv damaged/step-00000002 damaged/kept
expect 0 "removed damaged/step-00000004" "$FINEWIRE" ckpt rm damaged/step-00000004
expect 0 "removed damaged/kept" "$FINEWIRE" ckpt rm damaged/kept

# --overwrite_output_dir removes the run's files
again over && mkdir over/step-by-step && echo mine >over/step-by-step/notes
expect 0 "model = over/final" "${train[@]}" --output_dir over --max_steps 1 --overwrite_output_dir
[ "$(cat over/step-by-step/notes)" = mine ] || fail "--overwrite_output_dir removed a folder that is no checkpoint"
[ "$(steps over)" = "./step-00000001 ./step-by-step " ] || fail "left: $(steps over)"

# too many open files: that is no damage, nothing is set aside, nothing starts anew
mkdir wide && cp run/run.json wide
expect 0 "checkpoint = wide/step-00000004" "$FINEWIRE" ckpt reshard run --output wide --ranks 64
(
  ulimit -n 64
  expect 6 "Too many open files; that is no damage" "${train[@]}" --output_dir wide --max_steps 6
  exit $failed
) || failed=1
[ "$(steps wide)" = "./step-00000004 " ] || fail "too many open files left $(steps wide)"
expect 0 "resume    after step 4" "${train[@]}" --output_dir wide --max_steps 6

# no permission: the same (root may read everything)
if [ "$(id -u)" -ne 0 ]; then
  again closed && chmod 000 closed/step-00000004/shard-00001*
  expect 6 "Permission denied; that is no damage" "${train[@]}" --output_dir closed --max_steps 6
  [ "$(steps closed)" = "$both" ] || fail "no permission left $(steps closed)"
fi

# a checkpoint of a newer finewire is not damaged: a newer one reads it. With a wrong checksum it is
reseal() { # FOLDER VERSION: the manifest with another version, and its checksum right, from the reader of the format's page
  python3 - "$FW_SOURCE_DIR/tests/checkpoint" "$1/manifest.json" "$2" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1])
import read_checkpoint
text = open(sys.argv[2], "rb").read().replace(b'"format_version": 3', b'"format_version": ' + sys.argv[3].encode())
body = text[:text.rindex(b'"manifest_xxh64"')]
with open(sys.argv[2], "wb") as out:
    out.write(body + f'"manifest_xxh64": "{read_checkpoint.xxh64(body)}"\n}}\n'.encode())
PYTHON
}
again newer
reseal newer/step-00000004 4 || fail "reseal"
expect 2 "use a newer finewire; that is no damage" "${train[@]}" --output_dir newer --max_steps 6
[ "$(steps newer)" = "$both" ] || fail "a newer format left $(steps newer)"
expect 2 "newer/step-00000004: cannot be checked: " "$FINEWIRE" ckpt verify newer
expect 2 "use a newer finewire" "$FINEWIRE" ckpt export newer --output model2
expect 0 "resume    after step 2" "${train[@]}" --output_dir newer --max_steps 6 --resume_from_checkpoint newer/step-00000002
again flipped && sed -i 's/"format_version": 3/"format_version": 7/' flipped/step-00000004/manifest.json
expect 0 "resume    after step 2" "${train[@]}" --output_dir flipped --max_steps 6
expect 3 "is damaged" "$FINEWIRE" ckpt verify flipped/set-aside-step-00000004

# run.json damaged or lost: the checkpoints say whose they are
for damage in "" "{" "[]"; do
  again torn && printf '%s' "$damage" >torn/run.json
  expect 0 "resume    after step 4" "${train[@]}" --output_dir torn --max_steps 5
  grep -qF "it is written anew" out || fail "a damaged run.json was not named"
  cmp torn/run.json run/run.json || fail "run.json was not made again"
done
again torn && : >torn/run.json
expect 2 "torn/step-00000004 is of another run: data_seed was 42 and is 1" "${train[@]}" --output_dir torn --data_seed 1
[ ! -s torn/run.json ] || fail "a refused run has written its run.json"
rm torn/run.json
expect 2 "is of another run" "${train[@]}" --output_dir torn --data_seed 1
[ ! -e torn/run.json ] || fail "a refused run has made a run.json"

# fewer steps than are done: said, and the model is named by its step
expect 0 "this run ends at step 3: nothing is left to train, and the model is that of step 4" "${train[@]}" --output_dir run --max_steps 3

# what has changed is said in words
head -23 data.jsonl >fewer.jsonl
expect 2 "data_hash (the conversations as tokens: rows, chat template" "${train[@]}" --output_dir run --dataset fewer.jsonl
exit $failed
