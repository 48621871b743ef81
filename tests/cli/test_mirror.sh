#!/usr/bin/env bash
# finewire train --mirror: to a folder and by a command, what is refused, what a mirror that fails does to a run, and going on
# from a mirror where the output folder is lost.
# shellcheck disable=SC2016 # $1 is for the shells of the commands under test
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

fail() { echo "$*"; [ ! -f out ] || cat out; failed=1; }
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1
for i in $(seq 1 24); do
  printf '{"messages": [{"role": "user", "content": "a%s"}, {"role": "assistant", "content": "b%s"}]}\n' "$i" "$i"
done >data.jsonl
# train CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
train() {
  local code=$1 text=$2; shift 2
  env PATH="${NO_PROGRAMS:-$PATH}" "$FINEWIRE" train --model model --dataset data.jsonl --disable_tqdm --logging_steps 1 --learning_rate 1e-3 \
    --lr_scheduler_type constant --per_device_train_batch_size 2 "$@" >out 2>&1
  local got=$?
  [ $got -eq "$code" ] || fail "finewire train $*: exit code $got, expected $code"
  grep -qF -- "$text" out || fail "finewire train $*: the output lacks \"$text\""
}
same() { diff -r "$1" "$2" >differs || { cat differs; fail "$1 and $2 differ"; }; }

# a folder: what the run kept last is there, byte for byte, and the model
train 0 "model = whole/final" --output_dir whole --num_processes 2 --max_steps 6 --save_steps 2
train 0 "mirrored final to there" --output_dir run --num_processes 2 --max_steps 6 --save_steps 2 --save_total_limit 1 \
  --mirror there --mirror_total_limit 2
grep -qF "is on the same file system" out || fail "no warning that both are on one disk"
same run/step-00000006 there/step-00000006
same run/final there/final
[ "$(find there -name '.tmp*' -o -name '*.tmp-*')" = "" ] || fail "something half-written is in the mirror"
[ "$(find run -name '.tmp*')" = "" ] || fail "something is left in the output folder"
[ "$(find there -maxdepth 1 -name 'step-*' | wc -l)" -le 2 ] || fail "--mirror_total_limit 2 keeps more than two"
"$FINEWIRE" ckpt verify there >out 2>&1 || fail "the mirror is not sound"

# another run may not write there; nor is the output folder a mirror of itself
train 2 "--mirror there holds another run" --output_dir other --max_steps 1 --seed 1 --data_seed 3 --mirror there
train 2 "is the --output_dir itself" --output_dir other --max_steps 1 --mirror other
# nor is a place elsewhere a folder of this machine, or a file one
for place in s3://bucket/run https://host/x user@host:/run host:run; do
  train 2 "is no folder of this machine: give the command that copies {source} there" --output_dir other --max_steps 1 --mirror $place
done
train 2 "is a file and no folder" --output_dir other --max_steps 1 --mirror data.jsonl
[ ! -e other/step-00000001 ] || fail "a run with a mirror that is refused has begun"
mkdir here:run && train 0 "mirrored final to here:run" --output_dir colon --max_steps 1 --mirror here:run

# the machine is lost: the same command goes on from the mirror, and so does one that names it
train 0 "model = half/final" --output_dir half --num_processes 2 --max_steps 4 --save_steps 2 --mirror kept
rm -rf half
train 0 "half has no sound checkpoint: going on from the mirror's, kept/step-00000004" --output_dir half --num_processes 2 --max_steps 6 --save_steps 2 \
  --mirror kept
same half/final whole/final
same kept/final whole/final
# the only checkpoint of the output folder is damaged, and the mirror has it sound
rm -rf half/step-0000000[0-5]
for file in half/step-00000006/shard-00002*; do
  python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(-1, 2); b = f.read(1); f.seek(-1, 2); f.write(bytes([b[0] ^ 1]))' "$file"
done
train 0 "half has no sound checkpoint: going on from the mirror's, kept/step-00000006" --output_dir half --num_processes 2 \
  --max_steps 6 --save_steps 2 --mirror kept
grep -qF "is damaged" out || fail "the damage was not named"
same half/final whole/final
train 0 "resume    after step 6" --output_dir named --num_processes 2 --max_steps 7 --save_steps 2 \
  --resume_from_checkpoint kept

# the newest of the output folder is damaged, older ones are sound, and the mirror has the newest: that one, and it is mended here
train 0 "model = ahead/final" --output_dir ahead --num_processes 2 --max_steps 4 --save_steps 2 --mirror behind
truncate -s 300 ahead/step-00000004/manifest.json
train 0 "going on from the mirror's, which is newer, behind/step-00000004" --output_dir ahead --num_processes 2 \
  --max_steps 6 --save_steps 2 --mirror behind
grep -qF "resume    after step 4" out || fail "it went on from an older one"
[ ! -e behind/set-aside-step-00000004 ] || fail "the mirror's sound checkpoint was set aside"
same ahead/step-00000004 behind/step-00000004
same ahead/final whole/final
# what was given up here, on purpose, does not come back from a mirror that was not told
train 0 "set-aside-step-00000006" --output_dir ahead --num_processes 2 --max_steps 5 --save_strategy no \
  --resume_from_checkpoint ahead/step-00000004
train 0 "resume    after step 4" --output_dir ahead --num_processes 2 --max_steps 6 --save_steps 2 --mirror behind
same ahead/final whole/final

