// What the driver gives to the other libraries that belong to it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "errors.h"

// fakeEnqueue puts work into a stream of the calling thread's context.
extern "C" __attribute__((visibility("default"))) CUresult fakeEnqueue(void *stream, const std::function<CUresult()> &work);
// fakeOnCard tells whether bytes at an address are of one block of a card's memory.
extern "C" __attribute__((visibility("default"))) bool fakeOnCard(uint64_t address, size_t bytes);
// fakeCompute is the cards' compute capability.
extern "C" __attribute__((visibility("default"))) int fakeCompute();
