// Entry points for allocating and freeing memory.
#include <cstdio>

#include "queue.h"

using namespace fake;

API cuMemGetInfo_v2(size_t *free, size_t *total) {
  return in_context([&](Context &c) {
    size_t used = device_at(c.device)->memory.used();
    *total = card_memory();
    *free = used < *total ? *total - used : 0;
    return SUCCESS;
  });
}

API cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  return in_context([&](Context &c) {
    Arena &m = device_at(c.device)->memory;
    if (!bytes) return INVALID_VALUE;
    uint64_t total = card_memory();
    if (strike("alloc") || bytes > total || m.used() > total - bytes) return OUT_OF_MEMORY;
    *address = m.allocate(bytes, c.handle);
    return *address ? SUCCESS : OUT_OF_MEMORY;
  });
}

// All queued commands of the context run first.
API cuMemFree_v2(uint64_t address) {
  return in_context([&](Context &c) {
    if (!address) return SUCCESS;
    if (CUresult broken = drain(c)) return broken;
    Arena &m = device_at(c.device)->memory;
    if (m.find(address, 1) == address && m.damaged() == address) {
      fprintf(stderr, "fake CUDA: freed memory at %#llx was written to beyond its ends\n", (unsigned long long)address);
      return c.broken = ILLEGAL_ADDRESS;
    }
    return m.free(address) ? SUCCESS : INVALID_VALUE;
  });
}

API cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address) {
  return in_context([&](Context &) {
    for (auto &d : state().devices)
      if (uint64_t b = d->memory.find(address, 1)) {
        if (base) *base = b;
        if (size) *size = d->memory.blocks().at(b).size;
        return SUCCESS;
      }
    return NOT_FOUND;
  });
}

API cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
  return in_context([&](Context &c) {
    if (!bytes || flags > 7) return INVALID_VALUE;
    *p = strike("hostalloc") ? nullptr : (void *)state().host.allocate(bytes, c.handle);
    return *p ? SUCCESS : OUT_OF_MEMORY;
  });
}
API cuMemAllocHost_v2(void **p, size_t bytes) { return cuMemHostAlloc(p, bytes, 0); }

API cuMemFreeHost(void *p) {
  return in_context([&](Context &c) {
    if (CUresult broken = drain(c)) return broken;
    Arena &m = state().host;
    if (m.damaged()) {
      fprintf(stderr, "fake CUDA: pinned memory at %#llx was written to beyond its ends\n", (unsigned long long)m.damaged());
      return c.broken = ILLEGAL_ADDRESS;
    }
    return m.free((uint64_t)p) ? SUCCESS : INVALID_VALUE;
  });
}

API cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags) {
  return in_context([&](Context &c) {
    auto &all = state().registered;
    uint64_t address = (uint64_t)p;
    if (!p || !bytes || flags > 15) return INVALID_VALUE;
    if (strike("hostalloc")) return OUT_OF_MEMORY;
    auto next = all.lower_bound(address);
    bool taken = next != all.end() && next->first < address + bytes;
    if (next != all.begin()) taken |= std::prev(next)->first + std::prev(next)->second.size > address;
    if (taken) return HOST_MEMORY_ALREADY_REGISTERED;
    all[address] = {bytes, c.handle};
    return SUCCESS;
  });
}

API cuMemHostUnregister(void *p) {
  return in_context([&](Context &c) {
    if (CUresult broken = drain(c)) return broken;
    return state().registered.erase((uint64_t)p) ? SUCCESS : HOST_MEMORY_NOT_REGISTERED;
  });
}
