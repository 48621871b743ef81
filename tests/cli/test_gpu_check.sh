#!/usr/bin/env bash
# tools/gpu_check without a GPU: it lists its parts, says that there is no GPU, and leaves everything alone.
set -uo pipefail
failed=0
script=$FW_SOURCE_DIR/tools/gpu_check
out=$("$script") || { echo "listing the parts failed: $out"; failed=1; }
for part in machine build topo ops attention models train ranks faults repeat memcheck-1 memcheck-4 racecheck-2 speed-ops speed-7B pytorch; do
  grep -q "^$part " <<<"$out" || { echo "no part $part is listed"; failed=1; }
done
out=$("$script" nonsense 2>&1) && { echo "a part that does not exist was taken"; failed=1; }
grep -qF "there is no part nonsense" <<<"$out" || { echo "unexpected: $out"; failed=1; }
if command -v nvidia-smi >/dev/null; then
  echo "nvidia-smi is here: what is said without a GPU is not tested"
else
  out=$("$script" machine); code=$?
  [ $code -eq 77 ] || { echo "exit code $code without a GPU, expected 77"; failed=1; }
  grep -qF "there is no GPU that can be used here" <<<"$out" || { echo "unexpected: $out"; failed=1; }
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# a part that fails stops none after it, whatever it failed of: here a copy without a build beside it
mkdir -p "$folder/copy/tools" "$folder/copy/src/device" "$folder/bin"
cp "$script" "$folder/copy/tools/"
cp "$FW_SOURCE_DIR/src/device/ops.def" "$folder/copy/src/device/"
printf '#!/bin/sh\ncase "$*" in *query-gpu=name*) echo "NVIDIA Test Card";; *) echo "0, NVIDIA Test Card";; esac\n' \
  >"$folder/bin/nvidia-smi"
printf '#!/bin/sh\nexit 0\n' >"$folder/bin/nvcc"
chmod +x "$folder/bin/nvidia-smi" "$folder/bin/nvcc"
out=$(unset FW_BUILD_DIR; PATH="$folder/bin:$PATH" "$folder/copy/tools/gpu_check" speed-ops memcheck-1 train machine 2>&1)
code=$?
[ $code -eq 1 ] || { echo "exit code $code, expected 1"; failed=1; }
for part in "speed-ops: FAILED: $folder/copy/build/bench/bench_gpu cannot be run" "memcheck-1: FAILED: " \
  "train: FAILED: " "machine: passed" "failed: speed-ops, memcheck-1, train"; do
  grep -qF "$part" <<<"$out" || { echo "$part is missing in: $out"; failed=1; }
done
# the parts that measure, played on the CPU
out=$("$script" --rehearse machine build memcheck-1 memcheck-2 memcheck-3 memcheck-4 racecheck-1 racecheck-2 speed-ops \
  speed-0.5B pytorch 2>&1) || { echo "the rehearsal failed: $out"; failed=1; }
grep -q "MiB set aside; the GPU gave" <<<"$out" || { echo "no comparison of memory: $out"; failed=1; }
while read -r op; do
  grep -q "^memcheck $op: " <<<"$out" || { echo "the sanitizer does not run $op"; failed=1; }
done < <(grep -oE '^FW_OP\([a-z0-9_]+' "$FW_SOURCE_DIR/src/device/ops.def" | cut -d'(' -f2)
# speed against the card's peak: by its whole name
peak() {
  python3 - "$script" "$1" <<'END'
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("gpu_check", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(module)
print(module.peak_of(sys.argv[2]))
END
}
while IFS=: read -r name expected; do
  got=$(peak "$name")
  [ "$got" = "$expected" ] || { echo "peak of $name: $got, expected $expected"; failed=1; }
done <<'END'
NVIDIA L40S:362000000000000.0
NVIDIA L40:None
NVIDIA H100 PCIe:756000000000000.0
NVIDIA H100 80GB HBM3:989400000000000.0
NVIDIA GeForce RTX 4090:165200000000000.0
NVIDIA GeForce RTX 4090 D:None
END
exit $failed
