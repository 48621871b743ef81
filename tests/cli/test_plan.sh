#!/usr/bin/env bash
# finewire plan from the command line: what it prints, its JSON, and what it refuses.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export FINEWIRE_MEASURED=$folder/measured.json FINEWIRE_NVML=$folder/none.so # neither measurements nor GPUs of this machine

fail() {
  echo "FAILED: finewire $command"
  echo "  $1"
  sed 's/^/  | /' "$folder/out" | head -40
  failed=1
}
# run CODE ARGUMENTS...: what it writes is in $folder/out
run() {
  local code=$1 got
  shift
  command="plan $*"
  "$FINEWIRE" plan "$@" >"$folder/out" 2>&1
  got=$?
  [ $got -eq "$code" ] || fail "exit code $got, not $code"
}
says() { grep -qF -- "$1" "$folder/out" || fail "does not say: $1"; }
# check EXPRESSION: of the JSON object `plan` in the last output
check() {
  python3 - "$folder/out" "$1" <<'PYTHON' || fail "not true: $1"
import json, sys
plan = json.load(open(sys.argv[1]))
strategies, recommendation = plan["strategies"], plan["recommendation"]
sys.exit(0 if eval(sys.argv[2]) else 1)
PYTHON
}

# ---- text
run 0 --model Qwen/Qwen3-8B --gpus 8 --gpu l40s-48gb
says "Qwen/Qwen3-8B: Qwen3ForCausalLM, 8.2 G parameters (8190735360)"
says "8 x L40S, 45.0 GiB each; PCIe 4 x16"
for row in weights gradients "optimizer state" activations "gathered units" "loss chunk" buffers headroom; do
  says "  $row"
done
says "recommended"
says "never over PCIe when training"
run 0 --model Qwen3-1.7B --gpus 1 --gpu 4090
says "(a file that stores both holds 2.0 G)"
run 0 --model SmolLM2-135M --num_processes 2
says "this one's CPUs: 2 ranks"

# ---- JSON
run 0 --model Qwen/Qwen2.5-7B --gpus 2 --gpu rtx5090 --json --per_device_train_batch_size 1
check 'plan["parameters"] == 7615616512'
check 'list(strategies) == ["ddp", "zero1", "zero2", "zero3", "hsdp"]'
check 'all(type(row[key]) is int for row in strategies.values() for key in
  ["weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "gathered_bytes", "loss_bytes",
   "buffers_bytes", "headroom_bytes", "total_bytes", "wire_bytes"])'
check 'all(row["total_bytes"] == sum(row[key] for key in ["weights_bytes", "gradients_bytes", "optimizer_bytes",
  "activations_bytes", "gathered_bytes", "loss_bytes", "buffers_bytes", "headroom_bytes"])
  for row in strategies.values())'
check 'all(type(row["fits"]) is bool and type(row["wire_ms"]) is float for row in strategies.values())'
check 'not any(row["fits"] for row in strategies.values())'
check 'recommendation["method"] == "lora" and recommendation["strategy"] == "ddp" and recommendation["reason"]'
check 'set(plan["methods"]) == {"lora", "qlora"}'
check '"what_if" not in plan and not plan["tensor_parallel"]["ruled_in"]'
run 0 --model Qwen/Qwen2.5-7B --gpus 2 --gpu rtx5090 --json --method full --per_device_train_batch_size 1
check 'recommendation["strategy"] == "none" and not recommendation["fits"] and "6 of these cards" in recommendation["reason"]'
run 0 --model Qwen/Qwen2.5-7B --gpus 12 --gpus_per_node 4 --gpu a100-80gb --json --shard_group_size 6 --strategy hsdp
check 'recommendation["strategy"] == "hsdp" and strategies["hsdp"]["wire_all_reduce_bytes"] > 0'
run 2 --model Qwen/Qwen2.5-7B --gpus 12 --gpus_per_node 4 --gpu a100-80gb --shard_group_size 5 --strategy hsdp
says "shard_group_size may be 1, 2, 3, 4, 6 or 12"

