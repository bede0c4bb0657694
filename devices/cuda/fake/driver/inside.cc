#include "inside.h"

#include "queue.h"

using namespace fake;

CUresult fakeEnqueue(void *stream, const std::function<CUresult()> &work) {
  return in_context([&](Context &c) {
    CUresult error;
    auto s = stream_of(c, stream, &error);
    return s ? enqueue(c, s, work) : error;
  });
}

bool fakeOnCard(uint64_t address, size_t bytes) {
  std::lock_guard<std::recursive_mutex> held(state().lock);
  for (auto &d : state().devices) if (d->memory.find(address, bytes)) return true;
  return false;
}

int fakeCompute() { return card_compute(); }
