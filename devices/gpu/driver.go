// Package gpu is the device of one graphics card. One locked thread takes kernels and copies from a queue and
// puts them into the card's streams, over the interface Driver. The package knows no driver itself.
package gpu

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Driver is a machine's GPU driver. All its methods, and those of Card, are safe for concurrent use.
type Driver interface {
	// Cards are the cards that this process may use, in the driver's order: on CUDA those that
	// CUDA_VISIBLE_DEVICES names. Without any the error says why, in words for the log: no driver, none
	// visible, or a binary that was built without one.
	Cards() ([]Card, error)
}

// Card is one card of a Driver.
type Card interface {
	// Info is what the card says of itself, read once when it was listed.
	Info() Info
	// Open retains the card's primary context, which it shares with libraries such as cuBLAS. The context is
	// current on no thread yet. Contexts of one card that are open at the same time are one and the same to
	// the driver: closing one leaves the others alive, resetting one breaks them all.
	Open() (Context, error)
}

// Info describes a card.
type Info struct {
	Name         string // such as "NVIDIA H100 80GB HBM3"
	PCI          string // domain:bus:device.function, such as "0000:3b:00.0"
	Memory       int64  // bytes in all
	Compute      int    // compute capability, major*10 + minor, such as 90
	Processors   int    // streaming multiprocessors
	SharedMemory int    // bytes that a block may take, static and dynamic together
	Clock        int    // kHz that the processors run at, at most
	MemoryClock  int    // kHz that the memory runs at, at most
	MemoryBus    int    // bits between the two
}

// Context holds what a program has on a card: memory, loaded kernels, streams and events. Every method but
// Bind must be called on a thread that Bind was called on, and so must those of what it makes. Several
// threads may be bound, and call at the same time. Its errors are *Error.
type Context interface {
	// Bind makes the context the calling thread's. The caller has locked its goroutine to the thread, and
	// keeps it locked.
	Bind() error
	// MemoryInfo is the card's free memory and its memory in all, in bytes, over all processes.
	MemoryInfo() (free, total int64, err error)
	// Alloc takes memory on the card, aligned to 256 bytes at least, with undefined content. Without enough of it the
	// error is an *Error with OutOfMemory. It may wait for all that is queued on the card, as may Free.
	Alloc(bytes int64) (addr uint64, err error)
	// Free gives back what Alloc took. Work that uses it must be done.
	Free(addr uint64) error
	// Pin has the card read and write memory of the host's directly: copies from and into it run beside other
	// work. It stays the caller's, and outlives the context; the end of that undoes Pin as Unpin does.
	Pin(memory []byte) error
	// Unpin undoes Pin, of the same memory. Work that uses it must be done.
	Unpin(memory []byte) error
	// Function finds a kernel by its name and loads the module that has it, which may take seconds for the
	// first function of a module.
	Function(name string) (Function, error)
	// NewStream makes a stream that does not wait for the default stream.
	NewStream() (Stream, error)
	// NewEvent makes an event without timing. One that was never recorded counts as done.
	NewEvent() (Event, error)
	// Blas is the card's library of matrix products; nil, and no error, where there is none. It takes memory on the
	// card for itself, some tens of MiB, which must be left for it. The caller closes it before the context.
	Blas() (Blas, error)
	// Close unloads the kernels and releases the context, after which neither it nor what it made is used.
	// Streams, events and memory that were not given back may live on with the primary context. With reset the
	// driver destroys all that this process has on the card: the way out of a sticky error. The calling
	// thread is bound to no context then.
	Close(reset bool) error
}

// Function is a kernel of one Context. It is the driver's handle.
type Function uint64

// Stream is a queue of the card: what is put into it runs in order. No method but Synchronize waits for the work, and an
// error that the work meets is returned by a later call. Sizes may be zero, which does nothing.
type Stream interface {
	// Launch queues a kernel on grid blocks of block threads, with shared bytes of dynamic shared memory for
	// each block. Args are its parameters, each 8 bytes wide and a structure as its words, as one packed
	// list; they are copied before Launch returns.
	Launch(f Function, grid, block [3]uint32, shared uint32, args []uint64) error
	// CopyIn queues a copy from the host. src stays untouched until it is done: it is pinned (AllocHost), or
	// the call may wait for the copy.
	CopyIn(dst uint64, src []byte) error
	// CopyOut queues a copy to the host, into pinned memory as CopyIn's src is.
	CopyOut(dst []byte, src uint64) error
	// Copy queues a copy on the card. Ranges do not overlap. With one address on another card of this process
	// it is a copy between the two.
	Copy(dst, src uint64, bytes int64) error
	// Fill queues that bytes bytes from dst become value.
	Fill(dst uint64, value byte, bytes int64) error
	// Record queues that the event is done once all that is in the stream now is. An event can be recorded again.
	Record(Event) error
	// Wait queues that what comes later waits for the last recording of the event, on this or another card.
	Wait(Event) error
	// Synchronize waits until all that is queued is done, and returns its error.
	Synchronize() error
	// Close gives the stream back. What is queued still runs.
	Close() error
}

// Event is a point in a stream.
type Event interface {
	// Synchronize waits, without spinning, until the event's last recording is done.
	Synchronize() error
	// Done tells whether the event's last recording is done, without waiting.
	Done() (bool, error)
	// Close gives the event back. Who waits for it already is not disturbed.
	Close() error
}

// Blas multiplies matrices with a vendor's library. One goroutine at a time uses it.
//
// Matrices are in column-major order, as in BLAS: op(A) is [m, k], op(B) is [k, n] and C is [m, n], and lda, ldb
// and ldc are the distances, in elements, between columns. For matrices in row-major order, C = A·B is C' = B'·A':
// swap the operands and m with n. All matrices are of dtype Float32, Float64, Float16 or BFloat16; half types
// are summed in float32. Float32 may be rounded to TF32, as TensorFlow does by default.
type Blas interface {
	// Gemm queues C = alpha·op(A)·op(B) + beta·C. With beta 0 the old C is not read. m, n and k are positive.
	Gemm(stream Stream, dtype tensor.DType, transA, transB bool, m, n, k int64, alpha float64, a uint64, lda int64,
		b uint64, ldb int64, beta float64, c uint64, ldc int64) error
	// GemmStridedBatched queues Gemm for count triples of matrices, of which each begins stride elements after the
	// one before; a stride of 0 uses the same A or B for all.
	GemmStridedBatched(stream Stream, dtype tensor.DType, transA, transB bool, m, n, k int64, alpha float64,
		a uint64, lda, strideA int64, b uint64, ldb, strideB int64, beta float64, c uint64, ldc, strideC int64,
		count int64) error
	// Close gives the library's handle and its memory on the card back.
	Close() error
}

// Error is a call that the driver, or a library beside it, refused.
type Error struct {
	Call        string // the driver's function, such as cuMemAlloc
	Code        int    // its number, such as 2
	Name        string // the number's name, such as CUDA_ERROR_OUT_OF_MEMORY
	Text        string // what the driver says about it, and more where it is known, such as a linker's log
	OutOfMemory bool   // the card, or the host for pinned memory, has not enough left
	Sticky      bool   // the context is broken: every later call fails until it is closed with reset
}

// Error names the call, the code and what the driver says about it.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}
