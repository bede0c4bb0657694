// Kernels and how a grid of their threads runs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fake {

// A kernel compiled into this library.
struct Kernel {
  const char *name;
  void (*function)();
  // call calls the function with packed parameters, for the thread that the index variables describe.
  void (*call)(void (*function)(), const unsigned char *parameters);
  std::vector<unsigned> sizes;  // of its parameters, in bytes
  char *shared, *shared_end;    // the shared variables of its source
};

void add_kernel(const Kernel &k);
const Kernel *find_kernel(const std::string &name);

struct Size3 { unsigned x, y, z; };

constexpr unsigned max_shared = 227 << 10;  // maximum bytes of dynamic shared memory of a block

// run_grid runs all blocks in turn and returns 0, or the error that ended them. Only one may run at a time.
int run_grid(const Kernel &k, Size3 grid, Size3 block, unsigned shared, const unsigned char *parameters);

}  // namespace fake
