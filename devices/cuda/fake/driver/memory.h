// Memory of cards and pinned memory of the host.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

namespace fake {

// An Arena allocates blocks of memory and never reuses an address. New memory is filled with 0xff, which is a NaN. Before and after a block
// are guard bytes. The memory around them, and that of freed blocks, is unmapped, so accesses fail.
class Arena {
 public:
  struct Block { size_t size; uint64_t owner; };
  // allocate returns the address of bytes, aligned to 256, or 0.
  uint64_t allocate(size_t bytes, uint64_t owner);
  bool free(uint64_t address);
  void free_all(uint64_t owner);
  // find returns the address of the block that contains [address, address+bytes), or 0.
  uint64_t find(uint64_t address, size_t bytes) const;
  bool contains(uint64_t address) const { return base && address >= base && address - base < reserved; }
  // damaged returns a block whose guard bytes have changed, or 0.
  uint64_t damaged() const;
  size_t used() const { return used_; }
  const std::map<uint64_t, Block> &blocks() const { return blocks_; }

 private:
  static constexpr size_t reserved = 1ull << 38;  // addresses, not memory
  uint64_t base = 0, next = 0;
  size_t used_ = 0;
  std::map<uint64_t, Block> blocks_;
};

}  // namespace fake