# ---- what if
run 0 --model Qwen/Qwen2.5-7B --gpus 8 --gpu rtx5090 --method full --json --per_device_train_batch_size 1 \
  --what_if "accumulation=8; link=pcie5x8,batch=2;lora=8;strategy=zero3,optim=adamw_8bit"
check 'len(plan["what_if"]) == 4 and plan["as_asked"]["strategy"] == "zero3"'
check 'plan["what_if"][0]["gradient_accumulation_steps"] == 8'
check 'plan["what_if"][1]["case"]["wire_ms"] > 1.9 * plan["as_asked"]["case"]["wire_ms"]'
check 'plan["what_if"][2]["method"] == "lora"'
# the embedding keeps 32 bits, and every rank has room for what the ranks that own it need: of the edge, 14 % of all
check '0.33 < plan["what_if"][3]["case"]["optimizer_bytes"] / plan["as_asked"]["case"]["optimizer_bytes"] < 0.37'

refuse() { # TEXT ARGUMENTS...
  local text=$1
  shift
  run 2 "$@"
  says "$text"
  [ "$(wc -l <"$folder/out")" -eq 1 ] || fail "more than one line"
}
run 0 --model Qwen2.5-7B --gpus 8 --gpu rtx5090 --method full --json --per_device_train_batch_size 1 --what_if bf16=false
check 'plan["what_if"][0]["case"]["activations_bytes"] == 877256704'
check 'plan["what_if"][0]["case"]["compute_ms"] > 1.9 * plan["as_asked"]["case"]["compute_ms"]'
run 0 --model Qwen2.5-7B --gpus 8 --gpu rtx5090 --method full --per_device_train_batch_size 1 --no_bf16
says "105 TFLOP/s in fp32"
run 0 --model Qwen2.5-7B --gpus 8 --gpu rtx5090 --what_if "method=lora,lora_target_modules=q_proj+v_proj"
for name in deepspeed config_file fsdp_config; do
  refuse "$name cannot be changed here" --model Qwen2.5-7B --gpus 8 --gpu rtx5090 --what_if "$name=x.json"
done
refuse "in a list write +" --model Qwen2.5-7B --gpus 8 --gpu rtx5090 --what_if lora_target_modules=q_proj,v_proj

# ---- the method is open, and nothing fits: adapters are looked at first
run 0 --model Llama-3.1-405B --gpus 8 --gpu h100 --json
check 'plan["answers"]["fewest_devices"]["qlora"]["zero3"] == 16'
check '"QLoRA of rank 16 on 16" in recommendation["reason"] and "No number" not in recommendation["reason"]'
check '0 < plan["machine"]["network_rate"] < plan["machine"]["network_headline_rate"]'

# ---- the length a model was made for
run 0 --model SmolLM2-135M --gpus 1 --gpu h100 --per_device_train_batch_size 1 --json
check 'plan["answers"]["longest_length"] == 8192 == plan["answers"]["made_for_length"]'
run 0 --model SmolLM2-135M --gpus 1 --gpu h100 --per_device_train_batch_size 1 --max_length 9000
says "--max_length 9000 is more than the 8192 tokens that the model was made for"
says "longest sequence at this batch is 8192 tokens (the most"

