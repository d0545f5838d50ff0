#!/bin/sh
# Prints what a program needs beside the librte.a of the folder $1, as rustc says of its crates together: -lgcc_s ... -lc
# The last folder: where a build for another target leaves macros.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo 'extern crate rte;' >"$scratch/all.rs"
said=$(${RUSTC:-rustc} --edition 2024 --crate-type staticlib --print native-static-libs --extern "rte=$1/librte.rlib" \
    -L "dependency=$1/deps" -L "dependency=$1" -L "dependency=$1/../../release/deps" \
    -o "$scratch/all.a" "$scratch/all.rs" 2>&1) || { echo "$said" >&2; exit 1; }
libs=$(echo "$said" | sed -n 's/^note: native-static-libs: //p')
[ -n "$libs" ] || { echo "rustc does not say what librte.a needs: $said" >&2; exit 1; }
echo "$libs"
