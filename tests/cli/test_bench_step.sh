#!/usr/bin/env bash
# finewire bench step: strategies of a recipe side by side, what does not fit among them, and nothing left behind.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
mkdir "$folder/tmp"
export TMPDIR=$folder/tmp
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" tiny "$folder/model" >/dev/null || exit 1
for i in 1 2 3 4 5 6 7 8 9; do
  printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b%s"}]}\n' $i
done >"$folder/data.jsonl"
cat >"$folder/recipe.yaml" <<YAML
model_name_or_path: $folder/model
dataset_name: $folder/data.jsonl
output_dir: $folder/run
per_device_train_batch_size: 1
num_processes: 2
save_strategy: steps
save_steps: 1
max_steps: 1000
YAML

# run CODE ARGUMENTS...: what it writes is in $folder/out and $folder/err
run() {
  local code=$1; shift
  "$FINEWIRE" bench step "$@" >"$folder/out" 2>"$folder/err"
  local got=$?
  command="bench step $*"
  if [ $got -ne "$code" ]; then
    echo "$command: exit code $got, expected $code"; cat "$folder/out" "$folder/err"; failed=1
  fi
  clean
}
says() { grep -qE -- "$1" "$folder/out" "$folder/err" || { echo "$command: no \"$1\" in:"; cat "$folder/out" "$folder/err"; failed=1; }; }
clean() {
  [ -z "$(ls -A "$TMPDIR")" ] || { echo "$command left files in TMPDIR"; ls -R "$TMPDIR"; failed=1; rm -rf "${TMPDIR:?}"/*; }
  [ ! -e "$folder/run" ] || { echo "$command wrote into output_dir"; failed=1; rm -rf "$folder/run"; }
}

OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 run 2 "$folder/recipe.yaml"
says 'starts its own ranks, one strategy after the other'
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 run 2 "$folder/recipe.yaml"
if [ -s "$folder/out" ] || [ -s "$folder/err" ]; then echo "$command: mpirun's rank 1 says it too"; failed=1; fi

run 0 "$folder/recipe.yaml" --bench_steps 3
says '^# bench step: .*/model, 2 ranks, batch 1 x 1 x 1024, 3 steps of each'
figure=' +[0-9.]+'
for strategy in ddp zero1 zero2 zero3; do
  says "^  $strategy +[0-9.]+  +[0-9.]+ x$figure$figure$figure MiB$figure MiB$figure MiB$figure\$"
done
says '^recommendation = (ddp|zero[123]): .* tokens/s'

run 0 "$folder/recipe.yaml" --bench_steps 3 --strategies zero3,ddp --json
read -r zero3 ddp < <(python3 - "$folder/out" <<'PYTHON'
import json, sys
out = json.load(open(sys.argv[1]))
assert out["world"] == 2 and out["steps"] == 3 and list(out["strategies"]) == ["zero3", "ddp"], out
for row in out["strategies"].values():
    assert row["fits"] and row["tokens_per_s"] > 0 and row["step_ms"] > 0 and row["sent_bytes"] > 0 and row["loss"] > 0
    assert 0 < row["peak_bytes"] and 0 < row["planned_bytes"] and 0 <= row["waited_ms"] <= row["step_ms"]
assert out["strategies"]["ddp"]["loss"] == out["strategies"]["zero3"]["loss"]
assert out["recommendation"]["strategy"] in out["strategies"] and "tokens/s" in out["recommendation"]["reason"]
print(out["strategies"]["zero3"]["planned_bytes"], out["strategies"]["ddp"]["planned_bytes"])
PYTHON
)
[ "${zero3:-0}" -gt 0 ] || failed=1
[ "${zero3:-0}" -lt "${ddp:-0}" ] || { echo "$command: zero3 plans $zero3 bytes and ddp $ddp"; failed=1; }

# What does not fit is a result, not the end; when nothing fits it is an error.
run 0 "$folder/recipe.yaml" --bench_steps 3 --strategies ddp,zero3 --device_memory "$(((zero3 + ddp) / 2))"
says '^  ddp +does not fit: a rank needs [0-9.]+ MiB and --device_memory allows'
says '^recommendation = zero3: '
run 4 "$folder/recipe.yaml" --bench_steps 3 --strategies ddp --device_memory 30MiB
says 'error: no strategy fits; ddp: a rank needs '
[ "$(grep -c 'error:' "$folder/err")" -eq 1 ] || { echo "$command: not one error"; cat "$folder/err"; failed=1; }

# Without a dataset, and with one rank, which has nothing to share.
run 0 --model "$folder/model" --bench_steps 3 --max_length 32
says '^# bench step: .*, 1 rank, batch 8 x 1 x 32,'
says '^recommendation = ddp: .*; nothing else was tried$'

# Refused before anything runs, or by the first run: one line.
run 2 "$folder/recipe.yaml" --strategies ddp,zero9
says 'error: strategies names "zero9"; it must be a list of ddp, zero1'
run 2 "$folder/recipe.yaml" --strategies ddp,ddp
says 'error: strategies names ddp twice'
run 2 "$folder/recipe.yaml" --bench_steps 2
says 'error: --bench_steps is 2; it must be from 3'
RANK=0 WORLD_SIZE=2 run 2 "$folder/recipe.yaml"
says 'error: finewire bench step starts its own ranks'
run 3 --model "$folder/none" --num_processes 2
[ "$(grep -c 'error:' "$folder/err")" -eq 1 ] || { echo "$command: not one error"; cat "$folder/err"; failed=1; }

# A rank that dies, and a signal: no more strategies are tried.
start() {
  "$FINEWIRE" bench step --model "$folder/model" --num_processes 2 --bench_steps 2000 --max_length 64 \
    >"$folder/out" 2>"$folder/err" &
  pid=$!
  command="bench step, $1"
  for _ in $(seq 600); do compgen -G "$TMPDIR/finewire-bench-*/ddp/metrics.jsonl" >"$folder/found" && return; sleep 0.1; done
  echo "$command: no first step"; failed=1
}
start "a rank killed"
kill -KILL "$(pgrep -P $pid | head -1)"
wait $pid
code=$?
[ $code -eq 5 ] || { echo "$command: exit code $code"; cat "$folder/err"; failed=1; }
says 'error: rank [01] .*(killed|died|signal)'
clean
start "told to stop"
kill -TERM $pid
wait $pid
code=$?
[ $code -eq 130 ] || { echo "$command: exit code $code"; cat "$folder/err"; failed=1; }
grep -q 'trying zero1' "$folder/err" && { echo "$command: went on"; failed=1; }
clean
exit $failed
