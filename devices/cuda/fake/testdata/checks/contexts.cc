// Devices, contexts, modules, and failures on demand.
#include "checks.h"

#include <thread>

CHECK(calls_need_a_context) {
  uint64_t p;
  int n;
  expect(cuDeviceGetCount(&n), NOT_INITIALIZED);
  expect(cuInit(0), OK);
  expect(cuMemAlloc_v2(&p, 4), INVALID_CONTEXT);
  Card card;
  expect(cuMemAlloc_v2(&p, 4), OK);
  int elsewhere = OK;
  std::thread([&] { elsewhere = cuMemAlloc_v2(&p, 4); }).join();
  expect(elsewhere, INVALID_CONTEXT);
  expect(cuCtxSetCurrent(nullptr), OK);
  expect(cuCtxSynchronize(), INVALID_CONTEXT);
}

CHECK(a_reset_ends_all) {
  Card card;
  void *event = new_event(), *f = card.function("reverse");
  Buffer<uint32_t> a(10);
  expect(card.run("write_behind", 1, 1, {a.at, 10}), ILLEGAL_ADDRESS);
  expect(cuDevicePrimaryCtxReset_v2(0), OK);
  expect(cuCtxSynchronize(), DESTROYED);
  expect(cuDevicePrimaryCtxRelease_v2(0), OK);
  expect(cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
  Card again;
  expect(again.context == card.context, false);
  expect(cuStreamSynchronize(card.stream), DESTROYED);
  expect(cuEventRecord(event, again.stream), DESTROYED);
  expect(cuModuleUnload(card.module), DESTROYED);
  expect(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, again.stream, nullptr, nullptr), DESTROYED);
  expect(cuMemFree_v2(a.at), INVALID_VALUE);
  expect(cuCtxSetCurrent(card.context), DESTROYED);
  Buffer<uint32_t> b(10);
  expect(again.run("write_behind", 1, 1, {b.at, 9}), OK);
}

CHECK(primary_contexts_are_counted) {
  Card card;
  void *same;
  unsigned flags;
  int active;
  expect(cuDevicePrimaryCtxRetain(&same, 0), OK);
  expect(same == card.context, true);
  expect(cuDevicePrimaryCtxRelease_v2(0), OK);
  expect(cuCtxSynchronize(), OK);
  expect(cuDevicePrimaryCtxRelease_v2(0), OK);
  expect(cuDevicePrimaryCtxGetState(0, &flags, &active), OK);
  expect(active, 0);
  expect(cuCtxSynchronize(), DESTROYED);
}

static std::string visible(const char *list) {
  setenv("FAKE_CUDA_DEVICES", "3", 1);
  setenv("CUDA_VISIBLE_DEVICES", list, 1);
  if (int r = cuInit(0)) return std::to_string(r);
  int n;
  std::string all;
  expect(cuDeviceGetCount(&n), OK);
  for (int i = 0; i < n; i++) {
    char id[16];
    expect(cuDeviceGetPCIBusId(id, sizeof id, i), OK);
    all += std::to_string(atoi(id + 5) - 1) + " ";
  }
  return all;
}
CHECK(visible_numbers) { expect(visible("2,0") == "2 0 ", true); }
CHECK(visible_up_to_the_first_that_is_not_there) { expect(visible("1,7,0") == "1 ", true); }
CHECK(visible_uuid) { expect(visible("GPU-fa4ec0da-0000-4000-8000-000000000001") == "1 ", true); }
CHECK(visible_none) { expect(visible("") == "100", true); }
CHECK(visible_minus_one) { expect(visible("-1") == "100", true); }

CHECK(several_cards) {
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  Card first;
  Buffer<uint32_t> a(std::vector<uint32_t>{1, 2, 3});
  size_t before, after, total;
  expect(cuMemGetInfo_v2(&before, &total), OK);
  Card second(1);
  int device;
  expect(cuCtxGetDevice(&device), OK);
  expect(device, 1);
  Buffer<uint32_t> b(3);
  expect(cuMemcpyPeerAsync(b.at, second.context, a.at, first.context, 12, second.stream), OK);
  expect(cuMemcpyPeerAsync(b.at, first.context, a.at, first.context, 12, second.stream), INVALID_VALUE);
  expect(cuStreamSynchronize(second.stream), OK);
  expect(b.read()[2], 3);
  expect(cuStreamSynchronize(first.stream), INVALID_CONTEXT);
  expect(cuCtxSetCurrent(first.context), OK);
  expect(cuMemGetInfo_v2(&after, &total), OK);
  expect(after, before);
}

