#!/usr/bin/env bash
# finewire data show, stats, check: what they print, their exit codes, and what training says of the same files.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache NO_COLOR=
"$FW_BUILD_DIR/tests/test_text_parity" --write "$folder/models" >/dev/null || exit 1
model=$folder/models/qwen2 data=$folder/data
mkdir "$data"

fail() { echo "finewire $last: $*"; cat "$folder/out"; failed=1; }
# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  last=$*
  "$FINEWIRE" "$@" >"$folder/out" 2>&1
  local got=$?
  [ $got -eq "$code" ] || fail "exit code $got, expected $code"
  has "$text"
}
has() { grep -qF -- "$1" "$folder/out" || fail "the output lacks \"$1\""; }
# value EXPECTED PYTHON: of the JSON that was printed
value() {
  local got
  got=$(sed '/^finewire: /d' "$folder/out" | python3 -c "import json, sys; r = json.load(sys.stdin); print($2)")
  [ "$got" = "$1" ] || fail "$2 is $got, expected $1"
}

cat >"$data/talk.jsonl" <<'END'
{"messages": [{"role": "user", "content": "What is one and one?"}, {"role": "assistant", "content": "Two."}]}
{"messages": [{"role": "user", "content": "Nobody answers"}]}
{"messages": [{"role": "user", "content": "Three?"}, {"role": "assistant", "content": "No \u001b[31mred\u001b[0m <|im_end|> here."}]}
END
printf 'instruction,input,output\r\n"Say ""hi"", then\nstop",,hi\r\nAdd,1 2,3\r\n' >"$data/table.csv"
printf '[{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}]' | gzip >"$data/chat.json.gz"
printf 'first line\n\nsecond line\n' >"$data/plain.txt"
cp "$FW_SOURCE_DIR/tests/data/parquet/required_text.parquet" "$data/t.parquet"

# show: marks without a terminal, escapes of the text, tokens
expect 0 "⟦Two.<|im_end|>⟧" data show "$data/talk.jsonl" --model "$model"
has "$data/talk.jsonl:1: "
has "JSONL, shape messages, 3 rows"
has '\x1b[31mred'
if grep -q $'\033' "$folder/out"; then fail "an escape sequence came through"; fi
expect 0 "* " data show "$data/talk.jsonl" --model "$model" --tokens --num_samples 1
expect 0 "talk.jsonl:3" data show "$data/talk.jsonl" --model "$model" --skip_samples 2
expect 0 "no row to show: --skip_samples 3 passes over all" data show "$data/talk.jsonl" --model "$model" --skip_samples 3
expect 0 'Say "hi", then' data show "$data/table.csv" --model "$model"

# stats of every format at once
expect 0 "rows      28: 27 used, 1 left out" data stats "$data"/{talk.jsonl,table.csv,chat.json.gz,plain.txt,t.parquet} \
  --model "$model"
has "1: no assistant turn"
has "chat.json.gz: JSON, shape sharegpt, 1 row, 1 used"
has "table.csv: CSV, shape alpaca, 2 rows, 2 used"
has "plain.txt: plain text, shape text, 2 rows, 2 used"
has "t.parquet: Parquet, shape text, 20 rows, 20 used"
expect 0 "" data stats "$data/*" --model "$model" --json # a pattern: the same files
value 28 'r["rows"]'
value 27 'r["used"]'
value "{'no_assistant': 1}" 'r["dropped"]'
value True 'sum(b["rows"] for b in r["lengths"]) == 27 and 0 < r["packing"]["efficiency"] <= 1'
expect 0 "rows      2: 2 used" data stats "$data/*.csv" --model "$model"
expect 0 "rows      2: 1 used" data stats "$data/talk.jsonl" --model "$model" --max_samples 2

