// Products of small matrices by a warp, on fragments held by its lanes. The layout is that of the PTX manual's mma.m16n8k8 (tf32),
// mma.m16n8k16 (16-bit) and ldmatrix.
#include <cstdint>

#include "fake_kernel.h"

namespace {

// multiply gathers the matrices a and b from the fragments of 32 lanes and adds their product to the lanes' d. element returns half h of a
// register.
template <int depth, class Element> void multiply(void *of_lane[32], Element element) {
  float a[16][depth], b[depth][8];
  constexpr int packed = depth / 8;  // elements in a register
  for (int lane = 0; lane < 32; lane++) {
    auto m = (const FakeMma *)of_lane[lane];
    int g = lane / 4, t = lane % 4;
    for (int h = 0; h < packed; h++) {
      int k = t * packed + h;
      for (int i = 0; i < 4; i++) a[g + 8 * (i % 2)][k + 4 * packed * (i / 2)] = element(m->a[i], h);
      for (int i = 0; i < 2; i++) b[k + 4 * packed * i][g] = element(m->b[i], h);
    }
  }
  for (int lane = 0; lane < 32; lane++) {
    auto m = (const FakeMma *)of_lane[lane];
    for (int i = 0; i < 4; i++) {
      int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      float sum = m->d[i];
      for (int k = 0; k < depth; k++) sum += a[row][k] * b[k][column];
      m->d[i] = sum;
    }
  }
}

template <bool transposed> void load(void *of_lane[32]) {
  for (int lane = 0; lane < 32; lane++) {
    auto row = ((const FakeLdmatrix *)of_lane[lane])->row;
    if ((uintptr_t)row % 16) fake_fault(FAKE_MISALIGNED, "ldmatrix: lane %d points to %p", lane, row);
  }
  u32 loaded[32][4];
  for (int lane = 0; lane < 32; lane++)
    for (int m = 0; m < 4; m++) {
      u16 pair[2];
      for (int h = 0; h < 2; h++) {
        int row = lane / 4, column = 2 * (lane % 4) + h;
        if (transposed) { int r = row; row = column; column = r; }
        pair[h] = ((const u16 *)((const FakeLdmatrix *)of_lane[8 * m + row])->row)[column];
      }
      loaded[lane][m] = pair[0] | (u32)pair[1] << 16;
    }
  for (int lane = 0; lane < 32; lane++) memcpy(((FakeLdmatrix *)of_lane[lane])->r, loaded[lane], sizeof loaded[lane]);
}

}  // namespace

void fake_mma_tf32(void *of_lane[32]) {
  multiply<8>(of_lane, [](u32 bits, int) { return __builtin_bit_cast(float, bits & ~0x1fffu); });
}
void fake_mma_f16(void *of_lane[32]) {
  multiply<16>(of_lane, [](u32 bits, int h) { return half_value(bits >> 16 * h); });
}
void fake_mma_bf16(void *of_lane[32]) {
  multiply<16>(of_lane, [](u32 bits, int h) { return __builtin_bit_cast(float, bits >> 16 * h << 16); });
}
void fake_ldmatrix(void *of_lane[32]) { load<false>(of_lane); }
void fake_ldmatrix_trans(void *of_lane[32]) { load<true>(of_lane); }
