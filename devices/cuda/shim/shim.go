//go:build cuda && cgo && linux

package shim

/*
#cgo LDFLAGS: -L${SRCDIR}/lib -Wl,--as-needed -ldl
#include "shim.h"
*/
import "C"

import "errors"

// Open loads the driver's library, libcuda.so.1 or the file that the environment's TROUPE_LIBCUDA names, and
// initializes it, once in the life of the process. Its error says why there is no driver to work with. Functions
// of the driver that are called before, or without success, return CUDA_ERROR_NOT_INITIALIZED; those that
// the library lacks return CUDA_ERROR_NOT_SUPPORTED.
func Open() error {
	if why := C.troupe_cuda_open(); why != nil {
		return errors.New(C.GoString(why))
	}
	return nil
}
