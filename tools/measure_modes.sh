#!/usr/bin/env bash
# Measures ways to run klein 9B's shapes on GPUs, each call in about two minutes:
#
#   tools/gpu_run.sh run bash tools/measure_modes.sh CALL
#
#   one       one GPU, 1024 px: 1, 2, 4 and 8 requests that share each transfer
#   gather    two GPUs, three sizes: replicas that gather, with and without idle ones
#   sequence  two GPUs, three sizes: rank-local replicas, and ranks that divide the tokens
#   shards    two GPUs, three sizes: ranks that divide layers or parameters
#
# The weights are written to memory once and stay for later calls on the machine. Rows go to stderr as they are
# measured, the table to stdout at the end. STEPS and TIME_LIMIT (seconds for a mode and size) override the defaults.
set -euo pipefail

model=/dev/shm/lamina-klein-9b
[ -d "$model" ] || lamina synth --size klein-9b "$model"

measure() {  # DEFAULT_STEPS DEFAULT_LIMIT FLAGS...
    lamina bench "$model" --dlo-host-backing private --steps "${STEPS:-$1}" --time-limit "${TIME_LIMIT:-$2}" "${@:3}"
}

sizes=(--height 512 --height 1024 --height 2048)
two=(--data-parallel-size 2 "${sizes[@]}")
case ${1:-} in
    one) measure 20 8 --height 1024 --modes resident,cobatch ;;
    gather) measure 20 14 "${two[@]}" --modes resident,gather,idle ;;
    sequence) measure 10 5 "${two[@]}" --modes resident,local,sp-resident,sp ;;
    shards) measure 10 5 "${two[@]}" --modes resident,tp-resident,tp,hsdp,hsdp-host ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
esac
