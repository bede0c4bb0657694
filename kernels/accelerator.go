package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Accelerator is a device with memory of its own, which kernels give work to: a GPU. The work of
// all kernels and steps runs on the device in the order in which it was given, and no call waits
// for it. So a tensor may be released once its last use was given. What lies on the host and is
// needed there (shapes, axes) is declared in the row's HostInputs; a value of the device's memory
// reaches the host by Download.
//
// ctx is the execution that the work is for: what fails on the device fails its step with an
// error that names its node. It is nil for the work of constructors. All methods may be called
// concurrently; the order of calls that do not wait for each other is any.
type Accelerator interface {
	Device
	// Launch runs a function on the device.
	Launch(ctx *Context, l Launch)
	// Copy fills dst with the bytes of src, which are as many. Both lie on the device.
	Copy(ctx *Context, dst, src *tensor.Tensor)
	// Fill sets all bytes of dst, on the device, to value.
	Fill(ctx *Context, dst *tensor.Tensor, value byte)
	// Upload gives a new tensor on the device with the elements of host, which it keeps a
	// reference to as long as it needs it. The caller must not write to host any more.
	Upload(ctx *Context, host *tensor.Tensor) (*tensor.Tensor, error)
	// Download calls done with a new tensor on the host that holds the elements of t, on another
	// goroutine, when the device has got there; or with the error that ended the step.
	Download(ctx *Context, t *tensor.Tensor, done func(host *tensor.Tensor, err error))
	// Settle calls done, on another goroutine, when all that was given before has run, with the
	// error of what was given for step.
	Settle(step *Step, done func(error))
	// Card describes the device for the choice of functions and sizes.
	Card() Card
}

// Card is what kernels may want to know of an accelerator.
type Card struct {
	// Compute is the compute capability, 10 times the major number plus the minor one: 90 for 9.0.
	Compute int
	// Processors is the number of multiprocessors, SharedMemory the bytes that a block may have.
	Processors, SharedMemory int
}

// MatrixMultiplier is what an accelerator implements that has a library of matrix products.
type MatrixMultiplier interface {
	// Gemm queues a batch of products and tells whether it did: false, with nothing queued, where
	// the library is not there or does not do such products. The kernel then launches its own. What
	// fails later fails ctx's step, as with Launch.
	Gemm(ctx *Context, g Gemm) bool
}

// Gemm sets each matrix of a batch C to Alpha·op(A)·op(B) + Beta·C, where op transposes what TransA
// and TransB say: op(A) is M by K, op(B) K by N, C M by N. The matrices are stored by rows without gaps,
// and matrix i of an operand begins i times its stride, in elements, after the tensor's first element.
// A stride of 0 takes the same matrix for all products. M, N, K and Batch are at least 1.
type Gemm struct {
	// DType is float16, bfloat16, float32 or float64, that of all three tensors. Sums of half types
	// are float32.
	DType          tensor.DType
	TransA, TransB bool
	M, N, K, Batch int
	// Alpha and Beta scale; with a Beta of 0 the content of C does not matter.
	Alpha, Beta float64
	// TF32 lets float32 operands be rounded to TF32 before they are multiplied.
	TF32                      bool
	A, B, C                   *tensor.Tensor
	StrideA, StrideB, StrideC int
}

// Launch is a call of a device function.
type Launch struct {
	// Function is its name in the sources in kernels/cuda.
	Function string
	// Grid is the number of blocks and Block that of threads in each, in three dimensions. What is
	// 0 counts as 1.
	Grid, Block [3]int
	// Shared is the bytes of dynamic shared memory for each block.
	Shared int
	// Args are the parameters as the device lies them out: each one 8 bytes wide, structs of such
	// members one word after the other. Of, Float and Int make them.
	Args []uint64
}

// Double is a floating-point parameter, a double in the sources.
func Double(v float64) uint64 { return math.Float64bits(v) }

// AcceleratorOf is the device of a kernel whose row is for one.
func AcceleratorOf(d Device) Accelerator { return d.(Accelerator) }

// Peer is implemented by accelerators that read each other's memory, so that a tensor moves from one
// to the other without a way through the host.
type Peer interface {
	// Reaches tells whether the device with a full name is an accelerator of this process that can
	// Fetch from this one's memory.
	Reaches(device string) bool
	// Fetch gives a new tensor on this device with the elements of t, which lies on one that
	// Reaches it. The copy follows all work that was given to that device before, and holds a
	// reference to t as long as it needs it. It is called like Upload.
	Fetch(ctx *Context, t *tensor.Tensor) (*tensor.Tensor, error)
}
