#!/bin/sh
# What the tests need beyond cargo, gcc, g++, make and python3: valgrind, cmake, pkg-config, clang, clang-tidy, binutils,
# doxygen. Installs what is missing.
set -eu

missing=
for tool in valgrind cmake pkg-config clang clang-tidy nm readelf doxygen; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
[ -n "$missing" ] || exit 0

packages=$(echo "$missing" | tr ' ' '\n' | sed -e 's/^nm$/binutils/' -e 's/^readelf$/binutils/' | sort -u | tr '\n' ' ')
become=
[ "$(id -u)" = 0 ] || become=sudo
command -v apt-get >/dev/null 2>&1 || { echo "please install:$missing"; exit 1; }
DEBIAN_FRONTEND=noninteractive $become apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $become apt-get install -y -qq $packages >/dev/null