# ---- ways to recompute: bytes and operations of each
run 0 --model Qwen/Qwen3-0.6B --gpus 1 --gpu h100 --json --method full --what_if "recompute=selective;gradient_checkpointing_every=2"
check '[row["gradient_checkpointing"] for row in plan["recompute"]] == [False, "selective", True]'
check 'plan["recompute"][0]["activations_bytes"] > plan["recompute"][1]["activations_bytes"] > plan["recompute"][2]["activations_bytes"]'
check '[row["extra_operations"] > 0 for row in plan["recompute"]] == [False, False, True]'
check '[row["extra_bytes_moved"] > 0 for row in plan["recompute"]] == [False, True, True]'
check 'plan["what_if"][0]["case"]["activations_bytes"] == plan["recompute"][1]["activations_bytes"]'
check 'plan["what_if"][0]["gradient_checkpointing"] == "selective" and plan["what_if"][1]["gradient_checkpointing_every"] == 2'
check 'plan["recompute"][2]["activations_bytes"] < plan["what_if"][1]["case"]["activations_bytes"] < plan["recompute"][0]["activations_bytes"]'
run 0 --model SmolLM2-135M --gpus 1 --gpu h100 --gradient_checkpointing selective --gradient_checkpointing_every 3
says "blocks kept but for norms and activations"
says "selective, every 3"
run 0 --model SmolLM2-135M --gpus 1 --gpu h100 --no_gradient_checkpointing
says "blocks kept for backward"
refuse "it must be false, true or selective" --model SmolLM2-135M --gradient_checkpointing=some
refuse "did you mean selective?" --model SmolLM2-135M --gradient_checkpointing selectiv
refuse "gradient_checkpointing_kwargs: context_fn" --model SmolLM2-135M --gradient_checkpointing_kwargs '{"context_fn": "mine"}'
run 0 --model SmolLM2-135M --gpus 1 --gpu h100 --gradient_checkpointing_kwargs '{"use_reentrant": false}'

# ---- gradients of adapters in bf16 count; 4-bit weights are planned as training allocates them
run 0 --model Qwen2.5-7B --gpus 2 --gpu rtx5090 --method lora --lora_r 32 --gradient_dtype bf16 --json
check '150e6 < strategies["ddp"]["wire_bytes"] < 165e6' # about 1 % of the 15.2 GB of all gradients in bf16
run 0 --model Llama-3.1-70B --gpus 2 --gpu l40s --use_peft --load_in_4bit --use_bnb_nested_quant --max_length 512 \
  --per_device_train_batch_size 1 --strategy zero3 --gradient_checkpointing true --json
check 'strategies["zero3"]["fits"] and strategies["zero3"]["weights_bytes"] * 2 < strategies["ddp"]["weights_bytes"] * 1.01'
check '17e9 < strategies["zero3"]["weights_bytes"] < 22e9' # half of 70 billion half bytes, their scales, and the edge
# on one card of 24 GiB they wait in a file: the edge and the blocks at work are there
run 0 --model Llama-3.1-70B --gpus 1 --gpu 4090 --use_peft --load_in_4bit --max_length 512 --per_device_train_batch_size 1 \
  --gradient_checkpointing true --offload_optimizer nvme --offload_params nvme --json
check 'strategies["zero3"]["fits"] and strategies["zero3"]["weights_bytes"] + strategies["zero3"]["gathered_bytes"] < 8e9'
check '38e9 < strategies["zero3"]["disk_bytes"] < 50e9'
refuse "load_in_4bit needs use_peft" --model Qwen3-8B --gpus 1 --gpu 4090 --load_in_4bit
refuse "method is lora, but load_in_4bit asks for qlora" --model Qwen3-8B --gpus 1 --gpu 4090 --load_in_4bit --method lora
run 0 --model meta-llama/Meta-Llama-3.1-8B-Instruct --gpus 1 --gpu h100
run 0 --model Meta-Llama-3.1-405B --gpus 8 --gpu h100

# ---- a recipe, a folder, a config.json
mkdir "$folder/model"
cat >"$folder/model/config.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 1000,
 "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"}
JSON
printf 'model_name_or_path: %s\ndataset_name: none.jsonl\noutput_dir: %s/out\nlearning_rate: 1e-4\nmax_length: 128\nstrategy: zero2\n' \
  "$folder/model" "$folder" >"$folder/recipe.yaml"
