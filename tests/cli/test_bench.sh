#!/usr/bin/env bash
# finewire bench: the tables, what is kept for plan, what is refused, and how it ends when a rank dies or is told to stop.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export FINEWIRE_MEASURED=$folder/measured.json
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

# run CODE ARGUMENTS...: what it writes is in $folder/out and $folder/err
run() {
  local code=$1; shift
  "$FINEWIRE" bench "$@" >"$folder/out" 2>"$folder/err"
  local got=$?
  command="bench $*"
  if [ $got -ne "$code" ]; then
    echo "$command: exit code $got, expected $code"; cat "$folder/out" "$folder/err"; failed=1
  fi
}
# says PATTERN: some line of it matches
says() { grep -qE -- "$1" "$folder/out" "$folder/err" || { echo "$command: no \"$1\" in:"; cat "$folder/out" "$folder/err"; failed=1; }; }

# The columns of nccl-tests, by its own short options and suffixes.
run 0 allreduce --num_processes 2 -b 8 -e 1K -f 4 -n 2 -w 1 -c 1
says '^# all_reduce: ranks 2, transport shm, device cpu, minBytes 8 maxBytes 1024 step: 4\(factor\) warmup iters: 1 iters: 2 validation: 1$'
says '^#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong$'
says '^#        \(B\)    \(elements\)                               \(us\)  \(GB/s\)  \(GB/s\)            \(us\)  \(GB/s\)  \(GB/s\)       $'
number=' +[0-9]+\.[0-9]+'
for size in 8 32 128 512; do
  says "^ +$size +$((size / 4))     float     sum      -1$number$number$number      0$number$number$number      0\$"
done
[ "$(grep -c '^ ' "$folder/out")" -eq 4 ] || { echo "$command: not four sizes"; failed=1; }
says '^# Out of bounds values : 0 OK$'
says '^# Avg bus bandwidth    : [0-9.e-]+$'
run 0 alltoall --num_processes 3 -b 4K -e 4K -d bfloat16 -c 0
says ' 4080           680  bfloat16    none      -1 .* N/A +N/A +N/A +N/A +N/A$'
run 0 allgather --num_processes 2 -b 64 -e 128 -i 7 -n 2 # sizes that are rounded to the same one: once
[ "$(grep -oE '^ +[0-9]+' "$folder/out" | tr -d ' ' | tr '\n' ' ')" = "64 96 " ] || { echo "$command: other sizes than 64 and 96"; cat "$folder/out"; failed=1; }
run 0 broadcast --num_processes 3 -b 4KB -e 4KB -r 2 -n 3
says ' 4000          1000     float    none       2 '

# All that there is, as JSON, and kept. Bandwidths follow from bytes and seconds.
run 0 all --num_processes 2 -b 1K -e 16K -f 4 -n 2 -w 1 --disk_dir "$folder" --disk_bytes 1M --json --save
python3 - "$folder/out" "$FINEWIRE_MEASURED" "$folder" <<'PYTHON' || failed=1
import json, math, os, sys
out, kept, folder = json.load(open(sys.argv[1])), json.load(open(sys.argv[2])), os.path.realpath(sys.argv[3])
assert out["world"] == 2 and out["transport"] == "shm" and out["device"] == "cpu" and out["saved"] == sys.argv[2], out
results = {result["what"]: result for result in out["results"]}
factor = dict(all_reduce=1, all_gather=0.5, reduce_scatter=0.5, broadcast=1, all_to_all=0.5)
assert list(results) == list(factor) + ["gemm", "memcpy", "disk"], list(results)
for what, f in factor.items():
    rows = results[what]["rows"]
    assert [row["bytes"] for row in rows] == [1024, 4096, 16384]
    ways = [row[way] for row in rows for way in ("out_of_place", "in_place") if row[way] is not None]
    assert len(ways) == (3 if what == "all_to_all" else 6)
    for row in rows:
        for way in (row["out_of_place"], row["in_place"]):
            if way is not None:
                assert way["wrong"] == 0 and math.isclose(way["algbw"], row["bytes"] / 1e9 / way["seconds"])
                assert math.isclose(way["busbw"], f * way["algbw"])
    assert math.isclose(results[what]["average_busbw"], sum(way["busbw"] for way in ways) / len(ways))
records = {(r["what"], r["dtype"]): r for r in kept["records"]}
wanted = [(what, "fp32") for what in factor] + [("gemm", "fp32"), ("gemm", "bf16"), ("memcpy", ""), ("update", ""),
                                                ("disk_write", "")]
assert not set(wanted) - set(records) and not set(records) - set(wanted) - {("disk_read", "")}, records.keys()
for (what, dtype), record in records.items():
    assert record["host"] == out["host"] and record["points"]
    if what in factor:
        assert (record["transport"], record["world"], record["device"]) == ("shm", 2, "cpu")
        way = "out_of_place" if what == "all_to_all" else "in_place"
        assert record["points"] == [[row["bytes"], row[way]["seconds"]] for row in results[what]["rows"]]
    if what.startswith("disk"):
        assert record["device"] == folder and record["points"][0][0] == 2**20
