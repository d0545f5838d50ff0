#!/bin/sh
# Puts the library, built before, where C and C++ look for it, or takes it away again:
#     PREFIX=/usr/local LIBRARY=target/release bindings/install.sh install|uninstall
#
# PREFIX   where it is used from
# LIBDIR   below PREFIX, or absolute: lib
# DESTDIR  before all paths, for who packs it; in no file
# LIBRARY  the folder of librte.so, librte.a and librte.rlib
set -eu
umask 022
task=${1:-}
source=$(cd "$(dirname "$0")/.." && pwd)
PREFIX=$(realpath -ms "${PREFIX:-/usr/local}")
LIBDIR=${LIBDIR:-lib}
case $LIBDIR in /*) ;; *) LIBDIR=$PREFIX/$LIBDIR ;; esac
LIBDIR=$(realpath -ms "$LIBDIR")
DESTDIR=${DESTDIR:-}
LIBRARY=${LIBRARY:-$source/target/release}

version=$(sed -n '/^\[package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' "$source/Cargo.toml")
abi=$(sed -n 's/^#define RTE_ABI_VERSION //p' "$source/include/rte.h")
include=$DESTDIR$PREFIX/include
lib=$DESTDIR$LIBDIR
pkgconfig=$LIBDIR/pkgconfig
cmake=$LIBDIR/cmake/rte
licence=$DESTDIR$PREFIX/share/licenses/rte

# What a program needs beside librte.a, in the order that the linker needs. The compiler knows it of all crates together.
native_libs() {
    if [ -s "$LIBRARY/librte.libs" ]; then
        cat "$LIBRARY/librte.libs"
    else
        "$source/bindings/native_libs.sh" "$LIBRARY"
    fi
}

# Fills a template. $3: where the file is used from.
fill() {
    sed -e "s|@VERSION@|$version|g" -e "s|@ABI@|$abi|g" -e "s|@PREFIX@|$(realpath -ms --relative-to="$3" "$PREFIX")|g" \
        -e "s|@NATIVE_LIBS@|$libs|g" -e "s|@NATIVE_LIST@|$(echo "$libs" | sed -e 's/^-l//' -e 's/ -l/;/g')|g" "$1" >"$2"
    chmod 644 "$2"
}

install_all() {
    for file in librte.so librte.a; do
        [ -e "$LIBRARY/$file" ] || { echo "there is no $LIBRARY/$file: run make lib first" >&2; exit 1; }
    done
    libs=$(native_libs)
    install -d "$include" "$lib" "$DESTDIR$pkgconfig" "$DESTDIR$cmake" "$licence"
    install -m 644 "$source/include/rte.h" "$source/include/rte.hpp" "$include"
    install -m 755 "$LIBRARY/librte.so" "$lib/librte.so.$version"
    ln -sf "librte.so.$version" "$lib/librte.so.$abi"
    ln -sf "librte.so.$abi" "$lib/librte.so"
    install -m 644 "$LIBRARY/librte.a" "$lib"
    fill "$source/bindings/pkg-config/rte.pc.in" "$DESTDIR$pkgconfig/rte.pc" "$pkgconfig"
    for file in rteConfig.cmake rteConfigVersion.cmake; do
        fill "$source/bindings/cmake/$file.in" "$DESTDIR$cmake/$file" "$cmake"
    done
    install -m 644 "$source/LICENSE" "$licence"
}

# Leaves folders that others may use; what was installed of another version is no business of this one.
uninstall_all() {
    rm -f "$include/rte.h" "$include/rte.hpp" "$lib/librte.so" "$lib/librte.so.$abi" "$lib/librte.so.$version" \
        "$lib/librte.a" "$DESTDIR$pkgconfig/rte.pc" "$DESTDIR$cmake/rteConfig.cmake" \
        "$DESTDIR$cmake/rteConfigVersion.cmake" "$licence/LICENSE"
    for folder in "$DESTDIR$cmake" "$licence"; do
        [ ! -d "$folder" ] || rmdir --ignore-fail-on-non-empty "$folder"
    done
}

case $task in
install) install_all ;;
uninstall) uninstall_all ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