# check: every problem, exit 3, unless it is allowed
cat >"$folder/bad.jsonl" <<'END'
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
{"messages": [{"role": "narrator", "content": "a"}]}
{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}
{"messages": [
{"prompt": "a"}
END
expect 3 "4 of 5 rows would be left out" data check "$folder/bad.jsonl" --model "$model"
has 'bad.jsonl:2: messages[0] has the unknown role "narrator"'
has 'bad.jsonl:3: part 0 of the content of messages[0] is of type "image_url"'
has "bad.jsonl:4:14: not valid JSON"
has "bad.jsonl:5: there is no \"messages\""
expect 0 "4 left out" data check "$folder/bad.jsonl" --model "$model" --allow_dropped
expect 3 "would be left out" data check "$folder/bad.jsonl" --model "$model" --json
value "[(2, 'role'), (3, 'media'), (4, 'json'), (5, 'shape')]" '[(p["line"], p["reason"]) for p in r["problems"]]'
expect 0 "2 used, 0 left out" data check "$data/table.csv" --model "$model"
head -n 2 "$data/talk.jsonl" | tail -n 1 >"$folder/silent.jsonl"
expect 3 "no conversation of its 1 has a token to learn" data check "$folder/silent.jsonl" --model "$model" --allow_dropped
expect 3 "there is no dataset $folder/none.jsonl" data stats "$folder/none.jsonl" --model "$model"
expect 3 "no file matches" data stats "$folder/none-*.jsonl" --model "$model"
expect 2 "needs --model_name_or_path" data stats "$data/talk.jsonl"
expect 2 "a weight must be above 0" data stats "$data/talk.jsonl:0" --model "$model"

expect 2 "finewire data needs a second word: show, stats, check" data

# a base model has no chat template: text is learnt, conversations are refused by that name
cp -r "$model" "$folder/base"
python3 - "$folder/base/tokenizer_config.json" <<'END'
import json, sys
config = json.load(open(sys.argv[1]))
del config["chat_template"]
json.dump(config, open(sys.argv[1], "w"))
END
expect 0 "2 used, 0 left out" data check "$data/plain.txt" --model "$folder/base"
expect 3 "the model has no chat template, which conversations need" data check "$data/table.csv" --model "$folder/base"

# a shard without rows is no error, nor does it stop the others
mkdir "$folder/shards"
cp "$FW_SOURCE_DIR/tests/data/parquet/no_rows.parquet" "$folder/shards/a.parquet"
cp "$data/t.parquet" "$folder/shards/b.parquet"
expect 0 "a.parquet: Parquet, " data check "$folder/shards" --model "$model"
has "20 used, 0 left out"
: >"$folder/shards/c.jsonl"
printf '[]\n' >"$folder/shards/d.json"
printf '\n\n' | gzip >"$folder/shards/e.csv.gz"
expect 0 "e.csv.gz: CSV, shape unknown, 0 rows, 0 used" data check "$folder/shards" --model "$model"
expect 3 "c.jsonl: there are no rows; at least one conversation is needed" data check "$folder/shards/c.jsonl" --model "$model"

# of several sets each has to give something
expect 3 "the data set that begins with $folder/shards/d.json has nothing to learn in its 0 rows" \
  data check "$data/plain.txt" "$folder/shards/d.json" --model "$model"

printf 'text,text\na,b\n' >"$folder/twice.csv"
expect 3 "twice.csv: two columns are called text" data check "$folder/twice.csv" --model "$model"

# the same conversations in every format are the same tokens
hash_of() { expect 0 "" data stats --dataset_name "$1" --model "$model" --json; value "$2" 'r["hash"]'; }
cat >"$folder/same.jsonl" <<'END'
{"instruction": "Say \"hi\", then\nstop", "input": "", "output": "hi"}
{"messages": [{"role": "user", "content": "Add\n1 2"}, {"role": "assistant", "content": "3"}]}
END
sed -n 1p "$folder/same.jsonl" >"$folder/one.jsonl"
sed -n 2p "$folder/same.jsonl" >"$folder/two.jsonl"
expect 0 "" data stats "$data/table.csv" --model "$model" --json
same=$(sed '/^finewire: /d' "$folder/out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["hash"])')
hash_of "$folder/one.jsonl,$folder/two.jsonl" "$same"
gzip -k "$data/table.csv"
hash_of "$data/table.csv.gz" "$same"
head -c 600 /dev/zero >>"$data/table.csv.gz" # padding to a block, as tapes have
hash_of "$data/table.csv.gz" "$same"
rm "$data/table.csv.gz"

# weights: one twice, one left as it is
expect 0 "rows      5: 4 used, 1 left out" data stats --dataset_name "$data/talk.jsonl:2,$data/table.csv" --model "$model"
has "weights   make 6 conversations an epoch of these"
expect 0 "weights   make 6 conversations an epoch of these" data stats "$data/talk.jsonl:2,$data/table.csv" --model "$model"
# a row has its limit, in memory too: it is refused with its place, others are read
python3 -c 'print("{\"text\": \"a\"}\n{\"text\": \"" + "ab " * 23000000 + "\"}\n{\"text\": \"c\"}")' | gzip -1 >"$folder/huge.jsonl.gz"
expect 3 "huge.jsonl.gz:2: the row has 65 MiB, and at most 64 are read; make several of it [content]" \
  data check "$folder/huge.jsonl.gz" --model "$model"
has "rows      3: 2 used, 1 left out"
gunzip -c "$folder/huge.jsonl.gz" | sed 2d >"$folder/small.txt"
gunzip -c "$folder/huge.jsonl.gz" | sed -n 2p >>"$folder/small.txt"
expect 3 "small.txt:1: the row has 65 MiB" data check "$folder/small.txt" --model "$model" --sample_by document
has "(--sample_by line or paragraph cuts plain text)"
rm "$folder/small.txt" "$folder/huge.jsonl.gz"

# parts of sets are exact: 20 and half of 20, a quarter of 20, also where all conversations are the same
for seed in 1 2 3; do
  expect 0 "weights   make 35 conversations an epoch" data stats "$data/t.parquet:1.5,$data/t.parquet:0.25" --model "$model" --data_seed $seed
done
for _ in 1 2 3 4 5 6 7 8 9 10; do sed -n 1p "$data/talk.jsonl"; done >"$folder/copies.jsonl"
expect 0 "weights   make 3 conversations an epoch" data stats "$folder/copies.jsonl:0.3" --model "$model"
expect 2 "the weight 0.04 leaves none of the 10 conversations" data stats "$folder/copies.jsonl:0.04" --model "$model"
cp "$data/table.csv" "$folder/a,b.csv"
expect 0 "rows      4: 4 used" data stats "$folder/a,b.csv" "$data/table.csv" --model "$model"

# what val_size holds out is not in the figures, as in training
expect 0 "rows      28: 27 used, 1 left out" data stats "$data/*" --model "$model" --val_size 5
has "held out  5 conversations"
expect 0 "" data stats "$data/*" --model "$model" --val_size 5 --json
value "(27, 5, 22)" '(r["used"], r["held_out"], r["conversations_an_epoch"])'
value 22 'sum(b["rows"] for b in r["lengths"])'
expect 2 "val_size 27 holds out 27 of 27 conversations" data check "$data/*" --model "$model" --allow_dropped --val_size 27

# the cache: used again, damaged and made anew, limited
expect 0 "" data stats "$data/talk.jsonl" --model "$model" --dataset_cache_dir "$folder/kept"
[ "$(find "$folder/kept" -name '*.fwdata' | wc -l)" = 1 ] || fail "the cache does not hold one file"
printf 'x' | dd of="$(echo "$folder"/kept/*.fwdata)" bs=1 seek=9 conv=notrunc status=none
expect 0 "made anew" data stats "$data/talk.jsonl" --model "$model" --dataset_cache_dir "$folder/kept"
expect 0 "rows      3: 2 used" data stats "$data/talk.jsonl" --model "$model" --dataset_cache_size 0
exit $failed
