#!/usr/bin/env bash
# loss_weight through the commands: twice the weight is the row twice, on any number of ranks, after a resume too; what is
# shown of weights; what is refused. The tokenizer has a token for each byte, so that weights can be added up by hand.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export XDG_CACHE_HOME=$folder/cache NO_COLOR=
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1

fail() { echo "$*"; failed=1; }
# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  "$FINEWIRE" "$@" >out 2>&1
  local got=$?
  [ $got -eq "$code" ] || { cat out; fail "finewire $*: exit code $got, expected $code"; }
  grep -qF -- "$text" out || { cat out; fail "finewire $*: the output lacks \"$text\""; }
}
# row N [MARK]: a conversation, with a mark on its answer
row() {
  printf '{"messages": [{"role": "user", "content": "ask %s"}, {"role": "assistant", "content": "answer %s"%s}]}\n' \
    "$1" "$(($1 * $1))" "${2:+, $2}"
}
# train DIR DATA ARGUMENTS...: some steps in fp32, each of them on all of the data
train() {
  local dir=$1 data=$2; shift 2
  "$FINEWIRE" train --model model --dataset "$data" --output_dir "$dir" --disable_tqdm --bf16 false --logging_steps 1 \
    --learning_rate 1e-2 --max_steps 4 --save_strategy no "$@" >out 2>&1 || { cat out; fail "training of $data failed"; }
}
# same A B BOUND KEY...: the figures of two runs, step by step, to a relative bound
same() {
  python3 - "$@" <<'END' || fail "$1 and $2 differ"
import json, sys
a, b = ([json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:3])
bound = float(sys.argv[3])
assert len(a) == len(b) > 0, (len(a), len(b))
for x, y in zip(a, b):
    for key in sys.argv[4:]:
        assert abs(x[key] - y[key]) <= bound * abs(y[key]), (key, x, y)
END
}

for i in 1 2 3 4 5 6 7 8; do row $i; done >plain.jsonl
for i in 1 2 3 4 5 6 7 8; do row $i '"loss_weight": 1.0'; done >ones.jsonl
for i in 1 2 3 4 5 6 7 8; do row $i '"weight": 0.125'; done >eighths.jsonl
{ row 1 '"loss_weight": 2'; row 2; row 3 '"loss_weight": 3, "train": true'; row 4 '"loss_weight": 0'; } >weighted.jsonl
{ row 1; row 1; row 2; row 3; row 3; row 3; } >repeated.jsonl
for i in 1 2 3 4 5 6 7 8; do row $i "\"loss_weight\": 0.$i"; done >tenths.jsonl

# a weight of 2 or 3 is the row two or three times: losses and gradients, over steps that build on each other
train weighted weighted.jsonl --per_device_train_batch_size 3
grep -qF "weights   the targets weigh" out || { cat out; fail "the run does not say that there are weights"; }
train repeated repeated.jsonl --per_device_train_batch_size 6
same weighted repeated 2e-5 loss grad_norm
# all weights one, or all the same: nothing changes
train plain plain.jsonl --per_device_train_batch_size 8
train ones ones.jsonl --per_device_train_batch_size 8
same plain ones 0 loss grad_norm
train eighths eighths.jsonl --per_device_train_batch_size 8
same plain eighths 1e-6 loss grad_norm
# one divisor for all ranks and micro-batches; packing, strategies and chunks of logits are other ways to the same
train one tenths.jsonl --per_device_train_batch_size 8
train two tenths.jsonl --per_device_train_batch_size 2 --gradient_accumulation_steps 2 --num_processes 2 --strategy zero3
same two one 2e-5 loss grad_norm num_tokens
train four tenths.jsonl --per_device_train_batch_size 2 --num_processes 4 --strategy zero2
same four one 2e-5 loss grad_norm num_tokens
train packed tenths.jsonl --per_device_train_batch_size 8 --packing true --max_length 4096 --loss_chunk_size 5
same packed one 2e-5 loss grad_norm num_tokens
# a resumed run is the run
train again tenths.jsonl --per_device_train_batch_size 2 --save_strategy steps --save_steps 2 --max_steps 2 --lr_scheduler_type constant
train whole tenths.jsonl --per_device_train_batch_size 2 --lr_scheduler_type constant
train again tenths.jsonl --per_device_train_batch_size 2 --save_strategy steps --save_steps 2 --lr_scheduler_type constant \
  --resume_from_checkpoint true
same again whole 0 loss grad_norm

# evaluation: the mean of the rows by their weights
loss() {
  "$FINEWIRE" eval --model model --bf16 false --json --dataset "$1" "${@:2}" >out 2>err || { cat err; fail "eval of $1"; }
  python3 -c 'import json; print(json.load(open("out"))["loss"])'
}
python3 -c "import sys; a, b = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= 1e-6 * b)" \
  "$(loss weighted.jsonl)" "$(loss repeated.jsonl)" || fail "eval does not weigh"
[ "$(loss tenths.jsonl --num_processes 2)" = "$(loss tenths.jsonl)" ] || fail "eval on two ranks is another"

# show, stats, check: "answer 1" and the end of its turn are 9 targets
expect 0 "⟦answer 1<|im_end|>⟧×2" data show weighted.jsonl --model model
grep -qF "9 to learn, with a weight of 18 in all" out || { cat out; fail "data show does not add up"; }
grep -qF "⟦answer 4<|im_end|>⟧" out || { cat out; fail "data show gives a weight to what has none"; }
expect 0 "×2" data show weighted.jsonl --model model --tokens --num_samples 1
expect 0 "weights   the targets weigh 54 in all" data stats weighted.jsonl --model model
expect 0 '"target_weight": 54.0' data stats weighted.jsonl --model model --json # of the cache now
expect 0 '"target_weight": 77.0' data stats plain.jsonl --model model --json
if "$FINEWIRE" data stats ones.jsonl --model model | grep -F "weights" >out; then fail "weights of one are told of"; fi
for bad in -1 1001 '"0.5"' '[]'; do
  { row 1; row 2 "\"loss_weight\": $bad"; } >bad.jsonl
  expect 3 'bad.jsonl:2: "loss_weight" of messages[1] must be a number from 0 to 1000' data check bad.jsonl --model model
done
{ row 1; row 2 '"loss_weight": NaN'; } >bad.jsonl
expect 3 "bad.jsonl:2" data check bad.jsonl --model model
row 1 '"loss_weight": 0.5, "train": false' >bad.jsonl
expect 3 "messages[1] has marks that contradict each other" data check bad.jsonl --model model
exit $failed
