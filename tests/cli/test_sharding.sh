#!/usr/bin/env bash
# finewire train from the command line: words for strategies, what it says it will do, and what it refuses.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A model whose embedding makes most of it: two million parameters, all zero; its tokenizer has a token for each byte.
mkdir "$folder/model"
python3 - "$folder/model" <<'PYTHON' || exit 1
import json, struct, sys
folder, C, F, H, V, L = sys.argv[1], 64, 128, 4, 30000, 2

def write(name, content):
    json.dump(content, open(f"{folder}/{name}", "w"))

write("config.json", dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=C, intermediate_size=F,
                          num_attention_heads=H, num_key_value_heads=H, num_hidden_layers=L, vocab_size=V,
                          max_position_embeddings=256, rms_norm_eps=1e-5, rope_theta=10000, tie_word_embeddings=True,
                          hidden_act="silu"))
shown = [*range(33, 127), *range(161, 173), *range(174, 256)]  # these bytes stand for themselves, as in GPT-2
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
hidden = [byte for byte in range(256) if byte not in shown]
tokens = special + [chr(byte) for byte in shown] + [chr(256 + i) for i in range(len(hidden))]
write("tokenizer.json", dict(
    version="1.0", normalizer=None, post_processor=None, decoder={"type": "ByteLevel"},
    added_tokens=[dict(id=i, content=text, special=True, single_word=False, lstrip=False, rstrip=False,
                       normalized=False) for i, text in enumerate(special)],
    pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
    model={"type": "BPE", "vocab": {text: i for i, text in enumerate(tokens)}, "merges": []}))
