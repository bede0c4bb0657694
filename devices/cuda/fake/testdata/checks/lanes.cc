// Threads, barriers, lanes and matrices.
#include "checks.h"

#include <cmath>

CHECK(each_thread_runs_once) {
  Card card;
  Buffer<uint32_t> count(std::vector<uint32_t>(2 * 3 * 4 * 5 * 6 * 7));
  void *parameters[] = {&count.at};
  expect(cuLaunchKernel(card.function("indices"), 2, 3, 4, 5, 6, 7, 0, card.stream, parameters, nullptr), OK);
  expect(cuStreamSynchronize(card.stream), OK);
  for (uint32_t n : count.read()) expect(n, 1);
}

CHECK(parameters_arrive) {
  Card card;
  Buffer<uint64_t> out(4);
  double second = 2.5, x = -1.25;
  uint64_t words[2];
  memcpy(&words[0], &second, 8);
  memcpy(&words[1], &x, 8);
  std::vector<uint64_t> want = {7, words[0], words[1], (uint64_t)-3};
  expect(card.run("parameters", 1, 1, {out.at, 7, words[0], words[1], (uint64_t)-3}), OK);
  expect(out.read() == want, true);
  struct { uint64_t first; double second; } pair = {7, second};
  int64_t y = -3;
  void *each[] = {&out.at, &pair, &x, &y};
  expect(cuMemsetD8Async(out.at, 0, 32, card.stream), OK);
  expect(cuLaunchKernel(card.function("parameters"), 1, 1, 1, 1, 1, 1, 0, card.stream, each, nullptr), OK);
  expect(cuStreamSynchronize(card.stream), OK);
  expect(out.read() == want, true);
  expect(card.launch("parameters", 1, 1, {out.at, 7, 0, 0}), INVALID_VALUE);
}

static std::vector<uint32_t> count_to(uint32_t n) {
  std::vector<uint32_t> v(n);
  for (uint32_t i = 0; i < n; i++) v[i] = i;
  return v;
}

CHECK(barriers) {
  Card card;
  Buffer<uint32_t> p(count_to(256));
  for (int round = 0; round < 4; round++) expect(card.run("reverse", 1, 256, {p.at}), OK);
  expect(p.read() == count_to(256), true);
  expect(card.run("reverse", 1, 256, {p.at}), OK);
  expect(p.read()[0], 255);
  expect(card.run("barrier_after_return", 1, 64, {p.at}), OK);
  expect(p.read()[39], 39);
  std::vector<float> in(1024);
  for (int i = 0; i < 1024; i++) in[i] = i;
  Buffer<float> from(in), sums(4);
  expect(card.run("sum_by_tree", 4, 256, {from.at, sums.at}), OK);
  for (int b = 0; b < 4; b++) expect(sums.read()[b], 255 * 128 + 256 * 256 * b);
}

CHECK(a_missing_barrier_shows) {
  Card card;
  for (int round = 0; round < 2; round++) {
    Buffer<uint32_t> p(count_to(256));
    expect(card.run("reverse_without_barrier", 1, 256, {p.at}), OK);
    bool right = true;
    auto all = p.read();
    for (uint32_t i = 0; i < 256; i++) right &= all[i] == 255 - i;
    expect(right, false);
  }
}

CHECK(two_barriers_are_a_fault) {
  Card card;
  expect(card.run("two_barriers", 1, 64, {}), LAUNCH_FAILED);
}

CHECK(shared_memory_is_new_in_each_block) {
  Card card;
  Buffer<float> out(3);
  expect(card.run("stale_shared", 3, 1, {out.at}), OK);
  for (float f : out.read()) expect(std::isnan(f), true);
}

CHECK(dynamic_shared_memory) {
  Card card;
  Buffer<uint32_t> p(count_to(12000));
  expect(card.run("dynamic_reverse", 1, 64, {p.at, 12000}, 48000), OK);
  expect(p.read()[0], 11999);
  expect(card.launch("dynamic_reverse", 1, 64, {p.at, 20000}, 80000), INVALID_VALUE);
  expect(cuFuncSetAttribute(card.function("dynamic_reverse"), 8, 80000), OK);
  expect(card.launch("dynamic_reverse", 1, 64, {p.at, 12000}, 80000), OK);
  expect(card.run("dynamic_beyond", 1, 1, {99}, 400), OK);
  expect(card.run("dynamic_beyond", 1, 1, {100}, 400), ILLEGAL_ADDRESS);
}

CHECK(lanes_exchange) {
  Card card;
  Buffer<uint32_t> out(64 * 8);
  Buffer<double> sums(64);
  expect(card.run("shuffles", 1, 64, {out.at, sums.at}), OK);
  auto o = out.read();
  for (uint32_t t = 0; t < 64; t++) {
    uint32_t lane = t % 32, first = t - lane, *got = &o[8 * t];
    expect(got[0], first + 5);
    expect(got[1], lane < 3 ? t : t - 3);
    expect(got[2], lane > 28 ? t : t + 3);
    expect(got[3], first + (lane ^ 17));
    expect(got[4], 0x49249249);
    expect(got[5], t >= 32);
    expect(got[6], t < 32);
    expect(sums.read()[t], 31 * 16 + 32 * first);
  }
}

