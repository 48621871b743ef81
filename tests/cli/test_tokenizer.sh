#!/usr/bin/env bash
# A model whose tokenizer is of characters with bytes to fall back to, from the command line: shown, refused by name.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model || exit 1
printf '{"messages": [{"role": "user", "content": "he \\u00e9"}, {"role": "assistant", "content": " hell"}]}\n' >data.jsonl

# change KEY VALUE: the tokenizer with the model and steps of SentencePiece, and one key more of the caller's
change() {
  python3 - "$1" "$2" <<'PY'
import json, pathlib, sys
kept = pathlib.Path("kept.json")
if not kept.exists():
    kept.write_text(pathlib.Path("model/tokenizer.json").read_text())
t = json.loads(kept.read_text())
vocab = {f"<0x{b:02X}>": b for b in range(256)}
for piece in "\u2581 h e l \u2581h \u2581he ll".split():
    vocab[piece] = len(vocab)
t["model"].update(vocab=vocab, merges=[["\u2581", "h"], ["l", "l"], ["\u2581h", "e"]], byte_fallback=True)
for i, added in enumerate(t["added_tokens"]):
    added["id"] = len(vocab) + i
t["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
t["pre_tokenizer"] = t["post_processor"] = None
t["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
t[sys.argv[1]] = json.loads(sys.argv[2])
pathlib.Path("model/tokenizer.json").write_text(json.dumps(t))
PY
}
# expect CODE TEXT: what `data show --tokens` answers
expect() {
  "$FINEWIRE" data show data.jsonl --model model --tokens >out 2>&1
  local got=$?
  if [ $got -ne "$1" ]; then echo "exit code $got, expected $1"; cat out; failed=1; fi
  if ! grep -qF -- "$2" out; then echo "the output lacks \"$2\":"; cat out; failed=1; fi
}

change version '"1.0"'
expect 0 " 261 * 1 content           he" # a space, h and e in one token, of the answer
expect 0 " 262 * 1 content          ll"
expect 0 " 195   0 content" # e with an accent is no token: two bytes
expect 0 " 169   0 content"
change normalizer '{"type": "Precompiled", "precompiled_charsmap": ""}'
expect 3 '"normalizer" is {"type":"Precompiled"'
change pre_tokenizer '{"type": "UnicodeScripts"}'
expect 3 "UnicodeScripts"
change decoder '{"type": "CTC"}'
expect 3 "ByteFallback, Fuse, Strip, Replace, Metaspace"
exit $failed
