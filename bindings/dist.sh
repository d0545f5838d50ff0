#!/bin/sh
# Packs the library, built before, with all that C and C++ need of it: DIST/rte-VERSION-TARGET.tar.gz. The same library
# gives the same bytes.
#
# LIBRARY  the folder of librte.so, librte.a and librte.rlib
# DIST     where the tarball goes
# TARGET   what it is for: x86_64-linux-gnu
# GLIBC    the oldest glibc that it must run with; fails where it does not
set -eu
umask 022
export LC_ALL=C
source=$(cd "$(dirname "$0")/.." && pwd)
LIBRARY=${LIBRARY:-$source/target/release}
DIST=${DIST:-$source/target/dist}
TARGET=${TARGET:-$(uname -m)-linux-gnu}
epoch=${SOURCE_DATE_EPOCH:-315532800} # 1980, the oldest that all archivers know

version=$(sed -n '/^\[package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' "$source/Cargo.toml")
name=rte-$version-$TARGET
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/$name

PREFIX=/ LIBDIR=lib DESTDIR=$tree LIBRARY=$LIBRARY "$source/bindings/install.sh" install
strip --strip-debug "$tree/lib/librte.so.$version"
strip --strip-debug --enable-deterministic-archives "$tree/lib/librte.a"

# What the library asks of glibc, newest last.
floor=$(readelf --version-info --wide "$tree/lib/librte.so" | grep -o 'GLIBC_[0-9][0-9.]*' | sort -Vu | tail -n 1)
floor=${floor#GLIBC_}
[ -n "$floor" ] || { echo "readelf names no version of glibc" >&2; exit 1; }
if [ -n "${GLIBC:-}" ] && [ "$(printf '%s\n' "$floor" "$GLIBC" | sort -V | tail -n 1)" != "$GLIBC" ]; then
    echo "librte.so asks for glibc $floor, newer than $GLIBC" >&2
    exit 1
fi

# With an unwinder of its own an exception of the host's that gets here is not understood, and crashes it.
readelf --dynamic --wide "$tree/lib/librte.so" | grep -q 'NEEDED.*\[libgcc_s\.so\.1\]' ||
    { echo "librte.so does not take libgcc_s for its unwinder" >&2; exit 1; }

mkdir -p "$tree/examples" "$tree/share/doc/rte"
(cd "$source/examples_c" && cp [0-9][0-9]_* CMakeLists.txt Makefile timeline.py fetch_speech.sh "$tree/examples")
install -m 644 "$source/README.md" "$source/CHANGELOG.md" "$tree/share/doc/rte"
sed -e "s|@VERSION@|$version|g" -e "s|@MINOR@|${version%.*}|g" -e "s|@TARGET@|$TARGET|g" -e "s|@FLOOR@|$floor|g" \
    "$source/bindings/dist/README.md.in" >"$tree/README.md"

mkdir -p "$DIST"
tar --create --directory "$stage" --sort=name --format=gnu --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
    --mode=u+rwX,go+rX,go-w "$name" | gzip -n >"$stage/packed"
mv "$stage/packed" "$DIST/$name.tar.gz"
echo "$DIST/$name.tar.gz: glibc $floor or newer"
