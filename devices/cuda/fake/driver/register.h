// Registration of kernels: the generated source of each .cu file ends with a FAKE_REGISTER for each of
// its kernels.
#pragma once
#include <cstring>
#include <tuple>

#include "grid.h"

namespace fake {

template <auto function> struct Caller;
template <class... A, void (*function)(A...)> struct Caller<function> {
  static_assert(((sizeof(A) % 8 == 0) && ...), "each parameter of a kernel is of 8-byte words");
  static void call(const unsigned char *parameters) {
    std::tuple<A...> args;
    // Braces fix the order of evaluation, and with it where each parameter lies.
    std::apply([&](A &...a) { (void)std::initializer_list<int>{(memcpy((void *)&a, parameters, sizeof a), parameters += sizeof a, 0)...}; }, args);
    std::apply(function, args);
  }
  static std::vector<unsigned> sizes() { return {(unsigned)sizeof(A)...}; }
};

}  // namespace fake

// FAKE_SHARED(file) names the shared variables of a source, which the linker script put together.
#define FAKE_SHARED(file)                                                           \
  extern "C" __attribute__((visibility("hidden"))) char fake_shared_##file##_begin[], fake_shared_##file##_end[]; \
  static char *const fake_shared_begin = fake_shared_##file##_begin, *const fake_shared_end = fake_shared_##file##_end;

#define FAKE_REGISTER(name)                                                                        \
  static const bool fake_registered_##name = (fake::add_kernel({#name, fake::Caller<name>::call,   \
      fake::Caller<name>::sizes(), fake_shared_begin, fake_shared_end}), true);
