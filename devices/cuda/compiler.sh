#!/bin/sh
# compiler.sh prints the C compiler for cgo: CC, the machine's gcc or clang, or else Zig's, of a wheel on PyPI that is fetched once
# into .cache/zig (420 MB).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
zig=$here/../../.cache/zig
version=0.14.1

fetch() {
    packages=https://files.pythonhosted.org/packages
    case $(uname -m) in
    x86_64) address=9d/ef/494f128ea7ec3345850bbd75d2cb7b987006fb5601c37543e8fa83e5e3d4/ziglang-$version-py3-none-manylinux_2_12_x86_64.manylinux2010_x86_64.musllinux_1_1_x86_64.whl hash=6eb9d4d759b292c83810dbee2e9e8e3fbfbf01d864e6e9811bae711fd74e1c2f ;;
    aarch64) address=94/84/2ca431d4f7984a260b5115a5ab130c1459d0b0ed08c5ae7d4093e52cb4a3/ziglang-$version-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl hash=7994b27f3cbfcedea43f9b7552e38b45857bdf0e9a45065474092dd74e7048cf ;;
    *)
        echo "building with CUDA needs a C compiler: gcc, clang, or the one that CC names" >&2
        exit 1
        ;;
    esac
    mkdir -p "$zig"
    part=$(mktemp -d "$zig/part.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    echo "there is no C compiler: fetching Zig's, version $version" >&2
    (cd "$here" && CGO_ENABLED=0 go run ./wheel "$packages/$address" "$hash" "$part/wheel") >&2
    chmod +x "$part/wheel/ziglang/zig"
    # Who fetches at the same time may be first.
    mv -T "$part/wheel/ziglang" "$zig/$version" 2>/dev/null || test -x "$zig/$version/zig"
}

if [ -n "${CC:-}" ]; then
    echo "$CC"
elif command -v gcc >/dev/null; then
    echo gcc
elif command -v clang >/dev/null; then
    echo clang
else
    test -x "$zig/$version/zig" || fetch
    echo "$(cd "$zig/$version" && pwd)/zig cc"
fi
