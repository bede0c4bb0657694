#include "checks.h"

#include <fstream>
#include <sstream>

std::vector<Check> &checks() {
  static std::vector<Check> all;
  return all;
}

void expect_(const char *what, double got, double want, const char *file, int line) {
  if (got == want) return;
  printf("%s:%d: %s is %.17g, not %.17g\n", file, line, what, got, want);
  exit(1);
}

std::string ptx() {
  std::ifstream f("testdata/kernels/ptx/checks.ptx");
  std::stringstream text;
  text << f.rdbuf();
  return text.str();
}

Card::Card(int device) {
  expect(cuInit(0), OK);
  expect(cuDevicePrimaryCtxRetain(&context, device), OK);
  expect(cuCtxSetCurrent(context), OK);
  expect(cuModuleLoadData(&module, ptx().c_str()), OK);
  stream = new_stream();
}

void *Card::function(const char *name) const {
  void *f;
  expect(cuModuleGetFunction(&f, module, name), OK);
  return f;
}

int Card::launch(const char *name, unsigned grid, unsigned block, std::vector<uint64_t> arguments, unsigned shared) const {
  size_t size = arguments.size() * sizeof arguments[0];
  void *extra[] = {(void *)1, arguments.data(), (void *)2, &size, nullptr};
  return cuLaunchKernel(function(name), grid, 1, 1, block, 1, 1, shared, stream, nullptr, extra);
}

int Card::run(const char *name, unsigned grid, unsigned block, std::vector<uint64_t> arguments, unsigned shared) const {
  expect(launch(name, grid, block, arguments, shared), OK);
  return cuStreamSynchronize(stream);
}

void *new_stream() {
  void *s;
  expect(cuStreamCreate(&s, 1), OK);
  return s;
}

void *new_event() {
  void *e;
  expect(cuEventCreate(&e, 2), OK);
  return e;
}

// Without an argument it prints the names of all checks.
int main(int argc, char **argv) {
  for (const Check &c : checks()) {
    if (argc < 2) puts(c.name);
    else if (!strcmp(argv[1], c.name)) return c.run(), 0;
  }
  return argc > 1;
}