run 0 "$folder/recipe.yaml" --gpus 4 --gpu l40s --json
check 'plan["parameters"] == 138048'
run 0 --model "$folder/model/config.json" --gpus 4 --gpu l40s
says "LlamaForCausalLM"
# DeepSpeed's file, offload and all
cat >"$folder/ds.json" <<'JSON'
{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "overlap_comm": true}, "bf16": {"enabled": true},
 "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}
JSON
run 0 --model Llama-3.1-70B --gpus 8 --gpu h200 --deepspeed "$folder/ds.json" --method full --json
check 'strategies["zero3"]["optimizer_bytes"] == 0'
check '11.9e9 < strategies["zero3"]["host_bytes"] * 8 / 70.55 < 12.3e9'
check 'recommendation["gradient_accumulation_steps"] == 8'
# each place by itself: nvme leaves the edge's state and three blocks', offloaded weights are none of the device's
run 0 --model Qwen3-8B --gpus 8 --gpu h100 --method full --json --strategy zero3 \
  --what_if "offload=cpu;offload=nvme;offload=nvme,offload_params=cpu"
check 'plan["what_if"][0]["case"]["host_bytes"] > 11.9 * plan["parameters"] / 8 and plan["what_if"][0]["case"]["disk_bytes"] == 0'
check 'plan["what_if"][1]["case"]["disk_bytes"] > 9 * plan["parameters"] / 8'
check 'plan["what_if"][1]["case"]["host_bytes"] < plan["what_if"][0]["case"]["host_bytes"] / 2'
check 'plan["what_if"][2]["case"]["weights_bytes"] == 0 < plan["what_if"][1]["case"]["weights_bytes"]'
refuse "offload_params is cpu, but offload_optimizer is none" --model Qwen3-8B --gpus 8 --gpu h100 --offload_params cpu
run 2 --model Qwen3-8B --gpus 8 --gpu h100 --train_batch_size 100 --per_device_train_batch_size 8
says "train_batch_size is 100"
printf 'learning_rate: 99\n' >>"$folder/recipe.yaml"
sed -i '/1e-4/d' "$folder/recipe.yaml"
run 2 "$folder/recipe.yaml" --gpus 4 --gpu l40s # checked as training would
says "learning_rate is 99"

# ---- measurements are taken instead of the table, and read with care
"$FINEWIRE" bench gemm --num_processes 1 --num_threads 1 --device cpu --save >/dev/null 2>&1
run 0 --model SmolLM2-135M --num_processes 1 --num_threads 1
says "measured here on"
run 0 --model SmolLM2-135M --num_processes 2 --num_threads 1
says "a guess"
echo '{"format": 7}' >"$FINEWIRE_MEASURED"
run 3 --model SmolLM2-135M
says "measured.json"
rm "$FINEWIRE_MEASURED"

# ---- the chart: XML, with a curve for each strategy and a bar for each link, whatever the model is called
cp -r "$folder/model" "$folder/a<b>&c"
run 0 --model "$folder/a<b>&c" --gpus 8 --gpu h100 --chart "$folder/chart.svg"
python3 - "$folder/chart.svg" <<'PYTHON' || fail "the chart is not what it should be"
import sys, xml.etree.ElementTree as tree
svg = tree.parse(sys.argv[1]).getroot()
space = "{http://www.w3.org/2000/svg}"
texts = [text.text for text in svg.iter(space + "text")]
wanted = ["ddp", "zero1", "zero2", "zero3", "hsdp", "nvlink", "pcie4x8", "as asked", "what there is", "number of devices"]
assert all(word in texts for word in wanted), texts
assert any("a<b>&c" in text for text in texts)
assert len(list(svg.iter(space + "path"))) == 5
assert "prefers-color-scheme" in next(svg.iter(space + "style")).text
for shape in svg.iter():
    for name in ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "width", "height"):
        assert 0 <= float(shape.get(name, 0)) <= 1040
