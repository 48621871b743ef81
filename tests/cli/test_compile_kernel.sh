#!/usr/bin/env bash
# tools/compile_kernel with a compiler that is played: what ptxas reports of a kernel decides.
set -uo pipefail
failed=0
tool=$FW_SOURCE_DIR/tools/compile_kernel
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/nvcc" <<'END'
#!/bin/sh
cat "$REPORT"
touch "$OBJECT"
exit "${CODE:-0}"
END
chmod +x "$folder/nvcc"
echo "# nothing" >"$folder/none"
echo "big: sm_90: 256: it is read a few times only" >"$folder/listed"
echo "big: sm_90: many: no number" >"$folder/wrong"

# report STACK STORED READ [MORE]: of one kernel
report() {
  cat >"$folder/report" <<END
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3bigPf' for 'sm_90'
ptxas info    : Function properties for _Z3bigPf
    $1 bytes stack frame, $2 bytes spill stores, $3 bytes spill loads
${4-ptxas info    : Used 20 registers, used 0 barriers}
END
}
# expect CODE LIST PART: the exit code, what standard error holds, and whether the object stays
expect() {
  out=$(REPORT=$folder/report "$tool" --spills "$folder/$2" kernel.cu -- "$folder/nvcc" -o "$folder/kernel.o" 2>&1)
  code=$?
  [ $code -eq "$1" ] || { echo "exit code $code, expected $1: $out"; failed=1; }
  grep -qF -- "$3" <<<"$out" || { echo "\"$3\" is missing in: $out"; failed=1; }
  if [ "$1" -eq 0 ] && [ ! -e "$folder/kernel.o" ]; then echo "the object is gone"; failed=1; fi
  if [ "$1" -eq 1 ] && [ -e "$folder/kernel.o" ]; then echo "the object of a refused kernel stays"; failed=1; fi
  rm -f "$folder/kernel.o"
}
export OBJECT=$folder/kernel.o

report 0 0 0
expect 0 none ""
report 256 0 0
expect 1 none "kernel.cu: _Z3bigPf for sm_90: an array lies in local memory (256 bytes of stack"
expect 0 listed ""
report 264 0 0
expect 1 listed "264 bytes of stack"
report 16 16 8
expect 1 none "kernel.cu: _Z3bigPf for sm_90: registers spill (16 bytes of stack, 16 stored, 8 read by spills)"
report 0 0 0 "kernel.cu(7): warning #177-D: variable \"x\" was declared but never referenced"
expect 1 none "warning #177-D"
CODE=2 expect 2 none "stack frame"
out=$("$tool" --spills "$folder/wrong" kernel.cu -- "$folder/nvcc" -o "$folder/kernel.o" 2>&1) && failed=1
grep -qF "wrong:1: must be NAME: ARCHITECTURE: BYTES: REASON" <<<"$out" || { echo "unexpected: $out"; failed=1; }
exit $failed
