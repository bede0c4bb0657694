#include "state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fake {

State &state() {
  static State *s = new State;  // never destroyed: threads may still call while the process exits
  return *s;
}

std::vector<Handle> &thread_contexts() {
  static thread_local std::vector<Handle> stack;
  return stack;
}

int setting(const char *name, int otherwise) {
  const char *v = getenv(name);
  return v && *v ? atoi(v) : otherwise;
}

uint64_t card_memory() {
  const char *v = getenv("FAKE_CUDA_MEM");
  return v && *v ? strtoull(v, nullptr, 10) : 1ull << 30;
}

int card_compute() { return setting("FAKE_CUDA_SM", 90); }

bool strike(const char *kind) {
  static std::string last;
  static std::map<std::string, int> left;
  const char *v = getenv("FAKE_CUDA_FAIL");
  std::string now = v ? v : "";
  if (now != last) {
    last = now;
    left.clear();
    for (size_t at = 0; at < now.size();) {
      size_t end = std::min(now.find(',', at), now.size()), colon = now.find(':', at);
      if (colon < end) left[now.substr(at, colon - at)] = atoi(now.c_str() + colon + 1);
      at = end + 1;
    }
  }
  auto it = left.find(kind);
  return it != left.end() && it->second > 0 && --it->second == 0;
}

static bool lost() {
  const char *v = getenv("FAKE_CUDA_FAIL");
  return v && strstr(v, "lost");
}

Device *device_at(int ordinal) {
  auto &all = state().devices;
  return ordinal >= 0 && (size_t)ordinal < all.size() ? all[ordinal].get() : nullptr;
}

std::shared_ptr<Context> create_context(int device, unsigned flags) {
  State &s = state();
  auto c = std::make_shared<Context>();
  c->handle = s.next_handle();
  c->device = device;
  c->flags = flags;
  c->legacy = std::make_shared<Stream>(Stream{c->handle, true});
  c->streams.push_back(c->legacy);
  s.contexts[c->handle] = c;
  return c;
}

void destroy_context(Handle handle) {
  State &s = state();
  auto it = s.contexts.find(handle);
  if (it == s.contexts.end()) return;
  auto context = it->second;
  s.contexts.erase(it);
  device_at(context->device)->memory.free_all(handle);
  s.host.free_all(handle);
  std::erase_if(s.registered, [&](auto &r) { return r.second.owner == handle; });
  for (auto &stream : context->streams) {  // events of other contexts may still point into them
    stream->queue.clear();
    stream->over = stream->queued;
  }
  std::erase_if(s.streams, [&](auto &e) { return e.second->context == handle; });
  std::erase_if(s.events, [&](auto &e) { return e.second->context == handle; });
  std::erase_if(s.functions, [&](auto &e) { return s.modules[e.second.module].context == handle; });
  std::erase_if(s.modules, [&](auto &e) { return e.second.context == handle; });
}

CUresult anytime(const Work &work) {
  std::lock_guard<std::recursive_mutex> held(state().lock);
  return lost() ? UNKNOWN : work();
}

CUresult initialized(const Work &work) {
  return anytime([&] { return state().initialized ? work() : NOT_INITIALIZED; });
}

CUresult in_context(const std::function<CUresult(Context &)> &work) {
  return initialized([&] {
    auto &stack = thread_contexts();
    if (stack.empty() || !stack.back()) return INVALID_CONTEXT;
    auto it = state().contexts.find(stack.back());
    if (it == state().contexts.end()) return CONTEXT_IS_DESTROYED;
    auto context = it->second;  // it may be destroyed in the meantime
    return context->broken ? context->broken : work(*context);
  });
}

}  // namespace fake
