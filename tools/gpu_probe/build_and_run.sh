#!/usr/bin/env bash
# Builds and runs the GPU probe: measuring programs that say what a machine's link, cuBLASLt, cuDNN and PyTorch reach,
# before and beside Lamina's CUDA backend. Not part of the build. docs/research/gpu-probe.md has the results.
#
#   tools/gpu_probe/build_and_run.sh [OUT [link] [gemm] [attention] [ring] [gather] [reference]]
#
# OUT is a folder for the tables (build/gpu_probe); all parts are measured unless some are named. gather takes two GPUs and NCCL 2.28.
#
# Needs a CUDA 13 toolkit with nvcc, cuBLASLt and cuDNN 9.13 or later (in the toolkit or as Python packages), a Hopper GPU
# and fmt's headers; PyTorch for the reference. FMT_INCLUDE names the folder of fmt's headers where they are no system
# headers, FILE_FOLDERS the folders for the file mappings.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
out=${1:-build/gpu_probe}
[ $# -eq 0 ] || shift
parts=${*:-link gemm attention ring gather reference}
read -ra folders <<<"${FILE_FOLDERS:-/tmp /dev/shm}"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
mkdir -p "$out"

# The first place that has a file of this name, Python's packages before the toolkit: then PyTorch runs the same version.
packages=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null || true)
cuda=${CUDA_HOME:-/usr/local/cuda}
folder_of() {
    local found
    found=$(find -L ${packages:+"$packages"} "$cuda" -name "$1" -printf '%h\n' 2>/dev/null | head -1)
    [ -n "$found" ] || echo "build_and_run: no $1 in '$packages' or '$cuda'" >&2
    echo "$found"
}
blas=$(folder_of 'libcublasLt.so.13')
dnn=$(folder_of 'libcudnn.so.9')
nccl=$(folder_of 'libnccl.so.2')
export LD_LIBRARY_PATH=$blas:$dnn:$nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
flags=(-std=c++20 -O2 -arch=sm_90 -DFMT_HEADER_ONLY -DFMT_CONSTEVAL= -Isrc -Iinclude -Itools
    -isystem "$(folder_of cublasLt.h)" -isystem "$(folder_of cudnn_graph.h)" -isystem "$(folder_of nccl.h)"
    ${FMT_INCLUDE:+-isystem "$FMT_INCLUDE"})
PATH=$PATH:$cuda/bin

sources=(tools/gpu_probe/*.cpp tools/gpu_probe/kernels.cu src/offload/ring_layout.cpp src/offload/timing_model.cpp
    src/base/error.cpp)
# shellcheck disable=SC2016  # for the inner shell to expand
printf '%s\n' "${sources[@]}" |
    xargs -P "$(nproc)" -I{} sh -c 'nvcc "$@" -c {} -o "$0/$(basename {}).o"' "$build" "${flags[@]}" || exit 1
shared=("$build"/{gpu,kernels,pinned,linear,attention,klein,bare_stream,ring_layout,timing_model,error}.*.o)
for program in link_probe gemm_probe attention_probe ring_probe gather_probe; do
    nvcc -arch=sm_90 -o "$build/$program" "$build/$program.cpp.o" "${shared[@]}" -L"$blas" -L"$dnn" -L"$nccl" \
        -l:libcublasLt.so.13 -l:libcudnn.so.9 -l:libnccl.so.2 &
done
wait

failed=()
measure() {
    local name=$1
    shift
    local begin=$SECONDS
    if ! "$@" 2>&1 | tee "$out/$name.md"; then failed+=("$name"); fi
    echo "build_and_run: $name took $((SECONDS - begin)) s" >&2
}
# Runs a program in two processes; the hashes that they write must be the same.
measure_twice() {
    local first=$build/$1.first second=$build/$1.second
    measure "$1" "$build/$1_probe" "$first"
    "$build/$1_probe" "$second" >/dev/null
    if [ -s "$first" ] && cmp "$first" "$second"; then
        printf '\nTwo processes gave the same bytes.\n' | tee -a "$out/$1.md"
    else
        failed+=("$1 in two processes")
    fi
}
query() {
    nvidia-smi --query-gpu="$1" --format=csv
}
{
    query name,driver_version,clocks.sm,power.draw,temperature.gpu,pcie.link.gen.current,pcie.link.width.current
    uname -r
    stat -f -c '%n is on %T' "${folders[@]}"
} | tee "$out/machine.md"
for part in $parts; do
    case $part in
        link) measure link "$build/link_probe" "${folders[@]}" ;;
        gemm | attention) measure_twice "$part" ;;
        ring | gather) measure "$part" "$build/${part}_probe" ;;
        reference) measure reference python3 tools/gpu_probe/klein_reference.py ;;
        *) failed+=("$part, which is no part") ;;
    esac
done
query clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active | tee -a "$out/machine.md"
[ ${#failed[@]} -eq 0 ] || { echo "build_and_run: failed: ${failed[*]}" >&2; exit 1; }
