//go:build cuda && cgo && linux

package cuda

// #include "call.h"
import "C"

import (
	"errors"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/troupe-run/troupe/devices/gpu"
)

// context is a card's primary context. It does not use cu.Ctx, which passes each call to a goroutine and destroys the context in a
// finalizer.
type context struct {
	card    *card
	handle  cu.CUContext
	opened  int // value of the card's resets when it was opened
	modules modules
}

func (c *context) Bind() error { return check("cuCtxSetCurrent", cu.SetCurrentContext(c.handle)) }

func (c *context) MemoryInfo() (free, total int64, err error) {
	free, total, err = cu.MemInfo()
	return free, total, check("cuMemGetInfo", err)
}

func (c *context) Alloc(bytes int64) (uint64, error) {
	addr, err := cu.MemAlloc(bytes)
	return uint64(addr), check("cuMemAlloc", err)
}

func (c *context) Free(addr uint64) error {
	return check("cuMemFree", cu.MemFree(cu.DevicePtr(addr)))
}

// Pin relies on Go's collector not moving heap memory. The memory is pinned for all contexts.
func (c *context) Pin(memory []byte) error {
	return result("cuMemHostRegister", C.cuMemHostRegister(unsafe.Pointer(unsafe.SliceData(memory)), C.size_t(len(memory)), C.CU_MEMHOSTREGISTER_PORTABLE))
}

func (c *context) Unpin(memory []byte) error {
	return result("cuMemHostUnregister", C.cuMemHostUnregister(unsafe.Pointer(unsafe.SliceData(memory))))
}

func (c *context) Function(name string) (gpu.Function, error) { return c.modules.function(name) }

func (c *context) NewStream() (gpu.Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	if err != nil {
		return nil, check("cuStreamCreate", err)
	}
	return &stream{s, &c.modules}, nil
}

func (c *context) NewEvent() (gpu.Event, error) {
	// BlockingSync: a thread that waits for the event sleeps instead of spinning on a core.
	e, err := cu.MakeEvent(cu.DisableTiming | cu.BlockingSyncEvent)
	if err != nil {
		return nil, check("cuEventCreate", err)
	}
	return &event{e}, nil
}

func (c *context) Close(reset bool) error {
	var failed error
	if !reset && c.card.alive(c.opened) {
		failed = c.modules.unload()
	}
	return errors.Join(failed,
		check("cuCtxSetCurrent", cu.SetCurrentContext(cu.CUContext{})),
		c.card.release(c.opened, reset))
}
