#!/bin/sh
# headers.sh prints the CGO_CFLAGS with which `go build -tags cuda` finds CUDA's headers (12 or 13): those of CUDA_HOME, of
# /usr/local/cuda, or else of NVIDIA's wheel on PyPI, which pip, or without it a program in Go, fetches once into .cache/cuda. Only headers
# are needed to build: the driver is loaded when the program runs.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=$here/../../.cache/cuda
wheel='nvidia-cuda-runtime-cu12==12.9.79'
address=https://files.pythonhosted.org/packages/bc/46/a92db19b8309581092a3add7e6fceb4c301a3fd233969856a8cbf042cd3c/nvidia_cuda_runtime_cu12-12.9.79-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
hash='25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3'

fetch() {
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/part.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    echo "fetching CUDA's headers: $wheel" >&2
    # The headers are the same for all machines, so one wheel will do; one with another hash is refused.
    if python3 -m pip --version >/dev/null 2>&1; then
        echo "$wheel --hash=sha256:$hash" >"$part/requirements.txt"
        python3 -m pip download --quiet --no-deps --only-binary=:all: --platform manylinux2014_x86_64 --python-version 3.12 \
            --implementation cp --require-hashes -r "$part/requirements.txt" -d "$part" >&2 &&
            python3 -m zipfile -e "$part"/*.whl "$part/wheel" >&2
    else
        (cd "$here" && CGO_ENABLED=0 go run ./wheel "$address" "$hash" "$part/wheel") >&2
    fi || {
        echo "CUDA's headers are neither in CUDA_HOME nor in /usr/local/cuda, and could not be fetched" >&2
        exit 1
    }
    # Who fetches at the same time may be first.
    mv -T "$part/wheel/nvidia/cuda_runtime/include" "$cache/include" 2>/dev/null || test -f "$cache/include/cuda.h"
}

if [ -n "${CUDA_HOME:-}" ]; then
    include=$CUDA_HOME/include
    test -f "$include/cuda.h" || {
        echo "CUDA_HOME=$CUDA_HOME has no include/cuda.h" >&2
        exit 1
    }
elif [ -f /usr/local/cuda/include/cuda.h ]; then
    include=/usr/local/cuda/include
else
    test -f "$cache/include/cuda.h" || fetch
    include=$(cd "$cache/include" && pwd)
fi
# headers13 comes first: it restores the names that CUDA 13 took from cu. -w: warnings about cu's code are of no use here.
echo "-O2 -w '-I$here/headers13' '-I$include'"
