// Entry points about contexts.
#include "queue.h"

using namespace fake;

API cuCtxCreate_v2(Handle *context, unsigned flags, int device) {
  return initialized([&] {
    if (!device_at(device)) return INVALID_DEVICE;
    *context = create_context(device, flags)->handle;
    thread_contexts().push_back(*context);
    return SUCCESS;
  });
}

API cuCtxDestroy_v2(Handle context) {
  return initialized([&] {
    CUresult error;
    auto c = find(state().contexts, (void *)context, &error);
    if (!c) return error;
    for (auto &d : state().devices) if (d->primary == context) return INVALID_CONTEXT;
    drain(**c);
    destroy_context(context);
    auto &stack = thread_contexts();
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    return SUCCESS;
  });
}

// Null pops the current context.
API cuCtxSetCurrent(Handle context) {
  return initialized([&] {
    CUresult error;
    if (context && !find(state().contexts, (void *)context, &error)) return error;
    auto &stack = thread_contexts();
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
    return SUCCESS;
  });
}

API cuCtxGetCurrent(Handle *context) {
  return initialized([&] {
    auto &stack = thread_contexts();
    *context = stack.empty() ? 0 : stack.back();
    return SUCCESS;
  });
}

API cuCtxPushCurrent_v2(Handle context) {
  return initialized([&] {
    CUresult error;
    if (!find(state().contexts, (void *)context, &error)) return error;
    thread_contexts().push_back(context);
    return SUCCESS;
  });
}

API cuCtxPopCurrent_v2(Handle *context) {
  return initialized([&] {
    auto &stack = thread_contexts();
    if (stack.empty()) return INVALID_CONTEXT;
    if (context) *context = stack.back();
    stack.pop_back();
    return SUCCESS;
  });
}

API cuCtxGetDevice(int *device) {
  return in_context([&](Context &c) { *device = c.device; return SUCCESS; });
}

API cuCtxGetFlags(unsigned *flags) {
  return in_context([&](Context &c) { *flags = c.flags; return SUCCESS; });
}

API cuCtxGetApiVersion(Handle context, unsigned *version) {
  return initialized([&] {
    CUresult error;
    if (context && !find(state().contexts, (void *)context, &error)) return error;
    *version = 3020;
    return SUCCESS;
  });
}

API cuCtxSynchronize() {
  return in_context([&](Context &c) { return drain(c); });
}

API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return in_context([&](Context &) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return SUCCESS;
  });
}

// The memory of all cards is in one address space, so only the status must be tracked.
API cuCtxEnablePeerAccess(Handle peer, unsigned flags) {
  return in_context([&](Context &c) {
    CUresult error;
    auto other = find(state().contexts, (void *)peer, &error);
    if (!other) return error;
    if (flags) return INVALID_VALUE;
    if ((*other)->device == c.device) return INVALID_DEVICE;
    return c.peers.insert(peer).second ? SUCCESS : PEER_ACCESS_ALREADY_ENABLED;
  });
}

API cuCtxDisablePeerAccess(Handle peer) {
  return in_context([&](Context &c) { return c.peers.erase(peer) ? SUCCESS : PEER_ACCESS_NOT_ENABLED; });
}
