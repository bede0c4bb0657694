//go:build cuda && cgo && linux

package cuda

/*
#include "call.h"
#cgo noescape troupe_launch
#cgo nocallback troupe_launch
*/
import "C"

import (
	"unsafe"

	"gorgonia.org/cu"

	"github.com/troupe-run/troupe/devices/gpu"
)

type stream struct {
	cu.Stream
	modules *modules // of its context
}

// handle returns the driver's handle of the stream.
func (s *stream) handle() C.CUstream { return C.CUstream(unsafe.Pointer(s.C())) }

func (s *stream) Launch(f gpu.Function, grid, block [3]uint32, shared uint32, args []uint64) error {
	if shared > usual {
		if err := s.modules.allow(f, shared); err != nil {
			return err
		}
	}
	return result("cuLaunchKernel", C.troupe_launch(C.uintptr_t(f),
		(*C.uint)(&grid[0]), (*C.uint)(&block[0]), C.uint(shared), s.handle(),
		(*C.uint64_t)(unsafe.SliceData(args)), C.size_t(len(args))))
}

func (s *stream) CopyIn(dst uint64, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return check("cuMemcpyHtoDAsync",
		cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(&src[0]), int64(len(src)), s.Stream))
}

func (s *stream) CopyOut(dst []byte, src uint64) error {
	if len(dst) == 0 {
		return nil
	}
	return check("cuMemcpyDtoHAsync",
		cu.MemcpyDtoHAsync(unsafe.Pointer(&dst[0]), cu.DevicePtr(src), int64(len(dst)), s.Stream))
}

// Copy relies on unified addressing, which every 64-bit process has: an address identifies its card.
func (s *stream) Copy(dst, src uint64, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	return check("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), bytes, s.Stream))
}

func (s *stream) Fill(dst uint64, value byte, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	return check("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), value, bytes, s.Stream))
}

func (s *stream) Record(e gpu.Event) error {
	return check("cuEventRecord", e.(*event).Event.Record(s.Stream))
}

func (s *stream) Wait(e gpu.Event) error {
	return check("cuStreamWaitEvent", s.Stream.Wait(e.(*event).Event, 0))
}

func (s *stream) Synchronize() error { return check("cuStreamSynchronize", s.Stream.Synchronize()) }

func (s *stream) Close() error { return check("cuStreamDestroy", s.Stream.Destroy()) }

type event struct{ cu.Event }

func (e *event) Synchronize() error { return check("cuEventSynchronize", e.Event.Synchronize()) }

func (e *event) Done() (bool, error) {
	err := check("cuEventQuery", e.Event.Query())
	if err, failed := err.(*gpu.Error); failed && err.Code == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return err == nil, err
}

func (e *event) Close() error { return check("cuEventDestroy", cu.DestroyEvent(&e.Event)) }
