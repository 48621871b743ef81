#!/usr/bin/env bash
# Folders of adapters whose two files disagree, or that only PEFT takes: which tensors are expected follows from the
# configuration (exclude_modules, patterns), and damaged numbers make no merged model.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

expect() { # CODE TEXT ARGUMENTS...: exit code, and what standard output and standard error hold together
  local code=$1 text=$2; shift 2
  "$FINEWIRE" "$@" >out 2>&1
  local got=$?
  if [ $got -ne "$code" ]; then echo "finewire $*: exit code $got, expected $code"; cat out; failed=1; fi
  if ! grep -qF -- "$text" out; then echo "finewire $*: the output lacks \"$text\":"; cat out; failed=1; fi
}

# change FROM TO: Python on standard input changes `config` (adapter_config.json) and `tensors` (name: [dtype, shape, bytes])
cat >change.py <<'P'
import json, os, shutil, struct, sys
source, target = sys.argv[1:]
shutil.rmtree(target, ignore_errors=True)
shutil.copytree(source, target)
weights = target + "/adapter_model.safetensors"
config = json.load(open(target + "/adapter_config.json"))
data = open(weights, "rb").read()
n, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + n])
meta = header.pop("__metadata__", None)
tensors = {k: [v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]]
           for k, v in header.items()}
exec(sys.stdin.read())
out, body = {} if meta is None else {"__metadata__": meta}, b""
for k, (dtype, shape, raw) in tensors.items():
    out[k] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(raw)]}
    body += raw
text = json.dumps(out).encode()
text += b" " * (-len(text) % 8)
open(weights, "wb").write(struct.pack("<Q", len(text)) + text + body)
json.dump(config, open(target + "/adapter_config.json", "w"))
P
change() { python3 change.py "$1" "$2" || exit 1; }

python3 "$FW_SOURCE_DIR/bench/make_random_model.py" pico model >/dev/null || exit 1
printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n' >data.jsonl
"$FINEWIRE" train --model model --dataset data.jsonl --output_dir run --use_peft --lora_r 4 --lora_init random \
  --max_steps 1 --save_strategy no --disable_tqdm --lora_target_modules q_proj,up_proj >out 2>&1 || { cat out; exit 1; }
plain=run/final
try=(eval --model model --dataset data.jsonl)

# ---- which tensors are expected
drop() { # WORD: out of the tensors
  echo "tensors = {k: v for k, v in tensors.items() if '$1' not in k}"
}
{ echo "config['exclude_modules'] = ['layers.0.self_attn.q_proj']"; drop layers.0.self_attn.q_proj; } | change $plain excluded
expect 0 "loss" "${try[@]}" --adapter excluded
expect 0 "model = " merge excluded --output merged --check_tokens 0
"$FINEWIRE" train --model model --dataset data.jsonl --output_dir further --adapter_name_or_path excluded --max_steps 1 \
  --disable_tqdm --save_steps 1 >out 2>&1 || { cat out; failed=1; }
expect 0 "adapter = " ckpt export further --output exported # a checkpoint keeps what is excluded
expect 0 "loss" "${try[@]}" --adapter exported
drop layers.1.mlp.up_proj.lora_A | change excluded lacks
expect 3 "layers.1.mlp.up_proj.lora_A.weight is missing" "${try[@]}" --adapter lacks
echo "config['exclude_modules'] = ['up_proj']" | change $plain surplus
expect 3 "mlp.up_proj.lora_A.weight is not of an adapter that surplus/adapter_config.json describes" "${try[@]}" --adapter surplus
{ echo "config['exclude_modules'] = '[a-z]+[.]layers[.]0[.].*'"; drop layers.0. ; } | change $plain expression
expect 0 "loss" "${try[@]}" --adapter expression
echo "config['exclude_modules'] = 'q_proj'" | change $plain unused # an expression is for whole paths
expect 0 "loss" "${try[@]}" --adapter unused
echo "config['exclude_modules'] = ['q_proj', 'up_proj']" | change $plain all
expect 3 "gives no module an adapter" "${try[@]}" --adapter all
drop q_proj | change $plain halved # all of a target
expect 3 "q_proj.lora_A.weight is missing" "${try[@]}" --adapter halved

# ---- names that only other models have
echo "config['target_modules'].append('c_attn'); config['rank_pattern'] = {'c_proj': 8}" | change $plain foreign
expect 0 'warning: foreign/adapter_config.json: rank_pattern: "c_proj" is no module' "${try[@]}" --adapter foreign
expect 2 'lora_rank_pattern: "c_proj" is no module' train --model model --dataset data.jsonl --output_dir x --use_peft \
  --lora_rank_pattern c_proj=8

# ---- values
echo "config['ensure_weight_tying'] = True" | change $plain tying
expect 3 '"ensure_weight_tying" is true: finewire does not have that' "${try[@]}" --adapter tying
echo "config['lora_alpha'] = None" | change $plain alpha
expect 3 '"lora_alpha" is null: a number is needed' "${try[@]}" --adapter alpha
echo "config['r'] = 5" | change $plain rank
expect 3 "which is of rank 4; rank/adapter_config.json gives its module rank 5" "${try[@]}" --adapter rank
printf '%s\n' "config['base_model_name_or_path'] = 'model'" "k = sorted(k for k in tensors if 'lora_A' in k)[0]" \
  "tensors[k][1] = [1] + tensors[k][1]" | change $plain third
expect 3 "which the adapter names, it must be [4, 36]: one of the two has been changed" "${try[@]}" --adapter third

# ---- numbers
for value in nan inf; do
  for part in lora_A lora_B; do
    printf '%s\n' "k = [k for k in tensors if '$part' in k][-1]" \
      "tensors[k][2] = struct.pack('<f', float('$value')) + tensors[k][2][4:]" | change $plain damaged
    expect 3 "is not a finite number: weights of damaged are damaged" "${try[@]}" --adapter damaged
    expect 3 "it is damaged" merge damaged --output broken --check_tokens 0
    grep -qF "$part.weight has $value as element 0" out || { echo "the tensor is not named"; cat out; failed=1; }
    [ -z "$(ls -d broken* .broken* 2>/dev/null)" ] || { echo "a refused merge left a folder"; failed=1; }
  done
done

exit $failed
