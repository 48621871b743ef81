#!/usr/bin/env bash
# finewire data stats, check: ended by a signal, killed, on a full disk: what is left in the cache.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
cache=$folder/cache/finewire/datasets
cd "$folder" || exit 1
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1

fail() { echo "$*"; ls -l "$cache"; cat out; failed=1; }
left() { find "$cache" -name '*.tmp-*' | wc -l; }

# one file named so often that nobody sees the end of it
python3 - <<'PY'
with open("row.jsonl", "w") as f:
    for i in range(100):
        f.write('{"text": "%s"}\n' % ("what is learnt %d " % i * 4000))
PY
sets=row.jsonl$(printf ',row.jsonl%.0s' {1..200})

# start ARGUMENTS...: until something is half in the cache; the process is $pid
start() {
  "$FINEWIRE" "$@" --model model >out 2>&1 &
  pid=$!
  until [ -n "$(find "$cache" -name '*.tmp-*' 2>/dev/null)" ]; do
    kill -0 $pid || { fail "finewire $*: ended before"; return; }
    sleep 0.05
  done
}

# interrupted SIGNAL COMMAND: exit code 130 and nothing left
interrupted() {
  start data "$2" "$sets"
  kill -"$1" $pid
  wait $pid
  local got=$?
  [ $got -eq 130 ] || fail "data $2, $1: exit code $got, expected 130"
  [ -z "$(ls "$cache")" ] || fail "data $2, $1: something is left in the cache"
}
interrupted INT stats
interrupted TERM check

# killed: the next command that uses the cache removes what is left
start data stats "$sets"
kill -9 $pid
wait $pid 2>/dev/null
[ "$(left)" -gt 0 ] || fail 'the killed command left nothing: no test'
echo '{"text": "It rains."}' >small.jsonl
"$FINEWIRE" data stats small.jsonl --model model >out 2>&1 || fail 'after a kill'
[ "$(left)" = 0 ] || fail 'what the killed command left stays'
[ "$(find "$cache" -type f | wc -l)" = 1 ] || fail 'what the killed command left stays'

# a disk that gets full on the way (here: the most that a file may have): a warning, in memory, nothing left
python3 -c 'print("\n".join(f"""{{"text": "It rains {i}."}}""" for i in range(20000)))' >rain.jsonl
for words in '' "--dataset_cache_dir $cache"; do
  # shellcheck disable=SC2086 # several words
  (ulimit -f 100; exec "$FINEWIRE" data stats rain.jsonl --model model $words 2>&1 | cat >out)
  grep -qF 'cannot be cached and are held in memory' out || fail 'a full disk: no warning'
  grep -qF '20000 used' out || fail 'a full disk: the figures are missing'
  [ "$(left)" = 0 ] || fail 'a full disk: something is left'
  [ "$(find "$cache" -type f | wc -l)" = 1 ] || fail 'a full disk: something is left'
done
touch file
"$FINEWIRE" data stats small.jsonl --model model --dataset_cache_dir file/below >out 2>&1
got=$?
[ $got -eq 6 ] || fail "a folder that cannot be: exit code $got, expected 6"
exit $failed
