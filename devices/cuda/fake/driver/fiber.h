// Fibers: stacks that a thread can switch between in a few instructions.
#pragma once
#include <cstddef>

namespace fake {

struct Fiber {
  void *sp;      // where it resumes
  char *stack;   // mapped memory with an inaccessible page below
  size_t offset; // of its end: caches hold few lines with the same page offset
};

constexpr size_t fiber_stack = 128 << 10;

// make_fiber returns a fiber that calls entry, which never returns, when it is first switched to.
Fiber *make_fiber(void (*entry)());
// restart makes an abandoned fiber call entry again.
void restart(Fiber *f, void (*entry)());

extern "C" void fake_switch(void **save, void *to);

}  // namespace fake
