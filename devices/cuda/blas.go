//go:build cuda && cgo && linux

package cuda

/*
#include <stdlib.h>
#include "blas.h"
#cgo noescape troupe_blas_gemm
#cgo nocallback troupe_blas_gemm
#cgo noescape troupe_blas_batched
#cgo nocallback troupe_blas_batched
*/
import "C"

import (
	"errors"
	"os"
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// library holds the addresses of cuBLAS functions.
type library struct {
	create, destroy, setStream, setMathMode, gemm, batched, name, text unsafe.Pointer
}

// cublas loads cuBLAS once per process: the file named by TROUPE_LIBCUBLAS, which must exist, or the newest version found. If there is
// none, it returns nil without an error.
var cublas = sync.OnceValues(func() (*library, error) {
	files := []string{"libcublas.so.13", "libcublas.so.12"}
	named := os.Getenv("TROUPE_LIBCUBLAS")
	if named != "" {
		files = []string{named}
	}
	var why error
	for _, file := range files {
		var handle unsafe.Pointer
		if handle, why = open(file); why == nil {
			return symbols(file, handle)
		}
	}
	if named == "" {
		why = nil
	}
	return nil, why
})

func open(file string) (unsafe.Pointer, error) {
	const size = 512
	why := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(why))
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	if handle := C.troupe_open(name, why, size); handle != nil {
		return handle, nil
	}
	return nil, status.Errorf(status.FailedPrecondition, "cuBLAS cannot be loaded: %s", C.GoString(why))
}

func symbols(file string, handle unsafe.Pointer) (*library, error) {
	var l library
	for _, s := range []struct {
		name string
		dst  *unsafe.Pointer
	}{
		{"cublasCreate_v2", &l.create},
		{"cublasDestroy_v2", &l.destroy},
		{"cublasSetStream_v2", &l.setStream},
		{"cublasSetMathMode", &l.setMathMode},
		{"cublasGemmEx_64", &l.gemm},
		{"cublasGemmStridedBatchedEx_64", &l.batched},
		{"cublasGetStatusName", &l.name},
		{"cublasGetStatusString", &l.text},
	} {
		name := C.CString(s.name)
		*s.dst = C.troupe_symbol(handle, name)
		C.free(unsafe.Pointer(name))
		if *s.dst == nil {
			return nil, status.Errorf(status.FailedPrecondition, "%s is not cuBLAS 12 or 13: it has no %s", file, s.name)
		}
	}
	return &l, nil
}

// check returns a *gpu.Error for a status, or nil for success.
func (l *library) check(call string, code C.int) error {
	const allocFailed = 3
	if code == 0 {
		return nil
	}
	return &gpu.Error{Call: call, Code: int(code), Name: C.GoString(C.troupe_blas_text(l.name, code)),
		Text: C.GoString(C.troupe_blas_text(l.text, code)), OutOfMemory: code == allocFailed}
}

// blas is a cuBLAS handle on one context.
type blas struct {
	library *library
	handle  unsafe.Pointer
	stream  gpu.Stream // the stream that the handle submits to
}

func (c *context) Blas() (gpu.Blas, error) {
	l, err := cublas()
	if l == nil {
		return nil, err
	}
	b := &blas{library: l}
	if err := l.check("cublasCreate", C.troupe_blas_create(l.create, &b.handle)); err != nil {
		return nil, err
	}
	// TensorFlow's default: on cards that support it, float32 products round their inputs to TF32.
	const tf32 = 3
	if err := l.check("cublasSetMathMode", C.troupe_blas_math(l.setMathMode, b.handle, tf32)); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (h *blas) Close() error {
	return h.library.check("cublasDestroy", C.troupe_blas_destroy(h.library.destroy, h.handle))
}

func (h *blas) Gemm(s gpu.Stream, dtype tensor.DType, transA, transB bool, m, n, k int64, alpha float64,
	a uint64, lda int64, b uint64, ldb int64, beta float64, c uint64, ldc int64) error {
	g, err := h.prepare(s, dtype, transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	if err != nil {
		return err
	}
	return h.library.check("cublasGemmEx", C.troupe_blas_gemm(h.library.gemm, &g))
}

func (h *blas) GemmStridedBatched(s gpu.Stream, dtype tensor.DType, transA, transB bool, m, n, k int64, alpha float64,
	a uint64, lda, strideA int64, b uint64, ldb, strideB int64, beta float64, c uint64, ldc, strideC int64,
	count int64) error {
	g, err := h.prepare(s, dtype, transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	if err != nil {
		return err
	}
	g.stride_a, g.stride_b, g.stride_c, g.count = C.int64_t(strideA), C.int64_t(strideB), C.int64_t(strideC), C.int64_t(count)
	return h.library.check("cublasGemmStridedBatchedEx", C.troupe_blas_batched(h.library.batched, &g))
}

// numbers are the cudaDataType_t and cublasComputeType_t for a matrix type.
var numbers = map[tensor.DType]struct{ data, compute C.int }{
	tensor.Float32:  {0, 68},
	tensor.Float64:  {1, 70},
	tensor.Float16:  {2, 68},
	tensor.BFloat16: {14, 68},
}

// prepare sets the handle's stream, and converts the arguments that both products share.
func (h *blas) prepare(s gpu.Stream, dtype tensor.DType, transA, transB bool, m, n, k int64, alpha float64,
	a uint64, lda int64, b uint64, ldb int64, beta float64, c uint64, ldc int64) (C.struct_troupe_gemm, error) {
	number, ok := numbers[dtype]
	if !ok {
		return C.struct_troupe_gemm{}, status.Unimplementedf("cuBLAS does not multiply matrices of %v", dtype)
	}
	if s != h.stream {
		handle := unsafe.Pointer(s.(*stream).C())
		if err := h.library.check("cublasSetStream", C.troupe_blas_stream(h.library.setStream, h.handle, handle)); err != nil {
			return C.struct_troupe_gemm{}, err
		}
		h.stream = s
	}
	return C.struct_troupe_gemm{
		handle: h.handle, op_a: operation(transA), op_b: operation(transB), _type: number.data, compute: number.compute,
		m: C.int64_t(m), n: C.int64_t(n), k: C.int64_t(k), lda: C.int64_t(lda), ldb: C.int64_t(ldb), ldc: C.int64_t(ldc),
		alpha: C.double(alpha), beta: C.double(beta), a: C.uint64_t(a), b: C.uint64_t(b), c: C.uint64_t(c),
	}, nil
}

// operation returns a cublasOperation_t.
func operation(transpose bool) C.int {
	if transpose {
		return 1
	}
	return 0
}
