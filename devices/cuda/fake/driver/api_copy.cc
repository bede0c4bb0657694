// Entry points that copy and fill memory.
#include <cstring>

#include "queue.h"

using namespace fake;

namespace {

// on_card reports whether a range is within one block of a card's memory; pinned does so for host memory, of whatever kind.
bool on_card(uint64_t address, size_t bytes) {
  for (auto &d : state().devices) if (d->memory.contains(address)) return d->memory.find(address, bytes);
  return false;
}

bool pinned(uint64_t address, size_t bytes) {
  auto &all = state().registered;
  auto r = all.upper_bound(address);
  if (r != all.begin() && address + bytes <= (--r)->first + r->second.size) return true;
  return state().host.find(address, bytes);
}

// usable reports whether a copy may access a range: memory of a card, pinned memory, or other memory of the process.
bool usable(uint64_t address, size_t bytes) {
  if (state().host.contains(address)) return pinned(address, bytes);
  for (auto &d : state().devices) if (d->memory.contains(address)) return on_card(address, bytes);
  return address;
}

typedef std::shared_ptr<Stream> StreamOf;

CUresult on_stream(const void *handle, const std::function<CUresult(Context &, const StreamOf &)> &work) {
  return in_context([&](Context &c) {
    CUresult error;
    auto s = stream_of(c, handle, &error);
    return s ? work(c, s) : error;
  });
}

// copy queues a copy. If the source is unpinned host memory, it is read now; if the destination is, the copy is done on return: the driver
// has staging buffers for them. A blocking call waits for the stream.
CUresult copy(Context &c, const StreamOf &s, uint64_t to, uint64_t from, size_t bytes, bool block) {
  if (!bytes) return SUCCESS;
  if (!usable(to, bytes) || !usable(from, bytes)) return INVALID_VALUE;
  bool staged = !on_card(from, bytes) && !pinned(from, bytes);
  auto kept = std::make_shared<std::vector<char>>();
  if (staged) kept->assign((char *)from, (char *)from + bytes);
  CUresult r = enqueue(c, s, [=] {
    if (!usable(to, bytes) || (!staged && !usable(from, bytes))) return ILLEGAL_ADDRESS;  // freed in the meantime
    memmove((void *)to, staged ? kept->data() : (void *)from, bytes);
    return SUCCESS;
  });
  if (r) return r;
  bool pageable = !on_card(to, bytes) && !pinned(to, bytes);
  return block || pageable ? reach(c, end_of(s)) : SUCCESS;
}

CUresult copy_on(void *stream, uint64_t to, uint64_t from, size_t bytes, bool block) {
  return on_stream(stream, [&](Context &c, const StreamOf &s) { return copy(c, s, to, from, bytes, block); });
}

CUresult on_cards(bool ok, const std::function<CUresult()> &call) {
  return in_context([&](Context &) { return ok ? call() : INVALID_VALUE; });
}

template <class T> CUresult fill(uint64_t to, T value, size_t n, void *stream) {
  return on_stream(stream, [&](Context &c, const StreamOf &s) {
    if (n > SIZE_MAX / sizeof value || to % sizeof value) return INVALID_VALUE;
    if (!n) return SUCCESS;
    if (!on_card(to, n * sizeof value) && !pinned(to, n * sizeof value)) return INVALID_VALUE;
    return enqueue(c, s, [=] {
      if (!usable(to, n * sizeof value)) return ILLEGAL_ADDRESS;
      if (sizeof value == 1) memset((void *)to, (int)value, n);
      else for (size_t i = 0; i < n; i++) ((T *)to)[i] = value;
      return SUCCESS;
    });
  });
}

bool card_or_none(uint64_t address, size_t bytes) { return !bytes || on_card(address, bytes); }

}  // namespace

API cuMemcpy(uint64_t to, uint64_t from, size_t n) { return copy_on(nullptr, to, from, n, true); }
API cuMemcpyAsync(uint64_t to, uint64_t from, size_t n, void *s) { return copy_on(s, to, from, n, false); }

API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
  return on_cards(card_or_none(to, n), [&] { return copy_on(s, to, (uint64_t)from, n, false); });
}
API cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) {
  return on_cards(card_or_none(to, n), [&] { return copy_on(nullptr, to, (uint64_t)from, n, true); });
}
API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) {
  return on_cards(card_or_none(from, n), [&] { return copy_on(s, (uint64_t)to, from, n, false); });
}
API cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
  return on_cards(card_or_none(from, n), [&] { return copy_on(nullptr, (uint64_t)to, from, n, true); });
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *s) {
  return on_cards(card_or_none(to, n) && card_or_none(from, n), [&] { return copy_on(s, to, from, n, false); });
}
API cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t n) {
  return on_cards(card_or_none(to, n) && card_or_none(from, n), [&] { return copy_on(nullptr, to, from, n, false); });
}

static bool lies_in(void *context, uint64_t address, size_t n, CUresult *error) {
  auto c = find(state().contexts, context, error);
  if (!c) return false;
  *error = INVALID_VALUE;
  return !n || device_at((*c)->device)->memory.find(address, n);
}

API cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t n, void *s) {
  return in_context([&](Context &) {
    CUresult error;
    if (!lies_in(to_context, to, n, &error) || !lies_in(from_context, from, n, &error)) return error;
    return copy_on(s, to, from, n, false);
  });
}
API cuMemcpyPeer(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t n) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, n, nullptr);
}

API cuMemsetD8Async(uint64_t to, unsigned char v, size_t n, void *s) { return fill(to, v, n, s); }
API cuMemsetD16Async(uint64_t to, unsigned short v, size_t n, void *s) { return fill(to, v, n, s); }
API cuMemsetD32Async(uint64_t to, unsigned v, size_t n, void *s) { return fill(to, v, n, s); }
API cuMemsetD8_v2(uint64_t to, unsigned char v, size_t n) { return fill(to, v, n, nullptr); }
API cuMemsetD16_v2(uint64_t to, unsigned short v, size_t n) { return fill(to, v, n, nullptr); }
API cuMemsetD32_v2(uint64_t to, unsigned v, size_t n) { return fill(to, v, n, nullptr); }
