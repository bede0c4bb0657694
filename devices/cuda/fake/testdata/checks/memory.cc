// Memory and invalid accesses.
#include "checks.h"

CHECK(new_memory_is_nan) {
  Card card;
  for (size_t n : {1, 1000, 300000, 3000000}) {
    auto all = Buffer<uint32_t>(n).read();
    for (uint32_t v : all) expect(v, 0xffffffff);
  }
  uint32_t *pinned;
  expect(cuMemHostAlloc((void **)&pinned, 4, 0), OK);
  expect(*pinned, 0xffffffff);
}

CHECK(writing_behind_memory_is_a_fault) {
  Card card;
  Buffer<uint32_t> a(10), b(10);
  expect(card.run("write_behind", 1, 1, {a.at, 9}), OK);
  expect(card.run("write_behind", 1, 1, {a.at, 10}), ILLEGAL_ADDRESS);
  expect(cuCtxSynchronize(), ILLEGAL_ADDRESS);
  uint64_t p;
  expect(cuMemAlloc_v2(&p, 4), ILLEGAL_ADDRESS);
}

CHECK(writing_before_memory_is_a_fault) {
  Card card;
  Buffer<uint32_t> a(10);
  expect(card.run("write_behind", 1, 1, {a.at, (uint64_t)-1}), ILLEGAL_ADDRESS);
}

CHECK(arithmetic_on_guards_shows) {
  Card card;
  Buffer<float> a(std::vector<float>(10)), out(10);
  expect(card.run("add_f32", 1, 32, {a.at, a.at, out.at, 11}), ILLEGAL_ADDRESS);
}

CHECK(copying_guards_shows) {
  Card card;
  Buffer<uint32_t> a(10), out(10);
  expect(card.run("copy_u32", 1, 32, {a.at, out.at, 20}), ILLEGAL_ADDRESS);
}

CHECK(wild_accesses_are_faults) {
  Card card;
  Buffer<uint32_t> out(1);
  expect(card.run("read_nowhere", 1, 32, {out.at}), ILLEGAL_ADDRESS);
  expect(cuDevicePrimaryCtxReset_v2(0), OK);
  Card again;
  Buffer<uint32_t> freed(1);
  expect(cuMemFree_v2(freed.at), OK);
  expect(again.run("write_behind", 1, 1, {freed.at, 0}), ILLEGAL_ADDRESS);
}

CHECK(copies_are_checked) {
  Card card;
  Buffer<uint32_t> a(10), b(20);
  std::vector<uint32_t> host(20);
  expect(cuMemcpyHtoD_v2(a.at, host.data(), 44), INVALID_VALUE);
  expect(cuMemcpyDtoH_v2(host.data(), a.at + 4, 40), INVALID_VALUE);
  expect(cuMemcpyDtoDAsync_v2(a.at, b.at, 44, card.stream), INVALID_VALUE);
  expect(cuMemsetD8Async(a.at, 0, 41, card.stream), INVALID_VALUE);
  expect(cuMemcpyHtoD_v2((uint64_t)host.data(), host.data(), 4), INVALID_VALUE);
  expect(cuMemFree_v2(a.at + 4), INVALID_VALUE);
  expect(cuMemFree_v2(a.at), OK);
  expect(cuMemFree_v2(a.at), INVALID_VALUE);
  expect(cuMemcpyDtoH_v2(host.data(), a.at, 4), INVALID_VALUE);
}

CHECK(memory_is_limited) {
  setenv("FAKE_CUDA_MEM", "1000000", 1);
  Card card;
  size_t free, total;
  uint64_t a, b;
  expect(cuMemAlloc_v2(&a, 600000), OK);
  expect(cuMemAlloc_v2(&b, 400001), OUT_OF_MEMORY);
  expect(cuMemGetInfo_v2(&free, &total), OK);
  expect(free, 400000);
  expect(total, 1000000);
  expect(cuMemAlloc_v2(&b, 400000), OK);
  expect(cuMemFree_v2(a), OK);
  expect(cuMemAlloc_v2(&b, 600000), OK);
}

CHECK(a_large_card_costs_nothing) {
  setenv("FAKE_CUDA_MEM", "85899345920", 1);
  Card card;
  uint64_t all;
  expect(cuMemAlloc_v2(&all, 85899345920), OK);
  uint32_t last;
  expect(cuMemcpyDtoH_v2(&last, all + 85899345916, 4), OK);
  expect(last, 0xffffffff);
}

CHECK(pinned_memory_has_guards) {
  Card card;
  char *p;
  expect(cuMemHostAlloc((void **)&p, 10, 0), OK);
  p[10] = 1;
  expect(cuMemFreeHost(p), ILLEGAL_ADDRESS);
}
