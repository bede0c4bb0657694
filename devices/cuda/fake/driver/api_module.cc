// Entry points about modules, and launches.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "queue.h"

using namespace fake;

namespace {

// load parses the parts of PTX that a launch needs: the target card and the entries, each with its maximum number of threads per block.
CUresult load(Context &c, Handle *module, const char *image) {
  std::string text = std::string("\n") + image;
  size_t version = text.find("\n.version "), target = text.find("\n.target sm_"), body = text.find("\n.address_size 64");
  if (version > target || target > body || body == std::string::npos) return INVALID_PTX;
  if (atoi(text.c_str() + target + strlen("\n.target sm_")) > card_compute()) return NO_BINARY_FOR_GPU;

  State &s = state();
  Handle handle = s.next_handle();
  Module loaded{c.handle, {}};
  for (size_t at = text.find(".entry "); at != std::string::npos; at = text.find(".entry ", at)) {
    at += strlen(".entry ");
    std::string name = text.substr(at, text.find_first_of("( \n", at) - at);
    size_t open = text.find('{', at), limit = text.find(".maxntid", at);
    unsigned most = 1024;
    if (limit < open) {
      unsigned x = 1, y = 1, z = 1;
      sscanf(text.c_str() + limit, ".maxntid %u, %u, %u", &x, &y, &z);
      most = x * y * z;
    }
    Handle f = s.next_handle();
    s.functions[f] = {handle, find_kernel(name), most};
    loaded.functions[name] = f;
  }
  s.modules[handle] = loaded;
  *module = handle;
  return SUCCESS;
}

// parameters packs a launch's parameters into one buffer, however they were passed.
CUresult parameters(const Kernel &k, void **each, void **extra, std::vector<unsigned char> *packed) {
  if (each && extra) return INVALID_VALUE;
  if (each || !extra) {
    for (size_t i = 0; i < k.sizes.size(); i++) {
      if (!each || !each[i]) return INVALID_VALUE;
      packed->insert(packed->end(), (unsigned char *)each[i], (unsigned char *)each[i] + k.sizes[i]);
    }
    return SUCCESS;
  }
  enum { end, pointer, size };
  const unsigned char *buffer = nullptr;
  size_t bytes = 0, want = 0;
  for (; (uintptr_t)*extra != end; extra += 2) {
    if ((uintptr_t)*extra == pointer) buffer = (const unsigned char *)extra[1];
    else if ((uintptr_t)*extra == size) bytes = *(size_t *)extra[1];
    else return INVALID_VALUE;
  }
  for (unsigned n : k.sizes) want += n;
  if (bytes != want || (bytes && !buffer)) {
    fprintf(stderr, "fake CUDA: %s: a launch with %zu bytes of parameters, not %zu\n", k.name, bytes, want);
    return INVALID_VALUE;
  }
  packed->assign(buffer, buffer + bytes);
  return SUCCESS;
}

CUresult check(const Function &f, Size3 grid, Size3 block, unsigned shared) {
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) return INVALID_VALUE;
  if (!block.x || !block.y || !block.z || block.x > 1024 || block.y > 1024 || block.z > 64) return INVALID_VALUE;
  unsigned threads = block.x * block.y * block.z;
  if (threads > 1024 || shared > f.most_shared) return INVALID_VALUE;
  return threads > f.most_threads ? INVALID_VALUE : SUCCESS;
}

CUresult run(const Arena &memory, const Kernel &k, Size3 grid, Size3 block, unsigned shared, const std::vector<unsigned char> &args) {
  if (strike("fault")) return ILLEGAL_ADDRESS;
  if (int fault = run_grid(k, grid, block, shared, args.data())) return (CUresult)fault;
  uint64_t at = memory.damaged();
  if (!at) return SUCCESS;
  fprintf(stderr, "fake CUDA: %s wrote beyond the ends of the %zu bytes at %#llx\n", k.name, memory.blocks().at(at).size,
          (unsigned long long)at);
  return ILLEGAL_ADDRESS;
}

CUresult on_function(const void *handle, const std::function<CUresult(Context &, Function &)> &work) {
  return in_context([&](Context &c) {
    CUresult error;
    auto f = find(state().functions, handle, &error);
    return f ? work(c, *f) : error;
  });
}

enum { attribute_threads, attribute_shared, attribute_registers = 4, attribute_dynamic_shared = 8 };

}  // namespace

API cuModuleLoadData(Handle *module, const char *image) {
  return in_context([&](Context &c) { return image ? load(c, module, image) : INVALID_VALUE; });
}

// The error log is the only option that has an effect here.
API cuModuleLoadDataEx(Handle *module, const char *image, unsigned count, int *options, void **values) {
  CUresult r = cuModuleLoadData(module, image);
  enum { error_log = 5, error_log_size = 6 };
  char *log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == error_log) log = (char *)values[i];
    if (options[i] == error_log_size) size = (uintptr_t)values[i];
  }
  if (log && size) snprintf(log, size, "%s", r == INVALID_PTX ? "ptxas fatal   : no .version, .target and .address_size" : "");
  return r;
}

API cuModuleUnload(void *module) {
  return in_context([&](Context &c) {
    CUresult error;
    auto m = find(state().modules, module, &error);
    if (!m) return error;
    drain(c);
    for (auto &[name, f] : m->functions) state().functions.erase(f);
    state().modules.erase((Handle)module);
    return c.broken;
  });
}

API cuModuleGetFunction(Handle *function, void *module, const char *name) {
  return in_context([&](Context &) {
    CUresult error;
    auto m = find(state().modules, module, &error);
    if (!m) return error;
    auto f = m->functions.find(name);
    if (f == m->functions.end()) return NOT_FOUND;
    if (!state().functions[f->second].kernel) {
      fprintf(stderr, "fake CUDA: the PTX has a kernel %s that this library was built without\n", name);
      return NOT_FOUND;
    }
    *function = f->second;
    return SUCCESS;
  });
}

API cuFuncGetAttribute(int *value, int which, void *function) {
  return on_function(function, [&](Context &, Function &f) {
    switch (which) {
      case attribute_threads: *value = f.most_threads; break;
      case attribute_shared: *value = 0; break;
      case attribute_registers: *value = 32; break;
      case attribute_dynamic_shared: *value = f.most_shared; break;
      default: *value = 0;
    }
    return SUCCESS;
  });
}

API cuFuncSetAttribute(void *function, int which, int value) {
  return on_function(function, [&](Context &, Function &f) {
    if (which != attribute_dynamic_shared || value < 0 || (unsigned)value > max_shared) return INVALID_VALUE;
    f.most_shared = value;
    return SUCCESS;
  });
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t) {
  return on_function(function, [&](Context &, Function &) {
    if (threads <= 0 || threads > 1024) return INVALID_VALUE;
    *blocks = 2048 / threads;
    return SUCCESS;
  });
}

API cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **each, void **extra) {
  return on_function(function, [&](Context &c, Function &f) {
    CUresult error;
    auto s = stream_of(c, stream, &error);
    if (!s) return error;
    Size3 grid{gx, gy, gz}, block{bx, by, bz};
    if ((error = check(f, grid, block, shared))) return error;
    std::vector<unsigned char> args;
    if ((error = parameters(*f.kernel, each, extra, &args))) return error;
    if (strike("launch")) return LAUNCH_OUT_OF_RESOURCES;
    const Kernel *k = f.kernel;
    const Arena *memory = &device_at(c.device)->memory;
    return enqueue(c, s, [=, args = std::move(args)] { return run(*memory, *k, grid, block, shared, args); });
  });
}
