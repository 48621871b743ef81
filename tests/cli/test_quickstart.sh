#!/usr/bin/env bash
# What make quickstart says when it cannot start. (The run itself needs a real model: make quickstart.)
set -u
failed=0
expect() { # EXIT_CODE PART_OF_MESSAGE COMMAND...
  local code=$1 part=$2 output rc
  shift 2
  output=$("$@" 2>&1 </dev/null)
  rc=$?
  if [ $rc -ne "$code" ]; then echo "exit $rc, not $code: $*: $output"; failed=1; fi
  case $output in
    *"$part"*) ;;
    *) echo "no \"$part\" in: $output"; failed=1 ;;
  esac
}
expect 2 "unknown option --agian" "$FW_SOURCE_DIR/tools/quickstart" --agian
expect 3 "which does not exist" env FW_QUICKSTART_MODEL=/nonexistent/model.gguf "$FW_SOURCE_DIR/tools/quickstart"
# The conversation set: every answer has the form to be learnt, no question is in both parts.
python3 - "$FW_SOURCE_DIR/examples/quickstart" <<'PYTHON' || failed=1
import json, re, sys
asked = {}
for part in ("train", "held_out"):
    questions = set()
    for line in open(f"{sys.argv[1]}/{part}.jsonl"):
        for message in json.loads(line)["messages"]:
            if message["role"] == "user":
                questions.add(message["content"])
            elif not re.fullmatch(r"Answer: .+\.\nLog: [a-z]+, .+\.", message["content"]):
                sys.exit(f"not in two lines: {message['content']!r}")
    asked[part] = questions
if asked["train"] & asked["held_out"]:
    sys.exit(f"asked in both parts: {sorted(asked['train'] & asked['held_out'])}")
PYTHON
exit $failed
