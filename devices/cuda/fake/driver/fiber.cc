#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// fake_switch saves the callee-saved registers on its own stack.
#if defined(__x86_64__)
asm(R"(
.text
.globl fake_switch
.hidden fake_switch
.type fake_switch, @function
fake_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fake_switch, .-fake_switch
)");
constexpr int kept = 6, entry_slot = 6;  // in words
#elif defined(__aarch64__)
asm(R"(
.text
.globl fake_switch
.hidden fake_switch
.type fake_switch, %function
fake_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size fake_switch, .-fake_switch
)");
constexpr int kept = 20, entry_slot = 11;
#else
#error "fibers are written for amd64 and arm64"
#endif

namespace fake {

void restart(Fiber *f, void (*entry)()) {
  // The words above the saved registers are padding and the return address that ret takes on amd64. The latter is at a multiple of 16, so
  // entry finds the stack aligned as after a call.
  uintptr_t *words = (uintptr_t *)(f->stack + fiber_stack - 16 - f->offset) - kept;
  memset(words, 0, (kept + 2) * sizeof *words);
  words[entry_slot] = (uintptr_t)entry;
  f->sp = words;
}

Fiber *make_fiber(void (*entry)()) {
  constexpr size_t guard = 64 << 10;  // at least a page, whatever its size
  char *m = (char *)mmap(nullptr, guard + fiber_stack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED || mprotect(m + guard, fiber_stack, PROT_READ | PROT_WRITE)) {
    perror("fake CUDA: a stack for a kernel's thread");
    abort();
  }
  static unsigned made;
  Fiber *f = new Fiber{nullptr, m + guard, made++ * 192 % 8192};
  restart(f, entry);
  return f;
}

}  // namespace fake
