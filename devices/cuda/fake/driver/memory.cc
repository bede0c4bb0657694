#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace fake {
namespace {

constexpr size_t guard = 256;
constexpr size_t grain = 64 << 10;   // at least a page, whatever its size

size_t mapped(size_t bytes) { return (guard + bytes + guard + grain - 1) / grain * grain; }

// filled is a file of 0xff. Mapped repeatedly, it forms a card's memory. Only written pages consume host memory.
constexpr size_t filled_bytes = 4 << 20;
int filled() {
  static int file = [] {
    int f = memfd_create("fake_cuda", MFD_CLOEXEC);
    if (f < 0 || ftruncate(f, filled_bytes)) return -1;
    void *m = mmap(nullptr, filled_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    if (m == MAP_FAILED) return -1;
    memset(m, 0xff, filled_bytes);
    munmap(m, filled_bytes);
    return f;
  }();
  return file;
}

bool map_filled(char *at, size_t bytes) {
  if (bytes < 256 << 10) {
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE)) return false;
    memset(at, 0xff, bytes);
    return true;
  }
  for (size_t done = 0; done < bytes; done += filled_bytes) {
    size_t n = bytes - done < filled_bytes ? bytes - done : filled_bytes;
    if (mmap(at + done, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, filled(), 0) == MAP_FAILED) return false;
  }
  return true;
}

void unmap(char *at, size_t bytes) {
  mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

// guard_word is a signalling NaN in every float type, so arithmetic changes it, and differs from address to address, so copying does, too.
uint16_t guard_word(const char *at) { return 0xff81 + ((uint64_t)at * 0x9e3779b97f4a7c15 >> 59); }

void write_guard(char *at) {
  for (char *end = at + guard; at < end; at += 2) {
    uint16_t w = guard_word(at);
    memcpy(at, &w, 2);
  }
}

bool guard_whole(const char *at) {
  for (const char *end = at + guard; at < end; at += 2) {
    uint16_t w = guard_word(at);
    if (memcmp(at, &w, 2)) return false;
  }
  return true;
}

}  // namespace

uint64_t Arena::allocate(size_t bytes, uint64_t owner) {
  if (!base) {
    void *m = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) return 0;
    base = next = (uint64_t)m;
  }
  if (bytes > reserved || mapped(bytes) + grain > base + reserved - next) return 0;
  char *start = (char *)next;
  if (!map_filled(start, mapped(bytes))) {
    unmap(start, mapped(bytes));
    return 0;
  }
  next += mapped(bytes) + grain;
  write_guard(start);
  write_guard(start + guard + bytes);
  uint64_t address = (uint64_t)start + guard;
  blocks_[address] = {bytes, owner};
  used_ += bytes;
  return address;
}

bool Arena::free(uint64_t address) {
  auto b = blocks_.find(address);
  if (b == blocks_.end()) return false;
  unmap((char *)address - guard, mapped(b->second.size));
  used_ -= b->second.size;
  blocks_.erase(b);
  return true;
}

void Arena::free_all(uint64_t owner) {
  for (auto b = blocks_.begin(); b != blocks_.end();) {
    uint64_t address = b->first;
    bool ours = b->second.owner == owner;
    ++b;
    if (ours) free(address);
  }
}

uint64_t Arena::find(uint64_t address, size_t bytes) const {
  auto b = blocks_.upper_bound(address);
  if (b == blocks_.begin()) return 0;
  --b;
  size_t into = address - b->first;
  return into <= b->second.size && bytes <= b->second.size - into ? b->first : 0;
}

uint64_t Arena::damaged() const {
  for (auto &[address, block] : blocks_)
    if (!guard_whole((char *)address - guard) || !guard_whole((char *)address + block.size)) return address;
  return 0;
}

}  // namespace fake