assert os.listdir(folder).count("measured.json") == 1 and not [n for n in os.listdir(folder) if "tmp" in n]
PYTHON

# A second measurement takes the place of the first and leaves the others.
before=$(grep -c '"what"' "$FINEWIRE_MEASURED")
run 0 allreduce --num_processes 2 -b 64 -e 64 --save
says "^# 1 measurement saved in $FINEWIRE_MEASURED for \"[^\"]+: .* CPUs?\"\$"
[ "$(grep -c '"what"' "$FINEWIRE_MEASURED")" -eq "$before" ] || { echo "$command: a record too many or too few"; failed=1; }
FINEWIRE_MEASURED='' XDG_CONFIG_HOME=$folder/config run 0 memcpy --save --num_threads 1
[ -s "$folder/config/finewire/measured.json" ] || { echo "$command: nothing in XDG_CONFIG_HOME"; failed=1; }
run 0 gemm -e 1K --save --measured "$folder/mine.json" --num_threads 1
says '^ +256     float( +[0-9.]+){4}$'
says '^# 2 measurements saved in .*/mine.json for '

# A file that cannot be read is said before anything is measured, and left alone.
echo '{"format": "finewire measured 99"}' >"$folder/other.json"
run 3 all --num_processes 2 --save --measured "$folder/other.json"
says 'error: .*other.json: "format" is "finewire measured 99" and not "finewire measured 1"'
[ -s "$folder/out" ] && { echo "$command: measured first"; failed=1; }
grep -q 99 "$folder/other.json" || failed=1

# Nonsense: one line.
nonsense() { run 2 "$@"; [ "$(wc -l <"$folder/err")" -eq 1 ] || { echo "$command: not one line"; cat "$folder/err"; failed=1; }; }
nonsense allreduce --num_processes 2 -b 1M -e 1K
says 'error: minbytes is 1048576 and maxbytes 1024: the smallest buffer \(-b\) must not be larger than the largest'
nonsense allreduce --num_processes 2 -f 1
says 'error: stepfactor is 1: the sizes would not grow'
nonsense allreduce --num_processes 2 -f 0
says 'error: stepfactor is 0'
nonsense allreduce --num_processes 2 -b 0
says 'error: --minbytes is 0; it must be from 1'
nonsense allreduce --num_processes 2 -f 2 -i 8
says 'error: stepfactor \(-f\) and stepbytes \(-i\) are two ways'
nonsense allreduce --num_processes 2 -i 1
says 'error: from 8 to 134217728 bytes in steps of 1 are more than 4096 sizes'
nonsense allreduce --num_processes 2 -b 3Q
says 'error: --minbytes is "3Q": it is not a size'
nonsense allreduce
says 'error: finewire bench allreduce needs at least 2 ranks: --num_processes 2'
nonsense allreduc
says 'error: --what is allreduc; it must be all, .*did you mean allreduce\?'
nonsense broadcast --num_processes 2 -r 2
says 'error: root is 2, and the ranks are 0 to 1'
nonsense disk --disk_dir "$folder/none"
says 'error: disk_dir is .*none, which is not a folder that is there'
nonsense allreduce -q 3
says 'error: -q is not an option of finewire; options begin with two dashes'

# A signal: 130, soon. A rank that is killed: 5, and it is named.
start() {
  "$FINEWIRE" bench allreduce --num_processes 2 -b 4M -e 4M -n 1000000 -c 0 >"$folder/out" 2>"$folder/err" &
  pid=$!
  command="bench, stopped"
  for _ in $(seq 600); do [ -s "$folder/out" ] && return; sleep 0.1; done
}
start
rank=$(pgrep -P $pid | head -1)
kill -KILL "$rank"
wait $pid
code=$?
[ $code -eq 5 ] || { echo "a killed rank: exit code $code"; cat "$folder/err"; failed=1; }
says 'error: rank [01] .*(killed|died|signal)'
start # within one size
started=$SECONDS
kill -TERM $pid
wait $pid
code=$?
[ $code -eq 130 ] || { echo "SIGTERM in a collective: exit code $code"; cat "$folder/err"; failed=1; }
[ $((SECONDS - started)) -lt 60 ] || { echo "SIGTERM in a collective: $((SECONDS - started)) s"; failed=1; }
says 'SIGTERM: the ranks stop; once more stops them at once$'
"$FINEWIRE" bench gemm --num_processes 2 >"$folder/out" 2>"$folder/err" &
pid=$!
for _ in $(seq 600); do [ -s "$folder/out" ] && break; sleep 0.1; done
kill -TERM $pid
wait $pid
code=$?
[ $code -eq 130 ] || { echo "SIGTERM: exit code $code"; cat "$folder/err"; failed=1; }
exit $failed