write("tokenizer_config.json", dict(bos_token=special[1], eos_token=special[2], pad_token=special[0], chat_template=
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"))

shapes = {"model.embed_tokens.weight": [V, C], "model.norm.weight": [C]}
for layer in range(L):
    block = {"self_attn.q_proj": [C, C], "self_attn.k_proj": [C, C], "self_attn.v_proj": [C, C],
             "self_attn.o_proj": [C, C], "mlp.gate_proj": [F, C], "mlp.up_proj": [F, C], "mlp.down_proj": [C, F],
             "input_layernorm": [C], "post_attention_layernorm": [C]}
    shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in block.items()}
header, at = {}, 0
for name, shape in shapes.items():
    size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
with open(f"{folder}/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + bytes(at))
PYTHON
for i in 1 2 3 4 5 6 7 8; do
  printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b%s"}]}\n' $i
done >"$folder/data.jsonl"

# run CODE ARGUMENTS...: one step; what it writes is in $folder/out
run() {
  local code=$1; shift
  "$FINEWIRE" train --model "$folder/model" --dataset "$folder/data.jsonl" --output_dir "$folder/run" \
    --overwrite_output_dir --max_steps 1 --save_strategy no --per_device_train_batch_size 1 "$@" >"$folder/out" 2>&1
  local got=$?
  command="train $*"
  if [ $got -ne "$code" ]; then echo "$command: exit code $got, expected $code"; cat "$folder/out"; failed=1; fi
}
# says PATTERN: some line of it matches
says() { grep -qE -- "$1" "$folder/out" || { echo "$command: no \"$1\" in:"; cat "$folder/out"; failed=1; }; }

# What is asked for in any of the known words is what is said to run.
while read -r name ranks words; do
  # shellcheck disable=SC2086 # words are words
  run 0 --num_processes "$ranks" $words
  says "^strategy  $name$"
done <<'WORDS'
ddp 2 --strategy ddp
zero1 2 --strategy zero1
zero2 2 --fsdp shard_grad_op
zero2 2 --fsdp full_shard --fsdp_reshard_after_forward false
zero3 2 --strategy FULL_SHARD
hsdp 4 --strategy hsdp --shard_group_size 2
hsdp_zero2 4 --fsdp hybrid_shard_zero2 --shard_group_size 2
WORDS
says '^units     2 of transformer blocks and the edge'
says '^groups    2 ranks share out the model, 2 groups hold the same'
run 0 --num_processes 2 --strategy zero3 --wrap model
says '^units     1: the whole model'

# auto says why: it fits, or what did not.
run 0 --num_processes 2
says '^strategy  ddp: the model fits on every rank$'
says '^memory    [0-9.]+ MiB a rank, planned'
needed=$(sed -nE 's/^memory +([0-9]+)\.[0-9] MiB a rank, planned.*/\1/p' "$folder/out")
run 0 --num_processes 2 --device_memory "$((needed - 2))MiB"
says '^strategy  zero[123]: ddp needs [0-9.]+ [KMG]iB a rank, .*[0-9.]+ [KMG]iB allowed; zero[123] fits with [0-9.]+ [KMG]iB$'
chosen=$(sed -nE 's/^strategy +(zero[123]):.*/\1/p' "$folder/out")

# What has no effect is said, once: auto chose ddp, or one rank has nothing to share.
run 0 --num_processes 2 --prefetch 2
says 'warning: prefetch has no effect: the strategy is ddp'
[ "$(grep -c 'prefetch has no effect' "$folder/out")" -eq 1 ] || { echo "$command: not one warning"; failed=1; }
run 0 --num_processes 1 --strategy zero3
says '^strategy  ddp: one rank has nothing to share, as zero3 would$'

# What cannot be is refused before anything is taken, once, with what would do.
run 4 --num_processes 2 --strategy ddp --device_memory "$((needed - 2))MiB"
says "error: a rank needs [0-9.]+ [GM]iB and --device_memory allows .*: --strategy $chosen needs [0-9.]+ [GM]iB a rank"
run 4 --num_processes 2 --device_memory 20MiB
says 'error: a rank needs .*largest part is program and libraries .*allow more'
run 2 --num_processes 2 --strategy zero7
says 'error: --strategy is zero7; .*did you mean zero[123]\?'
run 2 --num_processes 4 --strategy hsdp --shard_group_size 3
says 'error: shard_group_size is 3, which does not divide the 4 ranks; shard_group_size may be 1, 2 or 4'
run 2 --num_processes 2 --fsdp full_shard --fsdp_transformer_layer_cls_to_wrap Qwen2DecoderLayer
says 'error: fsdp_transformer_layer_cls_to_wrap: the model has no class Qwen2DecoderLayer; its blocks are LlamaDecoderLayer'
run 0 --num_processes 2 --fsdp full_shard --fsdp_transformer_layer_cls_to_wrap LlamaDecoderLayer
says '^strategy  zero3$'
[ "$(grep -c 'error: ' "$folder/out")" -eq 0 ] || failed=1
run 2 --num_processes 2 --gradient_dtype bf16 --gradient_accumulation_steps 2
says 'error: gradient_dtype is bf16 and gradient_accumulation_steps is 2: .* write gradient_dtype fp32'
run 2 --num_processes 2 --attn_implementation cudnn --device cpu
says 'error: --attn_implementation cudnn is for NVIDIA GPUs, and the device is cpu'
run 0 --attn_implementation flash_attention_2 --device cpu

# Files of accelerate and DeepSpeed, as they are.
printf '%s\n' 'compute_environment: LOCAL_MACHINE' 'distributed_type: FSDP' 'fsdp_config:' \
  '  fsdp_sharding_strategy: SHARD_GRAD_OP' '  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP' \
  '  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer' '  fsdp_offload_params: false' 'mixed_precision: bf16' \
  'num_processes: 2' >"$folder/accelerate.yaml"
run 0 --config_file "$folder/accelerate.yaml"
says '^strategy  zero2$'
says '^ranks     2 '
run 0 --config_file "$folder/accelerate.yaml" --strategy zero1
says '^strategy  zero1$'
echo '{"zero_optimization": {"stage": 3, "overlap_comm": true}, "train_batch_size": 12, "gradient_clipping": "auto",
  "train_micro_batch_size_per_gpu": "auto", "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}' >"$folder/ds.json"
run 0 --num_processes 2 --deepspeed "$folder/ds.json"
says '^strategy  zero3$'
says '^batch     1 x 6 x 2 = 12 '
run 2 --num_processes 3 --deepspeed "$folder/ds.json" --learning_rate 1e-4
says 'ds.json: optimizer.params.lr is 0.0003, which contradicts learning_rate \(the command line\)'
run 2 --num_processes 5 --deepspeed "$folder/ds.json"
says 'error: train_batch_size is 12 \(.*ds.json\), which is not per_device_train_batch_size \(1\) x .* x 5 ranks'
sed -i 's/SHARD_GRAD_OP/SHARD_GRADS/' "$folder/accelerate.yaml"
run 2 --config_file "$folder/accelerate.yaml"
says 'accelerate.yaml:4: fsdp_config.fsdp_sharding_strategy is SHARD_GRADS; it must be .* did you mean SHARD_GRAD_OP'

# What is sent is counted to the byte, also where the weights still travel when a step has ended.
for strategy in ddp zero1 zero2 zero3; do
  run 0 --num_processes 2 --strategy $strategy --max_steps 8 --logging_steps 1 --save_strategy steps --save_steps 1
  settled=$(sed -nE 's/^sent_per_step = .*\(([0-9]+) bytes\)$/\1/p' "$folder/out")
  run 0 --num_processes 2 --strategy $strategy --max_steps 8 --logging_steps 1
  [ -n "$settled" ] || failed=1
  says "^sent_per_step = .*\\($settled bytes\\)\$"
done

# Ranks that somebody else started, each with options or conversations of its own, are told apart before they train.
# two_ranks OPTIONS_OF_RANK_0 -- OPTIONS_OF_RANK_1
two_ranks() {
  local of0=() port=$((20000 + RANDOM % 20000))
  while [ "$1" != -- ]; do of0+=("$1"); shift; done
  shift
  command="two ranks started by hand, $*"
  local common=(train --model "$folder/model" --output_dir "$folder/run" --overwrite_output_dir --max_steps 1
                --save_strategy no)
  export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
  RANK=1 "$FINEWIRE" "${common[@]}" "$@" >"$folder/out1" 2>&1 &
  RANK=0 "$FINEWIRE" "${common[@]}" "${of0[@]}" >"$folder/out" 2>&1
  wait $!
  cat "$folder/out1" >>"$folder/out"
  unset WORLD_SIZE MASTER_ADDR MASTER_PORT
}
data=(--dataset "$folder/data.jsonl")
two_ranks "${data[@]}" --learning_rate 2e-5 -- "${data[@]}" --learning_rate 0.1
says 'error: rank 1 was started with learning_rate 0.1, rank 0 with 2e-5: start all ranks with the same options'
two_ranks "${data[@]}" -- "${data[@]}" --num_threads 1
says '^model = '
exit $failed
