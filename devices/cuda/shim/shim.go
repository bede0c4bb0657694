//go:build cuda && cgo && linux

package shim

/*
#cgo LDFLAGS: -L${SRCDIR}/lib -Wl,--as-needed -ldl
#include "shim.h"
*/
import "C"

import "errors"

// Open loads and initializes the driver's library, libcuda.so.1 or the file named by TROUPE_LIBCUDA, once per process. Its error says why
// there is no usable driver. Driver functions called before, or after a failure, return CUDA_ERROR_NOT_INITIALIZED; those that the library
// lacks return CUDA_ERROR_NOT_SUPPORTED.
func Open() error {
	if why := C.troupe_cuda_open(); why != nil {
		return errors.New(C.GoString(why))
	}
	return nil
}