# a command: one argument a word, whatever is in it; the pointer; its output in the log
mkdir "over there"
put='sh -c "echo copying; rm -rf \"\$2\" && cp -r \"\$1\" \"\$2\"" put {source} "over there/{name}"'
train 0 "mirrored final" --output_dir "a run" --num_processes 2 --max_steps 4 --save_steps 2 --mirror "$put" \
  --mirror_check 'diff -r {source} "over there/{name}"'
same "a run/step-00000004" "over there/step-00000004"
same "a run/final" "over there/final"
grep -qF step-00000004 "over there/newest/newest.json" || fail "no pointer to the newest"
grep -qF copying "a run/mirror.log" || fail "the output of the command is not in the log"
# fetched by name, and without one
train 0 "resume    after step 4" --output_dir fetched --num_processes 2 --max_steps 6 --save_steps 2 \
  --resume_from_checkpoint 'cp -r "over there/{name}/." {target}'
same fetched/final whole/final
train 0 "resume    after step 4" --output_dir fetched2 --num_processes 2 --max_steps 6 --save_steps 2 \
  --resume_from_checkpoint 'cp -r "over there/step-00000004" {target}'
same fetched2/final whole/final
train 6 "exit code 3: no such thing" --output_dir none --max_steps 1 \
  --resume_from_checkpoint 'sh -c "echo no such thing; exit 3" sh {target}'
printf 'x' | dd of="over there/step-00000004/config.json" conv=notrunc 2>/dev/null
train 3 "config.json" --output_dir damaged --max_steps 5 --resume_from_checkpoint 'cp -r "over there/{name}/." {target}'
[ ! -e damaged/step-00000004 ] || fail "a damaged checkpoint was taken into the output folder"

# a mirror that fails: the run is whole, and its end says so
train 6 "does not have step-00000002 and the final model: copying step-00000002 has failed: sh ended with exit code 9: full" \
  --output_dir unlucky --num_processes 2 --max_steps 2 --mirror 'sh -c "echo full >&2; exit 9" sh {source}'
grep -qF "model = unlucky/final" out || fail "the run did not end"
"$FINEWIRE" ckpt verify unlucky >out 2>&1 || fail "the run's own checkpoint is not sound"
train 6 "cannot start no-such-program: there is no such program in PATH" --output_dir absent --max_steps 1 \
  --mirror 'no-such-program {source}'
train 6 "does not have step-00000001 and the final model" --output_dir slow --max_steps 1 --mirror_timeout 1s \
  --mirror 'sh -c "sleep 1000" sh {source}'
train 6 "copied, but --mirror_check says otherwise" --output_dir unsure --max_steps 1 --mirror "true {source}" \
  --mirror_check "false {source}"
# the same command, with the mirror in order, brings it up to date
train 0 "mirrored final" --output_dir unlucky --num_processes 2 --max_steps 2 --mirror_timeout 10m --mirror later
same unlucky/step-00000002 later/step-00000002
same unlucky/final later/final

# the Hub: a stand-in for its program, which is told to be busy once
NO_PROGRAMS=/nowhere train 2 "the program hf is not in PATH" --output_dir no --mirror hf://user/repository
mkdir bin
cat >bin/hf <<'STANDIN'
#!/bin/bash
set -e
echo "$@" >>"$HUB.calls"
if [ -e "$HUB.busy" ]; then rm "$HUB.busy"; echo "429 Client Error: Too Many Requests" >&2; exit 1; fi
[ "$2" = user/repository ]
case $1 in
  upload) [ "$5 $6 $7 $9" = "--revision main --delete --private" ]; mkdir -p "$HUB/$4"; cp -r "$3/." "$HUB/$4/" ;;
  download) [ "$3 $4 $5 $7" = "--revision main --include --local-dir" ]; mkdir -p "$8/.cache"
    to=$(realpath "$8"); mkdir -p "$HUB"; cd "$HUB"; shopt -s nullglob
    for file in $6; do mkdir -p "$to/$(dirname "$file")"; cp "$file" "$to/$file"; done ;;
esac
STANDIN
chmod +x bin/hf
(
  export PATH="$folder/bin:$PATH" HUB="$folder/hub" failed=0
  touch "$HUB.busy"
  train 0 "mirrored final to hf://user/repository" --output_dir local --num_processes 2 --max_steps 4 --save_steps 2 \
    --mirror hf://user/repository
  grep -qF "exit code 1: 429 Client Error" out || fail "the Hub was not busy"
  same local/step-00000004 hub/step-00000004
  for file in local/final/*; do cmp "$file" "hub/${file##*/}" || fail "$file is not at the top"; done
  train 0 "resume    after step 4" --output_dir other-machine --num_processes 2 --max_steps 6 --save_steps 2 \
    --resume_from_checkpoint hf://user/repository
  same other-machine/final whole/final
  exit $failed
) || failed=1

# options
train 2 "a command needs {source}" --output_dir no --mirror "rsync -a run host:/backup"
train 2 "{sauce} is not known" --output_dir no --mirror "cp {source} {sauce}"
train 2 "the quote \" is not closed" --output_dir no --mirror 'cp {source} "x'
train 2 "is not a repository of the Hub" --output_dir no --mirror hf://alone
train 2 "mirror_check is given, and no --mirror" --output_dir no --mirror_check "true {source}"
train 2 "finewire removes copies from a folder only, not what a command has copied" --output_dir no --mirror "true {source}" --mirror_total_limit 1
train 2 "write a time with its unit" --output_dir no --mirror x --mirror_timeout 5
exit $failed
