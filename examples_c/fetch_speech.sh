#!/bin/bash
# Fetches what 02_speech needs into assets/ beside this script: the OpenVINO C library, the Silero VAD model and
# recorded speech. Needs python3 with pip, and apt for the recordings; no root: nothing is installed on the machine.
# Everything is there: does nothing. Something cannot be had: one line says what, exit code 77, assets/ is as before.
set -eu

openvino=2026.4.1
silero=6.2.3
stamp="openvino $openvino, silero-vad $silero, layout 1"

cd "$(dirname "$0")"
if [ "$(cat assets/complete 2>/dev/null || true)" = "$stamp" ]; then exit 0; fi

skip() {
    echo "fetch_speech: $1: skipped"
    exit 77
}

[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || skip "no OpenVINO wheel is pinned for $(uname -s) $(uname -m)"
python3 -m pip --version >/dev/null 2>&1 || skip "python3 -m pip is missing"

temp=$(mktemp -d ./assets.XXXXXX) # beside assets/, so that the last step is a rename
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
temp=$(cd "$temp" && pwd)
new=$temp/assets
mkdir -p "$new/openvino/lib" "$new/wav"

# OpenVINO has a wheel per CPython version, but its C library does not care: always take the same one.
wheel() {
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --retries 1 --timeout 20 --dest "$temp/wheels" \
        --only-binary :all: --python-version 3.11 --implementation cp --abi cp311 --abi none --platform manylinux_2_28_x86_64 \
        "$1==$2" >"$temp/log" 2>&1 || skip "the wheel $1 $2 cannot be downloaded"
    python3 -m zipfile -e "$temp"/wheels/"$3"-*.whl "$temp/$3"
}
wheel openvino "$openvino" openvino
wheel silero-vad "$silero" silero_vad

libs=$temp/openvino/openvino/libs
cp -R "$temp/openvino/openvino/include" "$new/openvino/include"
# Without libtbbbind and libhwloc: they only look for NUMA nodes.
for name in openvino openvino_c openvino_onnx_frontend openvino_intel_cpu_plugin tbb tbbmalloc; do
    cp "$libs/lib$name".so* "$new/openvino/lib/"
done
(cd "$new/openvino/lib" && ln -s libopenvino_c.so.* libopenvino_c.so) # the linker's name; programs record the versioned one
cp "$temp"/openvino/*.dist-info/licenses/LICENSE "$new/openvino/LICENSE"
cp "$temp/silero_vad/silero_vad/data/silero_vad_op18_ifless.onnx" "$new/"
cp "$temp"/silero_vad/*.dist-info/licenses/LICENSE "$new/silero_vad.LICENSE"

# Debian's alsa-utils carries recordings of a human voice. The package lists of a fresh machine may be missing or old:
# then with lists of our own.
apt_options="-qq -o Debug::NoLocking=1 -o Dir::Cache=$temp/apt -o APT::Sandbox::User="
mkdir -p "$temp/apt/archives/partial" "$temp/lists/partial" "$temp/debs" "$temp/root"
deb() { (cd "$temp/debs" && apt-get $apt_options download "$1") >"$temp/log" 2>&1; }
if ! deb alsa-utils; then
    apt_options="$apt_options -o Dir::State::Lists=$temp/lists"
    apt-get $apt_options update >"$temp/log" 2>&1 && deb alsa-utils || skip "the Debian package alsa-utils cannot be downloaded"
fi
dpkg-deb -x "$temp"/debs/alsa-utils_*.deb "$temp/root"
cp "$temp"/root/usr/share/sounds/alsa/*.wav "$new/wav/"

# Longer sentences from a speech synthesiser, unpacked with the libraries it wants. They are a plus: without it, go on.
say() { espeak-ng -v "$2" -s "$3" -w "$new/wav/$1.wav" "$4"; }
speak() {
    if ! command -v espeak-ng >/dev/null; then
        apt-get $apt_options -y --no-install-recommends --download-only install espeak-ng || return 1
        for package in "$temp"/apt/archives/*.deb; do dpkg-deb -x "$package" "$temp/root" || return 1; done
        export LD_LIBRARY_PATH
        LD_LIBRARY_PATH=$(find "$temp/root" -name '*.so*' -printf '%h\n' | sort -u | paste -s -d :)
        export ESPEAK_DATA_PATH
        ESPEAK_DATA_PATH=$(find "$temp/root" -name phontab -printf '%h\n' | head -n 1)
        PATH=$temp/root/usr/bin:$PATH
    fi
    say sentence_1 en-us 150 "The engine decides which sessions are in which batch, orders the lanes, and keeps time." &&
        say sentence_2 en-gb 165 "Please hold the line. Somebody from the second floor will be with you in about four minutes." &&
        say sentence_3 de 150 "Guten Morgen. Der Zug nach Leipzig fährt heute von Gleis sieben ab." &&
        say sentence_4 es 160 "Buenas tardes. Quisiera reservar una mesa para cuatro personas, mañana a las nueve."
}
if ! (speak) >"$temp/log" 2>&1; then
    rm -f "$new"/wav/sentence_*.wav
    echo "fetch_speech: no espeak-ng: only the recordings of alsa-utils"
fi

echo "$stamp" >"$new/complete"
rm -rf assets
mv -T "$new" assets
echo "fetch_speech: assets are complete"
