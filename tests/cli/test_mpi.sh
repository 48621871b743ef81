#!/usr/bin/env bash
# Under mpirun: the same bits through MPI as through shared memory, on one host and on two that are pretended; what is
# refused; and ends that are no hang. Skipped where the plugin or mpirun is missing.
set -uo pipefail
failed=0
if ! command -v mpirun >/dev/null || [[ $(mpirun --version 2>&1) != *'Open MPI'* ]]; then
  echo "skipped: there is no mpirun of Open MPI"; exit 77
fi
if [ ! -f "$FW_BUILD_DIR/libfinewire_mpi.so" ]; then
  echo "skipped: libfinewire_mpi.so was not built (libopenmpi-dev is missing)"; exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_base_warn_component_unused=0
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" tiny "$folder/model" >/dev/null || exit 1
for i in 1 2 3 4 5 6 7 8; do
  printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b%s"}]}\n' $i
done >"$folder/data.jsonl"
train=(train --model "$folder/model" --dataset "$folder/data.jsonl" --max_steps 3 --logging_steps 1 --save_strategy no
       --per_device_train_batch_size 1 --disable_tqdm)

# run CODE COMMAND...: what it writes is in $folder/out
run() {
  local code=$1; shift
  timeout 120 "$@" >"$folder/out" 2>&1 </dev/null
  local got=$?
  command="$*"
  if [ $got -ne "$code" ]; then echo "$command: exit code $got, expected $code"; cat "$folder/out"; failed=1; fi
}
says() { grep -qE -- "$1" "$folder/out" || { echo "$command: no \"$1\" in:"; cat "$folder/out"; failed=1; }; }

# The same weights, whatever carries the sums; a world that is no power of two, and groups.
while read -r world words; do
  # shellcheck disable=SC2086 # words are words
  run 0 "$FINEWIRE" "${train[@]}" --num_processes "$world" --output_dir "$folder/shm" --overwrite_output_dir $words
  # shellcheck disable=SC2086
  run 0 mpirun -n "$world" "$FINEWIRE" "${train[@]}" --transport mpi --output_dir "$folder/mpi" --overwrite_output_dir $words
  says "^ranks     $world \(mpi\), "
  cmp "$folder/shm/final/model.safetensors" "$folder/mpi/final/model.safetensors" ||
    { echo "$command: other weights than by shared memory"; failed=1; }
done <<'WORLDS'
2 --strategy ddp
3 --strategy zero3
4 --strategy hsdp --shard_group_size 2
WORLDS

# mpirun alone: its ranks meet without further words, in shared memory.
run 0 mpirun -n 2 "$FINEWIRE" "${train[@]}" --output_dir "$folder/mpi" --overwrite_output_dir
says '^ranks     2 \(shm\), '

# Two hosts, as far as one can pretend: rank 0's door is open to others, who find it by messages.
run 0 mpirun -n 2 -x FINEWIRE_HOST_ID=one "$FINEWIRE" "${train[@]}" --transport mpi --strategy zero3 --output_dir "$folder/mpi" \
  --overwrite_output_dir : -n 1 -x FINEWIRE_HOST_ID=two "$FINEWIRE" "${train[@]}" --transport mpi --strategy zero3 \
  --output_dir "$folder/mpi" --overwrite_output_dir
run 0 "$FINEWIRE" "${train[@]}" --num_processes 3 --strategy zero3 --output_dir "$folder/shm" --overwrite_output_dir
cmp "$folder/shm/final/model.safetensors" "$folder/mpi/final/model.safetensors" || { echo "two hosts: other weights"; failed=1; }
run 5 mpirun -n 1 -x FINEWIRE_HOST_ID=one "$FINEWIRE" "${train[@]}" --output_dir "$folder/mpi" --overwrite_output_dir : \
  -n 1 -x FINEWIRE_HOST_ID=two "$FINEWIRE" "${train[@]}" --output_dir "$folder/mpi" --overwrite_output_dir
says 'error: rank 0 is on host .* and rank 1 on .*; this transport \(shm\) joins ranks of one host only: .* --transport mpi'

for what in allreduce allgather reducescatter broadcast alltoall; do
  run 0 mpirun -n 3 "$FINEWIRE" bench $what --transport mpi -b 1K -e 2M -f 32 -n 3 --save --measured "$folder/measured.json"
  says '^# [a-z_]+: ranks 3, transport mpi, device cpu'
  says '^# Out of bounds values : 0 OK'
done
[ "$(grep -c '"transport": "mpi"' "$folder/measured.json")" -eq 5 ] || { echo "not five measurements of mpi"; failed=1; }

# Refused, or failed: once, soon, with the code of the reason.
run 2 "$FINEWIRE" bench allreduce --num_processes 2 --transport mpi
says 'error: --transport mpi: MPI knows of one rank only; start the ranks with mpirun: mpirun -n 2 finewire'
run 2 mpirun -n 2 "$FINEWIRE" bench allreduce --num_processes 3
says 'error: --num_processes is 3, but mpirun has started 2: leave --num_processes out'
FINEWIRE_MPI_PLUGIN=$folder/none.so run 2 mpirun -n 2 "$FINEWIRE" bench allreduce --transport mpi
says 'error: --transport mpi: there is no .*/none.so; run make where libopenmpi-dev is installed'
run 3 mpirun -n 2 "$FINEWIRE" train --model "$folder/none" --dataset "$folder/data.jsonl" --output_dir "$folder/x" --transport mpi
[ "$(grep -c 'error: ' "$folder/out")" -eq 1 ] || { echo "$command: not one error"; cat "$folder/out"; failed=1; }

# A rank that dies: mpirun ends the others.
timeout 60 mpirun -n 2 "$FINEWIRE" bench allreduce --transport mpi -b 4M -e 4M -n 1000000 -c 0 >"$folder/out" 2>&1 &
pid=$!
command="a rank killed under mpirun"
for _ in $(seq 600); do grep -q '^#' "$folder/out" && break; sleep 0.1; done
rank=$(pgrep -f "bench allreduce --transport mpi -b 4M -e 4M -n 1000000 -c 0" | while read -r p; do
  [ "$(readlink "/proc/$p/exe")" = "$(readlink -f "$FINEWIRE")" ] && echo "$p"; done | head -1)
kill -KILL "$rank"
wait $pid
code=$?
{ [ $code -ne 0 ] && [ $code -ne 124 ]; } || { echo "$command: exit code $code"; cat "$folder/out"; failed=1; }
exit $failed
