//go:build cuda && cgo && linux

package cuda

// #include <stdlib.h>
// #include "call.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/devices/gpu"
)

// finder returns the PTX of the module that contains a function, and the module's name.
type finder func(function string) (name, ptx string, ok bool)

// modules are the modules that a context has loaded. Each is loaded once, when its first function is requested.
type modules struct {
	find finder

	mu        sync.Mutex
	loaded    map[string]C.CUmodule
	functions map[string]gpu.Function
	shared    map[gpu.Function]uint32 // dynamic shared memory above usual that was requested
}

// usual is the shared memory of a block, in bytes, that every card provides without a request.
const usual = 48 << 10

// allow permits a function's launches more dynamic shared memory than usual.
func (m *modules) allow(f gpu.Function, shared uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shared[f] >= shared {
		return nil
	}
	if err := result("cuFuncSetAttribute", C.troupe_allow(C.uintptr_t(f), C.int(shared))); err != nil {
		return err
	}
	if m.shared == nil {
		m.shared = map[gpu.Function]uint32{}
	}
	m.shared[f] = shared
	return nil
}

func (m *modules) function(name string) (gpu.Function, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.functions[name]; ok {
		return f, nil
	}
	module, ptx, ok := m.find(name)
	if !ok {
		return 0, failure("cuModuleGetFunction", C.CUDA_ERROR_NOT_FOUND, fmt.Sprintf("no module has a function %q", name))
	}
	handle, err := m.load(module, ptx)
	if err != nil {
		return 0, err
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var f C.CUfunction
	if code := C.cuModuleGetFunction(&f, handle, text); code != C.CUDA_SUCCESS {
		return 0, failure("cuModuleGetFunction", code, fmt.Sprintf("function %q of module %q", name, module))
	}
	if m.functions == nil {
		m.functions = map[string]gpu.Function{}
	}
	m.functions[name] = gpu.Function(uintptr(unsafe.Pointer(f)))
	return m.functions[name], nil
}

// load compiles a module for the card, or finds it in the driver's disk cache.
func (m *modules) load(name, ptx string) (C.CUmodule, error) {
	if handle, ok := m.loaded[name]; ok {
		return handle, nil
	}
	// cu also has a call with a log, but that makes the driver write to Go memory without cgo's knowledge.
	const size = 16 << 10
	log := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(log))
	image := C.CString(ptx)
	defer C.free(unsafe.Pointer(image))
	var handle C.CUmodule
	if code := C.troupe_load(&handle, image, log, size-1); code != C.CUDA_SUCCESS {
		return nil, failure("cuModuleLoadDataEx", code, fmt.Sprintf("module %q: %s", name, C.GoString(log)))
	}
	if m.loaded == nil {
		m.loaded = map[string]C.CUmodule{}
	}
	m.loaded[name] = handle
	return handle, nil
}

// unload unloads the modules, which invalidates their functions.
func (m *modules) unload() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var failed []error
	for _, handle := range m.loaded {
		failed = append(failed, result("cuModuleUnload", C.cuModuleUnload(handle)))
	}
	clear(m.loaded)
	clear(m.functions)
	clear(m.shared)
	return errors.Join(failed...)
}