PYTHON
run 6 --model SmolLM2-135M --chart "$folder/none/chart.svg"
ln -s chart.svg "$folder/link.svg"
run 0 --model SmolLM2-135M --chart "$folder/link.svg"
if ! [ -L "$folder/link.svg" ] || ! grep -q SmolLM2-135M "$folder/chart.svg"; then fail "--chart replaced a link"; fi

# ---- a thousand GPUs: in 20 MB (resident, the libraries of the program included)
python3 - "$FINEWIRE" <<'PYTHON' || { command="plan of 1,024 GPUs"; fail "more than 20 MB resident"; }
import resource, subprocess, sys
subprocess.run([sys.argv[1], "plan", "--model", "Llama-3.1-405B", "--gpus", "1024", "--gpu", "h100", "--json",
                "--per_device_train_batch_size", "1"], check=True, stdout=subprocess.DEVNULL)
kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(f"405B on 1,024 GPUs: {kib / 1024:.1f} MiB resident at most")
sys.exit(0 if kib * 1024 < 20e6 else 1)
PYTHON

# ---- nonsense: one line that says what is wrong, and the nearest name
refuse "--gpus is 0; it must be from 1 to" --model Qwen3-8B --gpus 0 --gpu h100
refuse "--gpus is -3; it must be from 1 to" --model Qwen3-8B --gpus -3 --gpu h100
refuse 'no card known here; did you mean h100?' --model Qwen3-8B --gpus 8 --gpu h1oo
refuse "did you mean Qwen/Qwen3-" --model Qwen/Qwen3-9B --gpus 8 --gpu h100
refuse "12 devices do not make whole machines of 8; use 8 or 16" --model Qwen3-8B --gpus 12 --gpu h100
refuse "--per_device_train_batch_size is 0; it must be from 1" --model Qwen3-8B --per_device_train_batch_size 0
refuse "--device_memory is \"-5GB\": it is not a size" --model Qwen3-8B --gpus 2 --gpu 4090 --device_memory -5GB
refuse "GeForce RTX 4090 has none" --model Qwen3-8B --gpus 2 --gpu 4090 --link nvlink
refuse "it joins at most 2 of GeForce RTX 3090" --model Qwen3-8B --gpus 8 --gpu rtx3090 --link nvlink
refuse "from 0.001 to 100000" --model Qwen3-8B --gpus 8 --gpu rtx3090 --link 1e-300
refuse "at most 64 can be" --model Qwen3-8B --gpus 65536 --device cpu
refuse "did you mean pcie4x16?" --model Qwen3-8B --gpus 2 --gpu 4090 --link pice4x16
refuse "no NVIDIA GPU is seen here; name a card with --gpu" --model Qwen3-8B --device cuda
refuse "--link is for GPUs" --model Qwen3-8B --link nvlink
refuse "did you mean q_proj?" --model Qwen3-8B --gpus 1 --gpu 4090 --lora_target_modules q_porj
refuse "did you mean qlora?" --model Qwen3-8B --gpus 1 --gpu 4090 --method qlor
refuse "finewire plan needs --model_name_or_path" --gpus 1 --gpu 4090
refuse "leave out one of them" --model Qwen3-8B --gpus 1 --gpu 4090 --device cpu
refuse '--what_if "batch=0": --per_device_train_batch_size is 0' --model Qwen3-8B --gpus 1 --gpu 4090 --what_if batch=0
refuse '"accumulation" is not NAME=VALUE' --model Qwen3-8B --gpus 1 --gpu 4090 --what_if accumulation
refuse 'did you mean --gpus?' --model Qwen3-8B --gpus 1 --gpu 4090 --what_if gpsu=2
refuse "chart cannot be changed here" --model Qwen3-8B --gpus 1 --gpu 4090 --what_if chart=x.svg
refuse "are 4294967296 tokens at once" --model Qwen3-8B --gpus 1 --gpu h100 --per_device_train_batch_size 65536 --max_length 65536

exit $failed
