// Package gpu implements the device of a graphics card. A locked thread takes kernels and copies from a queue and submits them to the
// card's streams through the interface Driver. The package itself contains no driver.
package gpu

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Driver is a machine's GPU driver. All its methods, and those of Card, are safe for concurrent use.
type Driver interface {
	// Cards returns the cards available to this process, in the driver's order; with CUDA, those that CUDA_VISIBLE_DEVICES names. If there
	// are none, the error says why, in words for the log: no driver, no visible card, or a binary built without a driver.
	Cards() ([]Card, error)
}

// Card is one card of a Driver.
type Card interface {
	// Info returns the card's description of itself, read once when it was listed.
	Info() Info
	// Open retains the card's primary context, which it shares with libraries such as cuBLAS. The context is not yet current on any thread.
	// To the driver, all open contexts of a card are the same: closing one leaves the others valid, resetting one breaks them all.
	Open() (Context, error)
}

// Info describes a card.
type Info struct {
	Name         string // such as "NVIDIA H100 80GB HBM3"
	PCI          string // domain:bus:device.function, such as "0000:3b:00.0"
	Memory       int64  // total bytes
	Compute      int    // compute capability, major*10 + minor, such as 90
	Processors   int    // streaming multiprocessors
	SharedMemory int    // maximum bytes for a block, static and dynamic together
	Clock        int    // maximum clock rate of the processors, in kHz
	MemoryClock  int    // maximum clock rate of the memory, in kHz
	MemoryBus    int    // width in bits
}

// Context holds a program's state on a card: memory, loaded kernels, streams and events. Every method except Bind must be called on a
// thread on which Bind was called. The same holds for the methods of objects that it makes. Several threads may be bound and call
// concurrently. Errors are *Error.
type Context interface {
	// Bind makes the context current on the calling thread. The caller must have locked its goroutine to the thread, and must keep it
	// locked.
	Bind() error
	// MemoryInfo returns the card's free and total memory in bytes, over all processes.
	MemoryInfo() (free, total int64, err error)
	// Alloc allocates memory on the card, aligned to at least 256 bytes, with undefined content. If there is not enough, the error is an
	// *Error with OutOfMemory. Alloc and Free may wait for all work queued on the card.
	Alloc(bytes int64) (addr uint64, err error)
	// Free frees memory allocated by Alloc. Work that uses it must be done.
	Free(addr uint64) error
	// Pin allows the card to access host memory directly, so copies to and from it run beside other work. The caller still owns the memory,
	// which outlives the context; closing the context undoes Pin like Unpin.
	Pin(memory []byte) error
	// Unpin undoes Pin for the same memory. Work that uses it must be done.
	Unpin(memory []byte) error
	// Function finds a kernel by its name and loads its module, which may take seconds for the first function of a module.
	Function(name string) (Function, error)
	// NewStream makes a stream that does not wait for the default stream.
	NewStream() (Stream, error)
	// NewEvent makes an event without timing. An event that was never recorded counts as done.
	NewEvent() (Event, error)
	// Blas returns the card's library of matrix products, or nil without an error if there is none. The library needs some tens of MiB of
	// card memory, which must be left free for it. The caller must close it before the context.
	Blas() (Blas, error)
	// Close unloads the kernels and releases the context; afterwards neither it nor objects that it made may be used. Streams, events and
	// memory that were not released may live on with the primary context. With reset, the driver destroys all state of this process on the
	// card, which is the only way to recover from a sticky error. No context is then bound to the calling thread.
	Close(reset bool) error
}

// Function is the driver's handle of a kernel of one Context.
type Function uint64

// Stream is a queue on the card: its work runs in order. Only Synchronize waits for the work. If the work fails, a later call returns the
// error. Sizes may be zero, which does nothing.
type Stream interface {
	// Launch queues a kernel on grid blocks of block threads, with shared bytes of dynamic shared memory for each block. args is the packed
	// list of its parameters; each is 8 bytes wide, and a structure is passed as its words. They are copied before Launch returns.
	Launch(f Function, grid, block [3]uint32, shared uint32, args []uint64) error
	// CopyIn queues a copy from the host. src must not change until the copy is done. If src is not pinned, the call may wait for the copy.
	CopyIn(dst uint64, src []byte) error
	// CopyOut queues a copy to the host. If dst is not pinned, the call may wait for the copy.
	CopyOut(dst []byte, src uint64) error
	// Copy queues a copy on the card. The ranges must not overlap. If one address is on another card of this process, the copy is between
	// the two.
	Copy(dst, src uint64, bytes int64) error
	// Fill queues setting bytes bytes from dst on to value.
	Fill(dst uint64, value byte, bytes int64) error
	// Record queues the event, which is done once all work now in the stream is. An event can be recorded again.
	Record(Event) error
	// Wait makes later work wait for the last recording of the event, on this or another card.
	Wait(Event) error
	// Synchronize waits until all queued work is done, and returns its error.
	Synchronize() error
	// Close releases the stream. Queued work still runs.
	Close() error
}

// Event is a point in a stream.
type Event interface {
	// Synchronize waits, without spinning, until the event's last recording is done.
	Synchronize() error
	// Done reports whether the event's last recording is done, without waiting.
	Done() (bool, error)
	// Close releases the event. It does not affect threads that already wait for it.
	Close() error
}

// Blas multiplies matrices with a vendor's library. It must be used by one goroutine at a time.
//
// Matrices are in column-major order, as in BLAS: op(A) is [m, k], op(B) is [k, n] and C is [m, n], and lda, ldb and ldc are the distances,
// in elements, between columns. For row-major matrices, C = A·B is C' = B'·A': swap the operands and m with n. All matrices are of dtype
// Float32, Float64, Float16 or BFloat16; half types are summed in float32. Float32 may be rounded to TF32, as TensorFlow does by default.
type Blas interface {
	// Gemm queues C = alpha·op(A)·op(B) + beta·C. If beta is 0, the old C is not read. m, n and k are positive.
	Gemm(stream Stream, dtype tensor.DType, transA, transB bool, m, n, k int64, alpha float64, a uint64, lda int64,
		b uint64, ldb int64, beta float64, c uint64, ldc int64) error
	// GemmStridedBatched queues Gemm for count triples of matrices. Each matrix begins stride elements after the one before; a stride of 0
	// uses the same A or B for all.
	GemmStridedBatched(stream Stream, dtype tensor.DType, transA, transB bool, m, n, k int64, alpha float64,
		a uint64, lda, strideA int64, b uint64, ldb, strideB int64, beta float64, c uint64, ldc, strideC int64,
		count int64) error
	// Close releases the library's handle and its memory on the card.
	Close() error
}

// Error is an error returned by the driver or a companion library.
type Error struct {
	Call        string // the driver's function, such as cuMemAlloc
	Code        int    // the error code, such as 2
	Name        string // the code's name, such as CUDA_ERROR_OUT_OF_MEMORY
	Text        string // the driver's description, with details if known, such as a linker's log
	OutOfMemory bool   // the card, or the host for pinned memory, has too little left
	Sticky      bool   // the context is broken: every later call fails until it is closed with reset
}

// Error returns the call, the code and the driver's description.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}
