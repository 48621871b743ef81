#!/usr/bin/env bash
# --device cuda where there is no plugin, no driver, or a driver that is too old: one line that says which. --device auto
# goes on with the CPU. A driver is played by a library of three lines.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc=${CC:-cc}
if ! command -v "$cc" >/dev/null; then echo "skipped: there is no C compiler"; exit 77; fi

# expect CODE STDERR_PART ARGUMENTS...
expect() {
  local code=$1 part=$2; shift 2
  "$@" >"$folder/out" 2>"$folder/err"
  local got=$?
  if [ $got -ne "$code" ]; then echo "$*: exit code $got, expected $code"; cat "$folder/err"; failed=1; fi
  if ! grep -qF -- "$part" "$folder/err"; then
    echo "$*: standard error is: $(cat "$folder/err")"
    echo "it lacks: $part"
    failed=1
  fi
  if [ "$(wc -l <"$folder/err")" -ne 1 ]; then echo "$*: not one line: $(cat "$folder/err")"; failed=1; fi
}
train=("$FINEWIRE" train --model_name_or_path "$folder" --dataset_name "$folder/d.jsonl" --output_dir "$folder/o")
export FINEWIRE_CUDA_PLUGIN=$folder/plugin.so

expect 2 "the CUDA plugin is missing: there is no $folder/plugin.so; run make cuda" "${train[@]}" --device cuda
expect 2 "the CUDA plugin is missing" "${train[@]}" --device cuda --num_processes 2
[ ! -e "$folder/o" ] || { echo "a refused run has made its output folder"; failed=1; }

# a plugin that says what it was built with and nothing else
build=$(strings -a "$FINEWIRE" | grep -m1 -oE '^[0-9]+\.[0-9]+\.[0-9]+-[0-9a-f]{12}$')
cat >"$folder/plugin.c" <<END
#include <stdint.h>
struct plugin { uint32_t abi; const char *build; int cuda; const char *archs; int (*count)(int *); int (*create)(void); };
static int count(int *n) { *n = 0; return 0; }
const void *finewire_cuda_plugin(const void *host) {
  static const struct plugin p = {1, BUILD, 13000, "90", count, 0};
  (void)host;
  return &p;
}
END
"$cc" -shared -fPIC -DBUILD="\"$build\"" -o "$folder/plugin.so" "$folder/plugin.c" || exit 1
driver() { # VERSION: a driver for that version of CUDA
  echo "int cuDriverGetVersion(int *v) { *v = $1; return 0; }" >"$folder/driver.c"
  "$cc" -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$folder/libcuda.so.1" "$folder/driver.c" || exit 1
}
if [[ $(ldconfig -p 2>/dev/null) == *libcuda.so.1* ]]; then
  echo "a driver is installed here: its absence is not tested"
else
  expect 2 "there is no NVIDIA driver on this machine" "${train[@]}" --device cuda
  # one that is there and broken is not one that is missing
  echo "no library" >"$folder/libcuda.so.1"
  expect 2 "the NVIDIA driver, libcuda.so.1, is there and cannot be loaded: " \
    env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda
fi
driver 0
expect 2 "the NVIDIA driver says that it is for no version of CUDA (0)" \
  env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda
driver 12040
expect 2 "the NVIDIA driver is too old: it is for CUDA 12.4 and the plugin was built with CUDA 13.0" \
  env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda
driver 13000
expect 2 "the NVIDIA driver shows no GPU" env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda
expect 2 "the NVIDIA driver shows no GPU with CUDA_VISIBLE_DEVICES=;" \
  env LD_LIBRARY_PATH="$folder" CUDA_VISIBLE_DEVICES= "${train[@]}" --device cuda

# a name without a folder is the file here, not one of that name where the loader looks
mkdir "$folder/elsewhere"
cp "$folder/plugin.so" "$folder/plugin_here.so"
echo "no library" >"$folder/elsewhere/plugin_here.so"
(cd "$folder" && FINEWIRE_CUDA_PLUGIN=plugin_here.so expect 2 "the NVIDIA driver shows no GPU" \
  env LD_LIBRARY_PATH="$folder/elsewhere:$folder" "${train[@]}" --device cuda && exit $failed) || failed=1
# what the loader would wait for, or die of
mkfifo "$folder/pipe"
FINEWIRE_CUDA_PLUGIN=$folder/pipe expect 2 "pipe cannot be loaded: it is no regular file" \
  timeout 20 env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda
for bytes in 40 100 1000 8000; do
  head -c $bytes "$folder/plugin.so" >"$folder/short.so"
  FINEWIRE_CUDA_PLUGIN=$folder/short.so expect 2 "short.so cannot be loaded: it" \
    env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda
done

"$cc" -shared -fPIC -DBUILD='"0.0.0-other"' -o "$folder/plugin.so" "$folder/plugin.c" || exit 1
expect 2 "plugin.so belongs to another build (it: 1, 0.0.0-other; the program: 1, $build); run make cuda again" \
  env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda
echo 'int x;' >"$folder/empty.c"
"$cc" -shared -fPIC -o "$folder/plugin.so" "$folder/empty.c" || exit 1
expect 2 "is not a plugin of finewire" env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda
echo "no library" >"$folder/plugin.so"
expect 2 "plugin.so cannot be loaded: " env LD_LIBRARY_PATH="$folder" "${train[@]}" --device cuda

# who computes attention is a GPU's choice
expect 2 "--attn_implementation is triton; it must be auto, finewire or cudnn" "${train[@]}" --attn_implementation triton

# auto goes on, but not without a file that was named: the next thing that is wrong is the model's folder
expect 3 "config.json" "${train[@]}" --device auto
FINEWIRE_CUDA_PLUGIN=$folder/none.so expect 2 "FINEWIRE_CUDA_PLUGIN: the CUDA plugin is missing: there is no" \
  "${train[@]}" --device auto
exit $failed
