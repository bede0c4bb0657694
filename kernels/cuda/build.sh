#!/bin/bash
# Compiles the given *.cu files, or all of them, to ptx/*.ptx with clang-19 alone: for sm_80 if a name ends in _sm80,
# otherwise for sm_70. LIBDEVICE is the path of libdevice.10.bc of CUDA 12.9. Without it, the file comes from PyPI.
# The first line of each result holds the hash of its sources, which a test compares.
set -euo pipefail
cd "$(dirname "$0")"
libdevice_sum=9e84b504f25d26ec775ef91f7122e68dac77fa1f776f1044128f5028356265d8

if [ -z "${LIBDEVICE:-}" ]; then
  cache="${XDG_CACHE_HOME:-$HOME/.cache}/troupe/libdevice-12.9.86"
  LIBDEVICE="$cache/nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc"
  if [ ! -f "$LIBDEVICE" ]; then
    mkdir -p "$cache"
    python3 -m pip download --quiet --no-deps --only-binary=:all: --platform manylinux2014_x86_64 \
      --python-version 3.12 --implementation cp -d "$cache" nvidia-cuda-nvcc-cu12==12.9.86
    (cd "$cache" && python3 -m zipfile -e nvidia_cuda_nvcc_cu12-*.whl .)
  fi
fi
echo "$libdevice_sum  $LIBDEVICE" | sha256sum --check --quiet

# headers prints the headers that the given files include with quotes, directly or indirectly, in order of name.
headers() {
  local all="" new="$*" next
  while [ -n "$new" ]; do
    next=$(sed -n 's/^#include "\(.*\)"$/\1/p' $new | sort -u)
    new=""
    for h in $next; do
      case " $all " in *" $h "*) ;; *) all="$all $h"; new="$new $h" ;; esac
    done
  done
  printf '%s\n' $all | LC_ALL=C sort
}

mkdir -p ptx
[ $# -gt 0 ] || set -- *.cu
for source; do
  name=$(basename "$source" .cu)
  case "$name" in *_sm80) arch=sm_80 version=70 ;; *) arch=sm_70 version=63 ;; esac
  sum=$(cat build.sh "$name.cu" $(headers "$name.cu") | sha256sum | cut -d' ' -f1)
  clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=$arch -nocudainc -nocudalib -std=c++17 \
    -O3 -ffp-contract=fast -fno-exceptions -Wall -Wextra -Werror -Wno-unknown-cuda-version \
    -Wno-unused-function -Wno-unused-parameter \
    -Xclang -target-feature -Xclang +ptx$version -Xclang -mlink-builtin-bitcode -Xclang "$LIBDEVICE" \
    -S -o "ptx/$name.part" "$name.cu"
  { echo "// SHA-256 $sum"; sed -E 's@[[:space:]]*//.*@@; /^$/d' "ptx/$name.part"; } >"ptx/$name.ptx"
  rm "ptx/$name.part"
  echo "ptx/$name.ptx"
done
