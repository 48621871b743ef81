#!/usr/bin/env bash
# finewire import: what it prints, what it leaves, and its exit codes.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
good=$FW_SOURCE_DIR/tests/fuzz/corpus/fuzz_gguf/model # a whole model: one layer, hidden size 4

# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  "$FINEWIRE" "$@" >"$folder/out" 2>&1
  local got=$?
  if [ $got -ne "$code" ]; then echo "finewire $*: exit code $got, expected $code"; failed=1; fi
  if ! grep -qF -- "$text" "$folder/out"; then
    echo "finewire $*: the output lacks \"$text\":"; cat "$folder/out"; failed=1
  fi
}

expect 0 "tensors: F32 12; written as fp32" import "$good" --output "$folder/model"
grep -qF "LlamaForCausalLM" "$folder/out" || { echo "the architecture is not named"; failed=1; }
for file in config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json; do
  [ -s "$folder/model/$file" ] || { echo "$file is missing"; failed=1; }
done
expect 2 "exists and is not empty; --overwrite" import "$good" --output "$folder/model"
expect 0 "model: $folder/model" import "$good" --output "$folder/model" --overwrite
touch "$folder/model/notes"
expect 2 "notes, which finewire did not write" import "$good" --output "$folder/model" --overwrite
expect 3 "cannot open $folder/none.gguf" import "$folder/none.gguf" --output "$folder/x"
head -c 1000 "$good" >"$folder/cut.gguf"
expect 3 "the file is truncated" import "$folder/cut.gguf" --output "$folder/x"
echo "not a model" >"$folder/text.gguf"
expect 3 "does not start with \"GGUF\"" import "$folder/text.gguf" --output "$folder/x"
[ ! -e "$folder/x" ] || { echo "a failed import left a folder"; failed=1; }
if compgen -G "$folder/*tmp-*" >/dev/null; then echo "temporary folders are left"; failed=1; fi
exit $failed
