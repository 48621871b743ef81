#!/usr/bin/env bash
# tools/gpu_check without a GPU: it lists its parts, says that there is no GPU, and leaves everything alone.
set -uo pipefail
failed=0
script=$FW_SOURCE_DIR/tools/gpu_check
out=$("$script") || { echo "listing the parts failed: $out"; failed=1; }
for part in machine build topo ops attention models train ranks faults repeat sanitizer speed-ops speed-7B pytorch; do
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
exit $failed