CHECK(lanes_that_do_not_come_are_a_fault) {
  for (auto [name, block] : {std::pair{"shuffle_after_return", 32}, {"shuffle_of_some", 32}, {"shuffles", 48}}) {
    Card card;
    Buffer<uint32_t> out(64 * 8);
    Buffer<double> sums(64);
    std::vector<uint64_t> arguments = {out.at};
    if (block == 48) arguments.push_back(sums.at);
    expect(card.run(name, 1, block, arguments), LAUNCH_FAILED);
    expect(cuDevicePrimaryCtxReset_v2(0), OK);
  }
}

CHECK(matrix_products) {
  Card card;
  for (auto [name, depth] : {std::pair{"product_tf32", 8}, {"product_f16", 16}, {"product_bf16", 16}, {"product_ldmatrix", 16}}) {
    std::vector<float> a(16 * depth), b(depth * 8), d(16 * 8);
    for (size_t i = 0; i < a.size(); i++) a[i] = (int)(i * 7 % 31) - 15;
    for (size_t i = 0; i < b.size(); i++) b[i] = (int)(i * 5 % 23) - 11;
    for (size_t i = 0; i < d.size(); i++) d[i] = i;
    Buffer<float> ga(a), gb(b), gd(d);
    expect(card.run(name, 1, 32, {ga.at, gb.at, gd.at}), OK);
    auto got = gd.read();
    for (int i = 0; i < 16; i++)
      for (int j = 0; j < 8; j++) {
        float want = d[i * 8 + j];
        for (int k = 0; k < depth; k++) want += a[i * depth + k] * b[k * 8 + j];
        expect(got[i * 8 + j], want);
      }
  }
}

CHECK(asynchronous_copies_happen_when_they_are_waited_for) {
  Card card;
  Buffer<uint32_t> from(count_to(128)), early(32), late(32);
  expect(card.run("copies", 1, 32, {from.at, early.at, late.at}), OK);
  for (uint32_t i = 0; i < 32; i++) {
    expect(early.read()[i], 7);
    expect(late.read()[i], i % 2 ? 0 : 4 * i);
  }
}

CHECK(halves_round_to_even) {
  struct { float in; uint64_t half, bfloat; float back; } rows[] = {
      {1, 0x3c00, 0x3f80, 1}, {-2.5f, 0xc100, 0xc020, -2.5f}, {65504, 0x7bff, 0x4780, 65504}, {65519, 0x7bff, 0x4780, 65504},
      {65520, 0x7c00, 0x4780, INFINITY}, {-INFINITY, 0xfc00, 0xff80, -INFINITY}, {0x1p-24f, 1, 0x3380, 0x1p-24f},
      {0x1p-25f, 0, 0x3300, 0}, {0x1.8p-24f, 2, 0x33c0, 0x1p-23f}, {0x1p-14f, 0x400, 0x3880, 0x1p-14f},
      {1 + 0x1p-11f, 0x3c00, 0x3f80, 1}, {1 + 0x3p-11f, 0x3c02, 0x3f80, 1 + 0x1p-9f}, {-0.f, 0x8000, 0x8000, -0.f},
      {1 + 0x1p-8f, 0x3c04, 0x3f80, 1 + 0x1p-8f}, {1 + 0x3p-8f, 0x3c0c, 0x3f82, 1 + 0x3p-8f}};
  constexpr size_t n = sizeof rows / sizeof rows[0];
  std::vector<float> in;
  for (auto &r : rows) in.push_back(r.in);
  Card card;
  Buffer<float> from(in), back(n);
  Buffer<uint64_t> half(n), bfloat(n);
  expect(card.run("halves", 1, 32, {from.at, half.at, bfloat.at, back.at, n}), OK);
  for (size_t i = 0; i < n; i++) {
    expect(half.read()[i], rows[i].half);
    expect(bfloat.read()[i], rows[i].bfloat);
    expect(back.read()[i], rows[i].back);
  }
}

CHECK(atomics) {
  Card card;
  Buffer<uint32_t> u(std::vector<uint32_t>(2));
  Buffer<float> f(std::vector<float>(1));
  Buffer<uint16_t> h(std::vector<uint16_t>(2));
  Buffer<uint64_t> w(std::vector<uint64_t>(1));
  expect(card.run("atomics", 1, 20, {u.at, f.at, h.at, w.at}), OK);
  expect(u.read()[0], 40);
  expect(u.read()[1], 19);
  expect(f.read()[0], 10);
  expect(h.read()[1], 0x4900);  // 10
  uint64_t want = 0;
  for (int i = 0; i < 20; i++) want = want * 3 + 1;
  expect(w.read()[0], want);
}