CHECK(a_fault_of_one_card_is_not_the_others) {
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  Card first;
  Buffer<uint32_t> a(1);
  expect(first.run("write_behind", 1, 1, {a.at, 1}), ILLEGAL_ADDRESS);
  Card second(1);
  Buffer<uint32_t> b(1);
  expect(second.run("write_behind", 1, 1, {b.at, 0}), OK);
}

CHECK(modules_are_checked) {
  Card card;
  void *m, *f;
  expect(cuModuleLoadData(&m, "no PTX"), INVALID_PTX);
  expect(cuModuleLoadData(&m, ".version 7.0\n.target sm_95\n.address_size 64\n"), NO_BINARY);
  expect(cuModuleLoadData(&m, ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry not_compiled() {}\n"), OK);
  expect(cuModuleGetFunction(&f, m, "not_compiled"), NOT_FOUND);
  expect(cuModuleGetFunction(&f, m, "reverse"), NOT_FOUND);
}

CHECK(launches_are_checked) {
  Card card;
  expect(card.launch("at_most_64", 1, 64, {}), OK);
  expect(card.launch("at_most_64", 1, 65, {}), INVALID_VALUE);
  expect(card.launch("two_barriers", 0, 1, {}), INVALID_VALUE);
  expect(card.launch("two_barriers", 1, 1025, {}), INVALID_VALUE);
}

CHECK(failures_on_demand) {
  Card card;
  Buffer<uint32_t> a(2);
  std::vector<uint64_t> arguments = {a.at, 0};
  uint64_t p;
  setenv("FAKE_CUDA_FAIL", "launch:2,alloc:1", 1);
  expect(cuMemAlloc_v2(&p, 4), OUT_OF_MEMORY);
  expect(cuMemAlloc_v2(&p, 4), OK);
  expect(card.run("write_behind", 1, 1, arguments), OK);
  expect(card.launch("write_behind", 1, 1, arguments), OUT_OF_RESOURCES);
  expect(card.run("write_behind", 1, 1, arguments), OK);
  setenv("FAKE_CUDA_FAIL", "fault:2", 1);
  expect(card.run("write_behind", 1, 1, arguments), OK);
  expect(card.launch("write_behind", 1, 1, arguments), OK);
  expect(cuStreamSynchronize(card.stream), ILLEGAL_ADDRESS);
  expect(cuStreamQuery(card.stream), ILLEGAL_ADDRESS);
  setenv("FAKE_CUDA_FAIL", "lost", 1);
  expect(cuDevicePrimaryCtxReset_v2(0), UNKNOWN);
  unsetenv("FAKE_CUDA_FAIL");
  expect(cuDevicePrimaryCtxReset_v2(0), OK);
  expect(Card().run("two_barriers", 1, 32, {}), OK);
}

CHECK(threads_share_a_context) {
  Card card;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      expect(cuCtxSetCurrent(card.context), OK);
      Card mine;
      for (uint32_t round = 0; round < 200; round++) {
        Buffer<uint32_t> a(std::vector<uint32_t>(256, t * 1000 + round)), b(256);
        void *event = new_event();
        expect(mine.launch("copy_u32", 2, 64, {a.at, b.at, 256}), OK);
        expect(cuEventRecord(event, mine.stream), OK);
        expect(cuEventSynchronize(event), OK);
        for (uint32_t v : b.read()) expect(v, t * 1000 + round);
        expect(cuEventDestroy_v2(event), OK);
        expect(cuMemFree_v2(a.at), OK);
        expect(cuMemFree_v2(b.at), OK);
      }
    });
  for (auto &t : threads) t.join();
}

CHECK(errors_have_names) {
  const char *name;
  expect(cuGetErrorName(ILLEGAL_ADDRESS, &name), OK);
  expect(!strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS"), true);
  expect(cuGetErrorName(12345, &name), INVALID_VALUE);
}
