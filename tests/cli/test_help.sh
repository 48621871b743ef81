#!/usr/bin/env bash
# The commands that need no model: help, version, and what happens to wrong commands and options.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# expect CODE STDERR ARGUMENTS...: exit code and the whole standard error
expect() {
  local code=$1 message=$2; shift 2
  "$FINEWIRE" "$@" >"$folder/out" 2>"$folder/err"
  local got=$?
  if [ $got -ne "$code" ]; then echo "finewire $*: exit code $got, expected $code"; failed=1; fi
  if [ "$(cat "$folder/err")" != "$message" ]; then
    echo "finewire $*: standard error is: $(cat "$folder/err")"
    echo "expected: $message"
    failed=1
  fi
}
# prints TEXT: the last standard output holds it
prints() { grep -qF -- "$1" "$folder/out" || { echo "the output lacks \"$1\":"; head -5 "$folder/out"; failed=1; }; }
silent() { [ ! -s "$folder/out" ] || { echo "unexpected output:"; head -5 "$folder/out"; failed=1; }; }

expect 0 "" --version
grep -qE '^finewire [0-9]+\.[0-9]+\.[0-9]+$' "$folder/out" || { echo "odd version: $(cat "$folder/out")"; failed=1; }
expect 0 "" --help; prints "usage: finewire COMMAND"; prints "Exit codes: 0 done"
expect 0 "" help train; prints "--learning_rate X"; prints "--[no_]bf16"; prints "default 2e-5"
cp "$folder/out" "$folder/train"
expect 0 "" train --help; cmp -s "$folder/out" "$folder/train" || { echo "train --help is not help train"; failed=1; }
expect 0 "" train --seed 1 -h; prints "usage: finewire train [RECIPE]"
expect 0 "" help generate; prints "--temperature X"
grep -q -- --learning_rate "$folder/out" && { echo "generate has a learning rate"; failed=1; }
awk 'length > 100 { print "help line too wide: " $0; exit 1 }' "$folder/train" || failed=1

expect 2 "finewire: error: no command given"; prints "usage:"
expect 2 'finewire: error: "tarin" is not a command of finewire; did you mean train?' tarin; silent
expect 2 'finewire: error: "xyzzy" is not a command of finewire; finewire help lists them' xyzzy; silent
expect 2 'finewire: error: "trian" is not a command of finewire; did you mean train?' help trian
expect 2 'finewire: error: the command comes first: finewire COMMAND --seed; finewire help lists them' --seed 1 train
expect 2 'finewire: error: --learnin_rate is not an option of finewire train; did you mean --learning_rate?' \
  train --learnin_rate 1
expect 2 'finewire: error: --learning_rate is 11; it must be from 0 to 10' train --learning-rate=11
expect 2 'finewire: error: finewire train needs --model_name_or_path PATH (or a line of the recipe)' train
expect 2 "finewire: error: there is no recipe $folder/none.yaml; check the path (a recipe is a YAML file of options, \
finewire help train lists them), or give the options as --NAME VALUE" train "$folder/none.yaml"
expect 2 "finewire: error: --packing is followed by \"maybe\", which is neither true nor false nor a recipe that exists; \
write --packing true, --packing false, or the flag alone" train --packing maybe
expect 2 "finewire: error: reading the recipe: cannot read $folder: it is a folder" train "$folder"

# a bare flag before the recipe; the recipe is read: what it lacks is named
printf 'model: m\n' >"$folder/bare.yaml"
expect 2 'finewire: error: finewire train needs --dataset_name PATH (or a line of the recipe)' \
  train --packing "$folder/bare.yaml"
# nothing may come after version
expect 2 'finewire: error: finewire version takes nothing more; leave out "x"' version x
expect 2 'finewire: error: finewire version takes nothing more; leave out "--json"' --version --json; silent

printf 'model: m\noutput_dir: o\n\nlr_scheduler: cosine\n' >"$folder/r.yaml"
expect 2 "finewire: error: $folder/r.yaml:4: lr_scheduler is not an option of finewire train; did you mean lr_scheduler_type?" \
  train "$folder/r.yaml"

# a value from outside cannot write control sequences to the terminal, nor break the one line
expect 2 'finewire: error: --seed is "\x1b[2J\nx": it is not a whole number' train --seed $'\e[2J\nx'

# ranks of a job say which one speaks; a place that makes no sense is not one
RANK=1 WORLD_SIZE=2 expect 2 'finewire: rank 1: error: --seed is -1; it must be at least 0' train --seed -1
RANK=5 WORLD_SIZE=2 expect 2 'finewire: error: --seed is -1; it must be at least 0' train --seed -1

# with a trace, the functions the error went through
FINEWIRE_TRACE=1 "$FINEWIRE" train --seed -1 2>"$folder/err"
grep -q 'fw_option_set at .*lookup.c:' "$folder/err" || { echo "no trace: $(cat "$folder/err")"; failed=1; }

# a full disk behind the standard output is an error, a reader that went away is no message
if [ -w /dev/full ]; then
  "$FINEWIRE" help train >/dev/full 2>"$folder/err"; code=$?
  if [ $code -ne 6 ] || ! grep -q 'writing to the standard output: No space left' "$folder/err"; then
    echo "help to a full disk: exit code $code, $(cat "$folder/err")"; failed=1
  fi
fi
mkfifo "$folder/pipe"
exec 3<>"$folder/pipe"
exec 4>"$folder/pipe" # has a reader ...
exec 3<&- # ... that goes away
"$FINEWIRE" help train >&4 2>"$folder/err"; code=$?
exec 4>&-
if [ $code -ne 6 ] || [ -s "$folder/err" ]; then echo "help to nobody: exit code $code, $(cat "$folder/err")"; failed=1; fi

# docs/options.md is what the program says
"$FINEWIRE" help --markdown | diff "$FW_SOURCE_DIR/docs/options.md" - >/dev/null ||
  { echo "docs/options.md is out of date: run make docs"; failed=1; }
# a launcher with another number of ranks than --num_processes
export RANK=0 WORLD_SIZE=2
expect 2 "finewire: rank 0: error: --num_processes is 3, but the launcher that started this rank has WORLD_SIZE=2: leave \
--num_processes out, or unset RANK and WORLD_SIZE" eval --model m --dataset d --num_processes 3
unset RANK WORLD_SIZE
# started with closed standard files: they are as good as /dev/null, and no file takes their number
"$FINEWIRE" help train <&- >&- 2>&- || { echo "finewire help with closed standard files: exit code $?"; failed=1; }
exit $failed
