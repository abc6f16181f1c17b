#!/usr/bin/env bash
# Runs the tests and benchmarks of the CUDA backend on a machine that has a GPU, but not what the build needs.
#
#   tools/gpu_run.sh bundle            here: builds the preset cuda and packs the programs into build/gpu_bundle
#   tools/gpu_run.sh run [COMMAND...]  there, in a copy of this tree that has build/gpu_bundle: runs the programs of the
#                                      test label gpu, then COMMAND, which finds lamina and these programs in its PATH
#
# GPU_TESTS names the test programs to run, as "device_gpu ops_gpu" (unset: all; empty: none). GTEST_FILTER and the like
# work as ever. The bundle holds the shared libraries that a plain machine lacks. The driver and CUDA's own libraries
# (cudart, cuBLASLt, cuDNN) must be there, as Python's nvidia packages or where the loader finds them.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/cuda
bundle=build/gpu_bundle
limit_mib=64  # of the bundle and the tracked files together: what travels in one go

# The shared libraries of the programs named, but CUDA's and those that come with the C++ compiler's runtime.
libraries_of() {
    local theirs='lib(cuda|cudart|cublas|cublasLt|cudnn[a-z_]*|nccl|nvrtc|nvJitLink)\.so'
    local systems='(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s))\.so'
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -Ev "/($theirs|$systems)"
}

# Packs what is named in $2.. as the archive $1, files under their own names.
pack() {
    local archive=$1 folder
    shift
    folder=$(mktemp -d)
    cp -L "$@" "$folder"
    strip --strip-unneeded "$folder"/*
    tar -C "$folder" --sort=name --mtime=@0 --owner=0 --group=0 -c . | xz -T0 -3 >"$archive"
    rm -r "$folder"
}

make_bundle() {
    cmake --preset cuda
    rm -rf "$build/gpu_tests"  # so that only programs of today are in it
    cmake --build --preset cuda --target lamina_cli gpu_tests lamina_cuda_ops_bench
    local programs=("$build/src/cli/lamina" "$build/bench/lamina_cuda_ops_bench" "$build"/gpu_tests/*) libraries manifest
    mapfile -t libraries < <(libraries_of "${programs[@]}")
    manifest=$(ls -lL "${libraries[@]}")
    mkdir -p "$bundle"
    if [ ! -e "$bundle/libraries.tar.xz" ] || [ "$manifest" != "$(cat "$bundle/libraries.txt" 2>/dev/null)" ]; then
        pack "$bundle/libraries.tar.xz" "${libraries[@]}"
        echo "$manifest" >"$bundle/libraries.txt"
    fi
    pack "$bundle/programs.tar.xz" "${programs[@]}"
    git describe --always --dirty >"$bundle/revision.txt"
    local bytes
    bytes=$({ git ls-files -z; printf '%s\0' "$bundle"/*; } | du -cb --files0-from=- | tail -1 | cut -f1)
    echo "gpu_run: $bundle has ${#programs[@]} programs and ${#libraries[@]} libraries;" \
        "with the tracked files $((bytes >> 20)) MiB travel"
    [ "$bytes" -le $((limit_mib << 20)) ] || { echo "gpu_run: that is more than $limit_mib MiB" >&2; exit 1; }
}

run_bundle() {
    [ -e "$bundle/programs.tar.xz" ] || { echo "gpu_run: no $bundle here; make it with 'bundle'" >&2; exit 2; }
    unpacked=$(mktemp -d)
    trap 'rm -rf "$unpacked"' EXIT
    for archive in programs libraries; do
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="data")' \
            "$bundle/$archive.tar.xz" "$unpacked/$archive"
    done
    local packages
    packages=$(python3 -c 'import glob, nvidia; print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))' \
        2>/dev/null || true)
    export LD_LIBRARY_PATH=$unpacked/libraries${packages:+:$packages}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export PATH=$unpacked/programs:$PATH
    export LAMINA_FIXTURES_DIR=$PWD/tests/fixtures LAMINA_MODELS_DIR=$PWD/models
    echo "gpu_run: programs of $(cat "$bundle/revision.txt")"

    local failed=() tests=("$unpacked"/programs/lamina_*_tests) program begin
    if [ -n "${GPU_TESTS+set}" ]; then
        read -ra tests <<<"$GPU_TESTS"
        tests=("${tests[@]/#/lamina_}")
        tests=("${tests[@]/%/_tests}")
    fi
    for program in "${tests[@]}"; do
        begin=$SECONDS
        "${program##*/}" --gtest_brief=1 || failed+=("${program##*/}")
        echo "gpu_run: ${program##*/} took $((SECONDS - begin)) s"
    done
    if [ $# -gt 0 ]; then "$@" || failed+=("$*"); fi
    [ ${#failed[@]} -eq 0 ] || { echo "gpu_run: failed: ${failed[*]}" >&2; exit 1; }
}

case ${1:-} in
    bundle) make_bundle ;;
    run) run_bundle "${@:2}" ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
esac
