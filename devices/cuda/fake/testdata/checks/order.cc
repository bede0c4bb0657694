// When queued commands run.
#include "checks.h"

static const std::vector<uint32_t> ones(100, 1);

CHECK(nothing_runs_before_it_is_waited_for) {
  Card card;
  Buffer<uint32_t> from(ones), to(100);
  expect(card.launch("copy_u32", 1, 32, {from.at, to.at, 100}), OK);
  expect(to.read()[99], 0xffffffff);
  expect(cuStreamSynchronize(card.stream), OK);
  expect(to.read()[99], 1);
}

CHECK(eager_runs_at_once) {
  setenv("FAKE_CUDA_EAGER", "1", 1);
  Card card;
  Buffer<uint32_t> from(ones), to(100);
  expect(card.launch("copy_u32", 1, 32, {from.at, to.at, 100}), OK);
  expect(to.read()[99], 1);
}

// Two streams: one fills, the other copies what was filled, with and without an event between.
static uint32_t copied(bool with_event) {
  Card card;
  Buffer<uint32_t> filled(100), copy(100);
  void *second = new_stream(), *event = new_event();
  expect(cuMemsetD32Async(filled.at, 5, 100, card.stream), OK);
  expect(cuEventRecord(event, card.stream), OK);
  if (with_event) expect(cuStreamWaitEvent(second, event, 0), OK);
  expect(cuMemcpyDtoDAsync_v2(copy.at, filled.at, 400, second), OK);
  expect(cuStreamSynchronize(second), OK);
  return copy.read()[50];
}
CHECK(an_event_orders_streams) { expect(copied(true), 5); }
CHECK(a_missing_event_shows) { expect(copied(false), 0xffffffff); }

CHECK(an_event_is_what_was_recorded_before_the_wait) {
  Card card;
  Buffer<uint32_t> a(1), b(1);
  void *second = new_stream(), *event = new_event();
  expect(cuMemsetD32Async(a.at, 1, 1, card.stream), OK);
  expect(cuEventRecord(event, card.stream), OK);
  expect(cuStreamWaitEvent(second, event, 0), OK);
  expect(cuMemsetD32Async(a.at, 2, 1, card.stream), OK);
  expect(cuEventRecord(event, card.stream), OK);
  expect(cuMemcpyDtoDAsync_v2(b.at, a.at, 4, second), OK);
  expect(cuStreamSynchronize(second), OK);
  expect(b.read()[0], 1);
  expect(cuEventSynchronize(event), OK);
  expect(a.read()[0], 2);
}

CHECK(a_long_chain_between_streams) {
  Card card;
  Buffer<uint32_t> a(1), b(1);
  void *streams[2] = {card.stream, new_stream()}, *event = new_event();
  uint64_t at[2] = {a.at, b.at};
  expect(cuMemsetD32Async(a.at, 3, 1, card.stream), OK);
  for (int i = 0; i < 3001; i++) {
    expect(cuEventRecord(event, streams[i % 2]), OK);
    expect(cuStreamWaitEvent(streams[(i + 1) % 2], event, 0), OK);
    expect(cuMemcpyDtoDAsync_v2(at[(i + 1) % 2], at[i % 2], 4, streams[(i + 1) % 2]), OK);
  }
  expect(cuStreamSynchronize(streams[1]), OK);
  expect(b.read()[0], 3);
}

CHECK(a_query_runs_one_command) {
  Card card;
  Buffer<uint32_t> a(1);
  void *event = new_event();
  expect(cuEventQuery(event), OK);
  for (int i = 0; i < 3; i++) expect(cuMemsetD32Async(a.at, i, 1, card.stream), OK);
  expect(cuEventRecord(event, card.stream), OK);
  for (unsigned i = 0; i < 3; i++) {
    expect(cuEventQuery(event), NOT_READY);
    expect(a.read()[0], i);
  }
  expect(cuStreamQuery(card.stream), NOT_READY);
  expect(cuEventQuery(event), OK);
  expect(cuStreamQuery(card.stream), OK);
}

CHECK(the_default_stream_orders_blocking_ones) {
  Card card;
  Buffer<uint32_t> a(1);
  void *blocking;
  expect(cuStreamCreate(&blocking, 0), OK);
  expect(cuMemsetD32Async(a.at, 4, 1, blocking), OK);
  expect(a.read()[0], 4);
}

CHECK(pinned_memory_is_read_late_and_other_memory_at_once) {
  Card card;
  Buffer<uint32_t> a(1), b(1);
  uint32_t *pinned, other = 1;
  expect(cuMemHostAlloc((void **)&pinned, 4, 0), OK);
  *pinned = 1;
  expect(cuMemcpyHtoDAsync_v2(a.at, pinned, 4, card.stream), OK);
  expect(cuMemcpyHtoDAsync_v2(b.at, &other, 4, card.stream), OK);
  *pinned = other = 2;
  expect(cuStreamSynchronize(card.stream), OK);
  expect(a.read()[0], 2);
  expect(b.read()[0], 1);
  expect(cuMemcpyDtoHAsync_v2(pinned, b.at, 4, card.stream), OK);
  expect(*pinned, 2);
  expect(cuMemcpyDtoHAsync_v2(&other, b.at, 4, card.stream), OK);
  expect(other, 1);
}

CHECK(freeing_memory_and_ending_streams_runs_what_is_queued) {
  Card card;
  Buffer<uint32_t> a(ones), b(100), c(100);
  expect(cuMemcpyDtoDAsync_v2(b.at, a.at, 400, card.stream), OK);
  expect(cuMemFree_v2(a.at), OK);
  expect(b.read()[99], 1);
  expect(cuMemcpyDtoDAsync_v2(c.at, b.at, 400, card.stream), OK);
  expect(cuStreamDestroy_v2(card.stream), OK);
  expect(cuStreamSynchronize(card.stream), DESTROYED);
  expect(c.read()[99], 0xffffffff);
  expect(cuCtxSynchronize(), OK);
  expect(c.read()[99], 1);
}
