//go:build cuda && cgo && linux

package cuda

// #include "call.h"
import "C"

import (
	"reflect"

	"github.com/troupe-run/troupe/devices/gpu"
)

// check returns a *gpu.Error for an error of a cu function, or nil for nil. cu's errors are the driver's codes, in an unexported type.
func check(call string, err error) error {
	if err == nil {
		return nil
	}
	return failure(call, C.CUresult(reflect.ValueOf(err).Int()), "")
}

// result is check for driver functions that are called directly.
func result(call string, code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return failure(call, code, "")
}

// failure describes an error code; more, if any, is appended to the driver's text.
func failure(call string, code C.CUresult, more string) error {
	e := &gpu.Error{Call: call, Code: int(code), Name: "an unknown error", Text: "no description",
		OutOfMemory: code == C.CUDA_ERROR_OUT_OF_MEMORY, Sticky: sticky(int(code))}
	var text *C.char
	if C.cuGetErrorName(code, &text) == C.CUDA_SUCCESS && text != nil {
		e.Name = C.GoString(text)
	}
	if C.cuGetErrorString(code, &text) == C.CUDA_SUCCESS && text != nil {
		e.Text = C.GoString(text)
	}
	if more != "" {
		e.Text += ": " + more
	}
	return e
}

// sticky reports whether an error makes the context unusable: cuda.h says of these that the context cannot be used, or that the process is
// in an inconsistent state.
func sticky(code int) bool {
	switch code {
	case 214, // ECC_UNCORRECTABLE
		220, // NVLINK_UNCORRECTABLE
		226, // CONTAINED, since CUDA 12.8
		700, // ILLEGAL_ADDRESS
		702, // LAUNCH_TIMEOUT
		709, // CONTEXT_IS_DESTROYED
		710, // ASSERT
		714, // HARDWARE_STACK_ERROR
		715, // ILLEGAL_INSTRUCTION
		716, // MISALIGNED_ADDRESS
		717, // INVALID_ADDRESS_SPACE
		718, // INVALID_PC
		719, // LAUNCH_FAILED
		721, // TENSOR_MEMORY_LEAK, since CUDA 12.9
		911, // EXTERNAL_DEVICE
		999: // UNKNOWN
		return true
	}
	return false
}
