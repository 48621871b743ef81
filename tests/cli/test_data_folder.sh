#!/usr/bin/env bash
# Which files of a folder are conversations: data sets come as folders with papers beside the data.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
cd "$folder" || exit 1
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1

fail() { echo "finewire $last: $*"; cat out; failed=1; }
# expect CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
expect() {
  local code=$1 text=$2; shift 2
  last=$*
  "$FINEWIRE" "$@" --model model >out 2>&1
  local got=$?
  [ $got -eq "$code" ] || fail "exit code $got, expected $code"
  has "$text"
}
has() { grep -qF -- "$1" out || fail "the output lacks \"$1\""; }

# as a clone of a data set from the Hub
mkdir -p set/data set/.git
cp "$FW_SOURCE_DIR/tests/data/parquet/required_text.parquet" set/data/train-00000-of-00001.parquet
echo 'This set is about weather.' | tee set/README.md set/LICENSE.txt set/data/notes.txt set/.git/packed.txt >set/notice-2.txt
echo '{"default": {"splits": {}}}' | tee set/dataset_infos.json set/.hidden.json >set/data/state.json
aside='left aside: set/.git, set/.hidden.json, set/LICENSE.txt, set/README.md, set/data/state.json, set/dataset_infos.json, set/notice-2.txt, set/data/notes.txt'
expect 0 "$aside" data check set
has 'rows      20: 20 used'
[ "$(grep -c 'used$' out)" = 1 ] || fail 'more than one file was read'
expect 0 "$aside" data stats set
expect 0 "$aside" data show set --num_samples 1
expect 0 "$aside" train --dataset_name set --output_dir run --max_steps 1 --max_length 64 --device cpu --nproc_per_node 2
[ "$(grep -c 'left aside' out)" = 1 ] || fail 'said more than once'

# who names a file means it
expect 0 'set/README.md: plain text, shape text, 1 row, 1 used' data check set set/README.md
expect 0 'set/LICENSE.txt: plain text, shape text, 1 row, 1 used' data check 'set/LIC*'

# text is data where nothing else is; a word that only begins like one of the papers is none
mkdir text && echo 'It rains.' | tee text/a.txt text/b.txt text/CHANGELOG.txt >text/c.md
expect 0 'left aside: text/CHANGELOG.txt, text/c.md' data check text
has 'rows      2: 2 used'
echo '{"text": "It rains."}' >text/notices.jsonl
expect 0 'left aside: text/CHANGELOG.txt, text/c.md, text/a.txt, text/b.txt' data check text
has 'rows      1: 1 used'
mkdir papers && touch papers/README.md
expect 3 'the folder papers holds no file of conversations' data check papers
for i in 1 2 3 4 5 6 7 8 9; do touch "papers/$i.png"; done
cp text/a.txt papers
expect 0 'papers/8.png and 2 more' data check papers
exit $failed
