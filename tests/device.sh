#!/usr/bin/env bash
# What needs a GPU, against a library that was built elsewhere: no cargo here, but nvcc, gcc, g++ and a device.
#
#   bash tests/device.sh [path/to/librte.so]        (else RTE_LIB, else target/release/librte.so)
#
# Runs the C suites and the example 06_cuda on the real driver, measures, and ends with tables for the README. At most four
# minutes. 0: all that ran passed, or there is no GPU or no nvcc, which the last line says. 1: something failed. 2: no library.
set -u

library=$(realpath "${1:-${RTE_LIB:-$(dirname "$0")/../target/release/librte.so}}")
cd "$(dirname "$0")/.." || exit 2
[ -f "$library" ] || { echo "no library: $library; build it with make lib, or name it"; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$library" "$work/librte.so"
ln -s "$library" "$work/librte.so.0"

limit=230 # seconds, of all steps together
failed=
linked=(-L"$work" -lrte -pthread -lm -ldl "-Wl,-rpath,$work")
strict=(-O1 -g -Wall -Wextra -Wpedantic -Wconversion -D_GNU_SOURCE -Iinclude)

# Runs `step NAME SECONDS COMMAND...`; what it prints is kept in $work/NAME.txt, and shown where it fails.
step() {
    local name=$1 seconds=$2 begin=$SECONDS code=0
    shift 2
    [ $((limit - SECONDS)) -ge "$seconds" ] || seconds=$((limit - SECONDS))
    if [ "$seconds" -le 0 ]; then
        echo "$name: FAILED: the time is over"
        failed="$failed $name"
        return 1
    fi
    timeout -k 5 "$seconds" "$@" >"$work/$name.txt" 2>&1 || code=$?
    if [ "$code" = 0 ]; then
        echo "$name: ok ($((SECONDS - begin)) s)"
        return 0
    fi
    [ "$code" != 124 ] || echo "$name: not over in $seconds s"
    grep -v ': ok$' "$work/$name.txt" | tail -25
    echo "$name: FAILED with $code"
    failed="$failed $name"
    return 1
}

# ---- is there what it takes

command -v gcc >/dev/null || { echo "skipped: there is no gcc"; exit 0; }
gcc -std=c11 -O2 -Wall -Wextra tests/cuda/calls.c -o "$work/calls" -ldl || exit 1
timeout 60 "$work/calls" look >"$work/device.txt" 2>&1
case $? in
    0) ;;
    77) tail -1 "$work/device.txt"; exit 0 ;;
    *) cat "$work/device.txt"; echo "the driver is there, but does not work"; exit 1 ;;
esac
nvcc=${NVCC-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)}
[ -n "$nvcc" ] || { echo "skipped: there is a GPU, but no nvcc"; exit 0; }
device=$(sed -n 's/^device: //p' "$work/device.txt")
driver=$(cat /sys/module/nvidia/version 2>/dev/null || nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -1)
where="$device (${driver:-of unknown version}), $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/nvcc \1/p'), $(date -u +%F)"
echo "on $where"

# ---- the suites, their engines on CUDA lanes: see tests/cuda/on_device.h

suite() { # NAME STANDARD SOURCE SECONDS ARGUMENTS...
    local name=$1 standard=$2 source=$3 seconds=$4
    shift 4
    step "$name-build" 60 gcc -std="$standard" "${strict[@]}" -include tests/cuda/on_device.h "$source" -o "$work/$name" "${linked[@]}" &&
        step "$name" "$seconds" "$work/$name" "$@"
}

for topic in merging lives losses failures; do
    suite "$topic" c99 "tests/c/semantics/$topic.c" 20
done
suite stress c11 tests/c/stress.c 40 100
suite consumers-same c11 tests/c/consumers.c 20 same
for way in four poll wait; do
    suite "consumers-$way" c11 tests/c/consumers.c 20 "$way" 20000
done

# ---- the example

compile() { # SOURCE OBJECT OPTIONS...
    local source=$1 object=$2
    shift 2
    "$nvcc" -std=c++17 -O2 -arch=native "$@" -Iinclude -c "$source" -o "$object" ||
        "$nvcc" -std=c++17 -O2 "$@" -Iinclude -c "$source" -o "$object" # older than `native`
}
build_06() {
    compile examples_c/06_cuda_kernels.cu "$work/kernels.o" || return 1
    compile examples_c/06_cuda.cpp "$work/host.o" -Xcompiler -Wall,-Wextra,-Wpedantic,-Wconversion || return 1
    "$nvcc" "$work/host.o" "$work/kernels.o" -o "$work/06_cuda" -L"$work" -lrte -Xlinker -rpath,"$work"
}
export -f compile build_06
export nvcc work
read -ra arguments <<<"${RTE_06_ARGUMENTS:-}" # other numbers than its own, for a small device
step 06_cuda-build 100 bash -c build_06 && step 06_cuda 90 "$work/06_cuda" "${arguments[@]}"

# ---- what it costs

step calls 30 "$work/calls"
step ticks-build 30 gcc -std=c11 "${strict[@]}" -O2 tests/cuda/ticks.c -o "$work/ticks" "${linked[@]}" && step ticks 60 "$work/ticks"

table() { # NAME HEAD...: the rows that a step printed
    local name=$1
    shift
    [ -f "$work/$name.txt" ] || return 0
    printf '\n'
    printf '%s\n' "$@"
    grep '^|' "$work/$name.txt"
}
rows_of_06() { # EXPRESSION of sed: a line of the example -> rows
    sed -n -E "$1" "$work/06_cuda.txt"
}

# shellcheck disable=SC2016 # the quotes are the table's
printf '\n----\n\nOn %s, by `tests/device.sh`.\n' "$where"
table calls "| call of the driver | median |" "|---|---|"
table ticks "| sessions | tick, asleep for its lanes | tick, spinning | with a chunk each, popped and released | with an ACTION each, too |" "|---|---|---|---|---|"
if [ -f "$work/06_cuda.txt" ]; then
    # shellcheck disable=SC2016
    printf '\n| 16 sessions of `06_cuda` | a tick |\n|---|---|\n'
    rows_of_06 's/^overlap: empty (.*), HOT alone (.*), DEFERRED alone (.*), both (.*) \((.*)\): (.*)$/| nothing to do | \1 |\n| HOT alone | \2 |\n| DEFERRED alone | \3 |\n| both | \4 (\5): \6 of what can overlap |/p'
    printf '\n| between two chunks of 15 bystanders, 10 ms apart | p50 | p99 | max |\n|---|---|---|---|\n'
    rows_of_06 's/^isolation, (.*), (.*): p50 (.*), p99 (.*), max (.*) between chunks$/| \1, \2 | \3 | \4 | \5 |/p'
    printf '\n'
    grep -E '^(isolation.*sat out|ok:)' "$work/06_cuda.txt"
fi
printf '\n'
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
echo "ok: all of it passed in $SECONDS s"
