// Fibers: stacks that one thread changes between, in a few instructions.
#pragma once
#include <cstddef>

namespace fake {

struct Fiber {
  void *sp;      // where it goes on
  char *stack;   // mapped memory with an inaccessible page below
  size_t offset; // of its end: caches keep few lines of the same place in a page
};

constexpr size_t fiber_stack = 128 << 10;

// make_fiber gives a fiber that calls entry, which never returns, when it is first changed to.
Fiber *make_fiber(void (*entry)());
// restart makes an abandoned fiber call entry anew.
void restart(Fiber *f, void (*entry)());

extern "C" void fake_switch(void **save, void *to);

}  // namespace fake
