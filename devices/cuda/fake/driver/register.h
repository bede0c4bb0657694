// Registration of kernels: the generated source of each .cu file ends with a FAKE_REGISTER for each of its kernels.
#pragma once
#include <utility>

#include "grid.h"

namespace fake {

// It depends only on the parameter types: there are many kernels but few signatures.
template <class... A> struct Caller {
  static_assert(((sizeof(A) % 8 == 0) && ...), "each parameter of a kernel is of 8-byte words");
  template <size_t... I> static void call_with(void (*function)(A...), const unsigned char *parameters, std::index_sequence<I...>) {
    constexpr size_t sizes[] = {sizeof(A)..., 0};
    size_t at[sizeof...(A) + 1] = {};
    for (size_t i = 0; i < sizeof...(A); i++) at[i + 1] = at[i] + sizes[i];
    (void)parameters;
    function(*(const A *)(parameters + at[I])...);
  }
  static void call(void (*function)(), const unsigned char *parameters) {
    call_with((void (*)(A...))function, parameters, std::index_sequence_for<A...>{});
  }
};

template <class... A> void add(const char *name, void (*function)(A...), char *shared, char *shared_end) {
  add_kernel({name, (void (*)())function, Caller<A...>::call, {(unsigned)sizeof(A)...}, shared, shared_end});
}

}  // namespace fake

// FAKE_SHARED(file) names the shared variables of a source, which the linker script has placed together.
#define FAKE_SHARED(file)                                                           \
  extern "C" __attribute__((visibility("hidden"))) char fake_shared_##file##_begin[], fake_shared_##file##_end[]; \
  static char *const fake_shared_begin = fake_shared_##file##_begin, *const fake_shared_end = fake_shared_##file##_end;

#define FAKE_REGISTER(name) \
  static const bool fake_registered_##name = (fake::add(#name, name, fake_shared_begin, fake_shared_end), true);
