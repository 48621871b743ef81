#!/usr/bin/env bash
# finewire topo and finewire doctor: on this machine, on recorded ones, and with a stand-in for the driver's library.
set -uo pipefail
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
data=$FW_SOURCE_DIR/tests/data/machine
for name in $(env | grep -oE '^(NCCL|CUDA)_[A-Z0-9_]*'); do unset "$name"; done
unset FINEWIRE_NVML
export HOME=$folder FINEWIRE_CUDA_PLUGIN=$folder/none.so

# expect CODE ARGUMENTS...: exit code; a failure prints an error, and nothing else is on the standard error
expect() {
  local code=$1; shift
  "$FINEWIRE" "$@" >"$folder/out" 2>"$folder/err"
  local got=$?
  if [ $got -ne "$code" ]; then echo "finewire $*: exit code $got, expected $code"; cat "$folder/out" "$folder/err"; failed=1; fi
}
# runs ARGUMENTS...: of this machine as it is, so the findings of others do not count
runs() {
  "$FINEWIRE" "$@" >"$folder/out" 2>"$folder/err"
  local got=$?
  if [ $got -gt 2 ] || [ -s "$folder/err" ]; then echo "finewire $*: exit code $got"; cat "$folder/err"; failed=1; fi
}
prints() { grep -qF -- "$1" "$folder/out" || { echo "the output lacks \"$1\":"; cat "$folder/out"; failed=1; }; }
lacks() { ! grep -qF -- "$1" "$folder/out" || { echo "the output has \"$1\":"; cat "$folder/out"; failed=1; }; }
says() { grep -qF -- "$1" "$folder/err" || { echo "the error lacks \"$1\": $(cat "$folder/err")"; failed=1; }; }

# ---- topo
expect 0 topo; prints "CPU  "; prints "memory  "; prints "NUMA"; [ ! -s "$folder/err" ] || { echo "topo: $(cat "$folder/err")"; failed=1; }
expect 0 topo --from "$data/h100_nvswitch_8.json"
prints "GPU0   X     NV18  NV18  NV18  NV18  NV18  NV18  NV18  PIX   NODE  NODE  NODE  SYS   SYS   SYS   SYS    0-55,112-167    0"
prints "  NV#   over so many NVLinks, through a switch"
prints "peer access: every GPU reads and writes every other's memory"
prints "GPU7   0000:df:00.0  5 (5)            16 (16)     63.0 GB/s"
prints "NIC0   mlx5_0         0000:18:00.0  InfiniBand ACTIVE  400 Gbit/s, RDMA, NUMA node 0"
lacks "PXB"
expect 0 topo --from "$data/l40s_pcie_8.json"
prints "GPU3   NODE  NODE  PHB   X     SYS   SYS   SYS   SYS   NODE  NODE   0-31,64-95    0"
prints "GPU0   0000:01:00.0  1 (4)            16 (16)     31.5 GB/s"
prints "An idle GPU lowers the generation, never the lanes"
expect 0 topo --from "$data/rtx4090_x8_2.json"
prints "GPU1   GNS     X"; prints "  GNS   the GPU or its driver does not allow it"
prints "8 (16)      15.8 GB/s"
expect 0 topo --from "$data/a100_vm_acs_4.json"; prints "virtual (QEMU Standard PC"; prints "/dev/shm  64.0 MiB (64.0 MiB free)"
if grep -qE ' $' "$folder/out"; then echo "topo leaves blanks at the ends of lines"; failed=1; fi

# a snapshot is what --json prints, and comes back
expect 0 topo --snapshot "$folder/here.json"
expect 0 topo --from "$folder/here.json" --json
cmp -s "$folder/out" "$folder/here.json" || { echo "--json is not the snapshot"; failed=1; }
expect 0 topo --from "$data/l40s_pcie_8.json" --json
cmp -s "$folder/out" "$data/l40s_pcie_8.json" || { echo "--json of a recorded machine is not its file"; failed=1; }
expect 3 topo --from "$folder/none.json"; says "none.json"
echo '{}' >"$folder/empty.json"
expect 3 topo --from "$folder/empty.json"; says "is no snapshot of a machine"
expect 2 topo --model x; says "not of finewire topo"
expect 6 topo --snapshot "$folder/no/such/folder.json"
# a link stays a link, a pipe a pipe
ln -s here.json "$folder/link.json"
expect 0 topo --from "$data/l40s_pcie_8.json" --snapshot "$folder/link.json"
if ! [ -L "$folder/link.json" ] || ! cmp -s "$folder/here.json" "$data/l40s_pcie_8.json"; then echo "--snapshot replaced a link"; failed=1; fi
mkfifo "$folder/pipe"
timeout 60 cat "$folder/pipe" >"$folder/piped.json" &
expect 0 topo --from "$data/l40s_pcie_8.json" --snapshot "$folder/pipe"
wait $!
if ! [ -p "$folder/pipe" ] || ! cmp -s "$folder/piped.json" "$data/l40s_pcie_8.json"; then echo "--snapshot replaced a pipe"; failed=1; fi
expect 6 topo --snapshot "$folder"; says "it is a folder"

