#!/usr/bin/env bash
# finewire train --mirror hf://...: the real `hf`, where huggingface_hub is installed, against a stand-in for the Hub
# (tests/support/hub_standin.py): copies that fail on the way, a token that is none, another run's repository, going on from it.
set -uo pipefail
failed=0
folder=$(mktemp -d)
cd "$folder" || exit 1
fail() { echo "$*"; [ ! -f out ] || cat out; failed=1; }

mkdir bin
if ! command -v hf >/dev/null; then
  if ! python3 -c "import huggingface_hub.cli.hf" 2>/dev/null; then
    echo "skipped: neither hf nor Python's huggingface_hub is here"
    rm -rf "$folder"
    exit 77
  fi
  printf '#!/bin/sh\nexec python3 -c "import sys; from huggingface_hub.cli.hf import main; sys.argv[0] = \\"hf\\"; main()" "$@"\n' >bin/hf
  chmod +x bin/hf
fi
export PATH="$folder/bin:$PATH" HF_HOME="$folder/home" HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_UPDATE_CHECK=1 HF_TOKEN=right
mkdir hub
# shellcheck disable=SC2034 # its standard input stays open until we end
coproc HUB { exec python3 "$FW_SOURCE_DIR/tests/support/hub_standin.py" hub --token right 2>hub.errors; }
# shellcheck disable=SC2153 # coproc sets it
hub_pid=$HUB_PID
trap 'kill "$hub_pid" 2>/dev/null; rm -rf "$folder"' EXIT
until [ -e hub/url ]; do
  kill -0 "$hub_pid" 2>/dev/null || { cat hub.errors; exit 1; }
  sleep 0.1
done
HF_ENDPOINT=$(cat hub/url)
export HF_ENDPOINT

python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1
for i in $(seq 1 24); do
  printf '{"messages": [{"role": "user", "content": "a%s"}, {"role": "assistant", "content": "b%s"}]}\n' "$i" "$i"
done >data.jsonl
# train CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
train() {
  local code=$1 text=$2; shift 2
  "$FINEWIRE" train --model model --dataset data.jsonl --disable_tqdm --logging_steps 1 --learning_rate 1e-3 \
    --lr_scheduler_type constant --per_device_train_batch_size 2 "$@" >out 2>&1
  local got=$?
  [ $got -eq "$code" ] || fail "finewire train $*: exit code $got, expected $code"
  grep -qF -- "$text" out || fail "finewire train $*: the output lacks \"$text\""
}
# holds FOLDER NAME: what the repository has under NAME (. for the top) is what the folder has, byte for byte, and nothing else
holds() {
  python3 - "$1" "$2" <<'PYTHON' || fail "the repository does not hold $1 as $2"
import hashlib, json, pathlib, sys
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
here = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}
tree = json.loads(pathlib.Path("hub/repos/user/repo/main.json").read_text())
there = {path: oid for path, oid in tree.items() if "/" not in path and path != ".gitattributes"} if name == "." else \
    {path.split("/", 1)[1]: oid for path, oid in tree.items() if path.startswith(name + "/")}
if here != there:
    sys.exit(f"here {sorted(here)}, there {sorted(there)}")
PYTHON
}
faults_are_used() { [ "$(grep -vc '^0 ' hub/faults)" = 0 ] || fail "what was to go wrong did not: $(cat hub/faults)"; }

# the repository cannot be made at first, then the Hub is busy, and closes a connection in the middle: all of it arrives
train 0 "model = whole/final" --output_dir whole --num_processes 2 --max_steps 6 --save_strategy no
printf '1 500 POST /api/repos/create\n1 429 preupload\n1 drop PUT /lfs\n1 500 commit/main\n' >hub/faults
train 0 "mirrored final to hf://user/repo" --output_dir run --num_processes 2 --max_steps 4 --save_steps 4 \
  --mirror hf://user/repo
grep -qF "tries again with the first checkpoint" out || fail "nothing was said of a repository that could not be made"
faults_are_used
holds run/step-00000004 step-00000004
holds run/final .

# the machine is lost; a download breaks off
printf '1 half GET /lfs\n' >hub/faults
train 0 "resume    after step 4" --output_dir elsewhere --num_processes 2 --max_steps 6 --save_strategy no \
  --resume_from_checkpoint hf://user/repo
faults_are_used
cmp elsewhere/final/model.safetensors whole/final/model.safetensors || fail "it did not go on as if nothing had happened"

# by one rank and into fewer files: of what was there under the names nothing is left, and the run says that it begins before it
train 0 "has step-00000004 of this run, which begins anew" --output_dir run --overwrite_output_dir --max_steps 4 --save_steps 4 \
  --mirror hf://user/repo
holds run/step-00000004 step-00000004
holds run/final .

# another run's; a token that is none: said at once, and at the end, and why; the run itself is whole
train 2 "hf://user/repo holds another run" --output_dir other --max_steps 1 --data_seed 3 --mirror hf://user/repo
HF_TOKEN=wrong train 6 "does not have step-00000001 and the final model: copying step-00000001 has failed" --output_dir bad \
  --max_steps 1 --mirror hf://user/repo
[ "$(grep -cF "401 Unauthorized" out)" -ge 3 ] || fail "it was not said at once, not tried again, or not said why"
grep -qF "is there a token in HF_TOKEN" out || fail "what helps was not said"
grep -q $'\033' out && fail "colours of a terminal are in a message"
"$FINEWIRE" ckpt verify bad >out 2>&1 || fail "the run's own checkpoint is not sound"
train 6 "Model 'user/nothing' not found" --output_dir none --max_steps 1 --resume_from_checkpoint hf://user/nothing
exit $failed
