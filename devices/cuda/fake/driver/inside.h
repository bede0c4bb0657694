// What the driver provides to its companion libraries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "errors.h"

// fakeEnqueue adds work to a stream of the calling thread's context.
extern "C" __attribute__((visibility("default"))) CUresult fakeEnqueue(void *stream, const std::function<CUresult()> &work);
// fakeOnCard reports whether a range is within one block of a card's memory.
extern "C" __attribute__((visibility("default"))) bool fakeOnCard(uint64_t address, size_t bytes);
// fakeCompute returns the cards' compute capability.
extern "C" __attribute__((visibility("default"))) int fakeCompute();