# through the library of a driver
if [ -e "${FW_STANDIN_NVML:-}" ]; then
  export FINEWIRE_NVML=$FW_STANDIN_NVML
  STANDIN_NVML=switch expect 0 topo; prints "GPU0   X     NV18  NV18  NV17"; prints "GPUs      4 x NVIDIA Stand-in, 24.0 GiB"
  STANDIN_NVML=count expect 0 topo; prints "driver    it gives an error (the driver counts 4000000000 GPUs)"
  STANDIN_NVML=count expect 2 doctor; prints "broken   driver      the NVIDIA driver does not work"
  STANDIN_NVML=pair expect 2 doctor; prints "warning  cuda        there are GPUs, and runs take the CPU: there is no $folder/none.so"
  STANDIN_NVML=lies runs doctor; lacks $'\e'
  unset FINEWIRE_NVML
fi

# ---- doctor
FINEWIRE_NVML=/nowhere expect 0 doctor --from "$data/h100_nvswitch_8.json"; prints "dgx-07: 0 broken, 0 warnings"
prints "fine     driver, cuda, busy"
expect 1 doctor --from "$data/rtx4090_x8_2.json"
prints "warning  pcie        GPUs 0-1: 8 of 16 PCIe lanes, for the slot has no more -> "
prints "note     pcie        GPUs 0-1: idle at PCIe generation 1 of 4 -> "
expect 1 doctor --from "$data/a100_vm_acs_4.json"
prints "warning  acs         ACS is on in 4 bridges"; prints "warning  shm         /dev/shm has 64 MiB"
prints "warning  environment CUDA_LAUNCH_BLOCKING=1: every kernel is waited for"
prints "warning  busy        GPU 3 is used by process 2211874 with 21.3 GiB"
expect 1 doctor --from "$data/a100_vm_acs_4.json" --json
prints '"exit_code": 1'; prints '"check": "acs"'; prints '"level": "warning"'

# every check stands in docs/machine.md
expect 1 doctor --from "$data/a100_vm_acs_4.json" --json
while read -r check; do
  grep -qF "\`$check\`" "$FW_SOURCE_DIR/docs/machine.md" || { echo "docs/machine.md says nothing of $check"; failed=1; }
done < <(grep -oE '"name": "[a-z]+"' "$folder/out" | cut -d'"' -f4)

# settings of this environment are named
NCCL_P2P_DISABLE=1 CUDA_LAUNCH_BLOCKING=0 runs doctor
prints "warning  environment NCCL_P2P_DISABLE=1: GPUs do not read each other's memory"; lacks CUDA_LAUNCH_BLOCKING
echo 'NCCL_SHM_DISABLE=1 # for a while' >"$folder/.nccl.conf"
runs doctor; prints "warning  environment NCCL_SHM_DISABLE=1 (in $folder/.nccl.conf): ranks of one host"
NCCL_SHM_DISABLE=0 runs doctor; lacks NCCL_SHM_DISABLE
rm "$folder/.nccl.conf"

# other hosts are looked up
for hosts in "" ",,,"; do expect 2 doctor --hosts "$hosts"; says "names none"; done
FINEWIRE_NVML=$folder/none.so runs doctor; if ! grep -q '^no GPUs  nothing to look at for .*peer, pcie, acs$' "$folder/out"; then lacks "fine     driver"; lacks "peer, pcie"; fi
expect 2 doctor --hosts nowhere.invalid; prints "broken   hosts       the name nowhere.invalid of another host is not known"

# the disk: of a model, and of a recipe, whose other options are checked but of no use here
expect 2 doctor --model meta-llama/Llama-3.1-405B --output_dir "$folder/run/x"
prints "broken   disk        $folder/run/x: "; prints "one checkpoint takes"
[ ! -e "$folder/run" ] || { echo "doctor has made the output folder"; failed=1; }
printf 'model: meta-llama/Llama-3.1-405B\noutput_dir: %s/run\nlearning_rate: 1e-5\n' "$folder" >"$folder/r.yaml"
expect 2 doctor "$folder/r.yaml"; prints "broken   disk        $folder/run: "
printf 'learning_rat: 1\n' >"$folder/r.yaml"
expect 2 doctor "$folder/r.yaml"; says "$folder/r.yaml:1: learning_rat is not an option"
expect 3 doctor --model "$folder"; says "config.json"
exit $failed
