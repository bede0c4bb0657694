// Entry points about devices.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "state.h"

using namespace fake;

namespace {

constexpr int most_devices = 64;

struct Uuid { unsigned char bytes[16]; };

Uuid uuid_of(int number) {
  Uuid u{{0xfa, 0x4e, 0xc0, 0xda, 0, 0, 0x40, 0, 0x80}};
  u.bytes[15] = number;
  return u;
}

std::string uuid_text(int number) {
  const Uuid u = uuid_of(number);
  const unsigned char *b = u.bytes;
  char text[64];
  snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
           b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text;
}

// named returns the device for an element of CUDA_VISIBLE_DEVICES, or -1. The element is a number, or a prefix of exactly one device's
// UUID.
int named(const std::string &element, int count) {
  if (element.rfind("GPU-", 0) == 0) {
    int found = -1;
    for (int i = 0; i < count; i++)
      if (uuid_text(i).rfind(element, 0) == 0) {
        if (found >= 0) return -1;
        found = i;
      }
    return found;
  }
  char *end;
  long n = strtol(element.c_str(), &end, 10);
  while (*end == ' ') end++;
  return element.empty() || *end || n < 0 || n >= count ? -1 : (int)n;
}

// visible_devices parses CUDA_VISIBLE_DEVICES as the driver does: the first invalid or repeated element ends the list.
std::vector<int> visible_devices(int count) {
  std::vector<int> all;
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  if (!list) {
    for (int i = 0; i < count; i++) all.push_back(i);
    return all;
  }
  std::string rest = list;
  for (;;) {
    size_t comma = rest.find(',');
    int n = named(rest.substr(0, comma), count);
    for (int other : all) if (other == n) n = -1;
    if (n < 0) return all;
    all.push_back(n);
    if (comma == std::string::npos) return all;
    rest.erase(0, comma + 1);
  }
}

CUresult with_device(int ordinal, const std::function<CUresult(Device &)> &work) {
  return initialized([&] {
    Device *d = device_at(ordinal);
    return d ? work(*d) : INVALID_DEVICE;
  });
}

int attribute(int which, const Device &d) {
  switch (which) {
    case 1: case 2: case 3: return 1024;       // threads of a block, in x, in y
    case 4: return 64;                         // in z
    case 5: return 0x7fffffff;                 // blocks in x
    case 6: case 7: return 65535;              // in y and z
    case 8: return 48 << 10;                   // shared memory of a block
    case 9: return 64 << 10;                   // constant memory
    case 10: return 32;                        // lanes
    case 11: return 0x7fffffff;                // pitch
    case 12: case 82: return 65536;            // registers of a block, of a processor
    case 13: return 1410000;                   // kHz
    case 14: return 512;                       // alignment of textures
    case 16: return 4;                         // processors
    case 15: case 19: case 31: case 41: return 1;  // overlap, mapped memory, concurrent kernels, unified addresses
    case 33: return d.number + 1;              // PCI bus
    case 36: return 1215000;                   // kHz of the memory
    case 37: return 256;                       // bits of its bus
    case 38: return 4 << 20;                   // bytes of cache
    case 39: return 2048;                      // threads of a processor
    case 40: return 2;                         // engines for copies
    case 75: return card_compute() / 10;
    case 76: return card_compute() % 10;
    case 81: return 228 << 10;                 // shared memory of a processor
    case 97: return max_shared;                // of a block that asks for it
    case 106: return 24;                       // blocks of a processor
    default: return 0;
  }
}

}  // namespace

API cuInit(unsigned flags) {
  return anytime([&] {
    State &s = state();
    if (s.initialized) return SUCCESS;
    if (flags) return INVALID_VALUE;
    int count = setting("FAKE_CUDA_DEVICES", 1);
    if (count > most_devices) count = most_devices;
    auto visible = visible_devices(count);
    if (visible.empty()) return NO_DEVICE;
    for (int n : visible) {
      s.devices.push_back(std::make_unique<Device>());
      s.devices.back()->number = n;
    }
    s.initialized = true;
    return SUCCESS;
  });
}

API cuDriverGetVersion(int *version) {
  return anytime([&] { *version = 12090; return SUCCESS; });
}

API cuDeviceGetCount(int *n) {
  return initialized([&] { *n = state().devices.size(); return SUCCESS; });
}

API cuDeviceGet(int *device, int ordinal) {
  return with_device(ordinal, [&](Device &) { *device = ordinal; return SUCCESS; });
}

API cuDeviceGetName(char *name, int size, int device) {
  return with_device(device, [&](Device &d) {
    if (size <= 0) return INVALID_VALUE;
    snprintf(name, size, "Fake CUDA card %d", d.number);
    return SUCCESS;
  });
}

API cuDeviceTotalMem_v2(size_t *bytes, int device) {
  return with_device(device, [&](Device &) { *bytes = card_memory(); return SUCCESS; });
}

API cuDeviceGetAttribute(int *value, int which, int device) {
  return with_device(device, [&](Device &d) { *value = attribute(which, d); return SUCCESS; });
}

API cuDeviceGetUuid(Uuid *uuid, int device) {
  return with_device(device, [&](Device &d) { *uuid = uuid_of(d.number); return SUCCESS; });
}
API cuDeviceGetUuid_v2(Uuid *uuid, int device) { return cuDeviceGetUuid(uuid, device); }

API cuDeviceGetPCIBusId(char *id, int size, int device) {
  return with_device(device, [&](Device &d) {
    if (size < 13) return INVALID_VALUE;
    snprintf(id, size, "0000:%02X:00.0", d.number + 1);
    return SUCCESS;
  });
}

API cuDeviceCanAccessPeer(int *can, int device, int peer) {
  return with_device(device, [&](Device &) {
    if (!device_at(peer)) return INVALID_DEVICE;
    *can = device != peer;
    return SUCCESS;
  });
}

API cuDeviceGetP2PAttribute(int *value, int which, int device, int peer) {
  return with_device(device, [&](Device &) {
    if (!device_at(peer) || device == peer) return INVALID_DEVICE;
    *value = which == 2;  // access, and nothing else
    return SUCCESS;
  });
}

API cuDevicePrimaryCtxRetain(Handle *context, int device) {
  return with_device(device, [&](Device &d) {
    if (!d.primary) d.primary = create_context(device, d.primary_flags)->handle;
    d.retained++;
    *context = d.primary;
    return SUCCESS;
  });
}

// A reset keeps the reference count: each owner must still release the context.
API cuDevicePrimaryCtxReset_v2(int device) {
  return with_device(device, [&](Device &d) {
    destroy_context(d.primary);
    d.primary = 0;
    return SUCCESS;
  });
}

API cuDevicePrimaryCtxRelease_v2(int device) {
  return with_device(device, [&](Device &d) {
    if (!d.retained) return INVALID_CONTEXT;
    if (--d.retained == 0) {
      destroy_context(d.primary);
      d.primary = 0;
    }
    return SUCCESS;
  });
}

API cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  return with_device(device, [&](Device &d) {
    *flags = d.primary_flags;
    *active = d.primary != 0;
    return SUCCESS;
  });
}

API cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  return with_device(device, [&](Device &d) { d.primary_flags = flags; return SUCCESS; });
}
