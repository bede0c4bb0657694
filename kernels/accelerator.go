package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Accelerator is a device with its own memory, such as a GPU, that kernels queue work on. The device runs the work of all kernels and steps
// in the order in which it was queued, and no call waits for it. A tensor may therefore be released as soon as its last use is queued.
// Inputs that are needed on the host (shapes, axes) are declared in the row's HostInputs; Download brings a value from the device's memory
// to the host.
//
// ctx is the execution that the work belongs to: a failure on the device fails its step with an error that names its node. ctx is nil for
// the work of constructors. All methods may be called concurrently; concurrent calls are queued in any order.
type Accelerator interface {
	Device
	// Launch runs a function on the device.
	Launch(ctx *Context, l Launch)
	// Copy copies the bytes of src to dst. Both are on the device and have the same size.
	Copy(ctx *Context, dst, src *tensor.Tensor)
	// Fill sets all bytes of dst, which is on the device, to value.
	Fill(ctx *Context, dst *tensor.Tensor, value byte)
	// Upload returns a new tensor on the device with the elements of host. It retains host for as long as it needs it. The caller must not
	// write to host afterwards.
	Upload(ctx *Context, host *tensor.Tensor) (*tensor.Tensor, error)
	// Download calls done, on another goroutine, with a new host tensor that holds the elements of t once all earlier work has run, or with
	// the error that ended the step.
	Download(ctx *Context, t *tensor.Tensor, done func(host *tensor.Tensor, err error))
	// Settle calls done, on another goroutine, once all work queued before has run, with the error of the work queued for step.
	Settle(step *Step, done func(error))
	// Card returns the card's properties, for choosing functions and sizes.
	Card() Card
}

// Card describes an accelerator to kernels.
type Card struct {
	// Compute is the compute capability, 10 times the major number plus the minor one: 90 for 9.0.
	Compute int
	// Processors is the number of multiprocessors; SharedMemory is the maximum number of bytes of shared memory per block.
	Processors, SharedMemory int
}

// MatrixMultiplier is implemented by accelerators that have a library of matrix products.
type MatrixMultiplier interface {
	// Gemm queues a batch of products and reports whether it did. It returns false, with nothing queued, where the library is missing or
	// does not support these products; the kernel then launches its own. A later failure fails ctx's step, as with Launch.
	Gemm(ctx *Context, g Gemm) bool
}

// Gemm sets each matrix of a batch C to Alpha·op(A)·op(B) + Beta·C, where op transposes as TransA and TransB say: op(A) is M by K, op(B) K
// by N, C M by N. The matrices are stored by rows without gaps, and matrix i of an operand begins i times its stride, in elements, after
// the tensor's first element. A stride of 0 uses the same matrix for all products. M, N, K and Batch are at least 1.
type Gemm struct {
	// DType is the type of all three tensors: float16, bfloat16, float32 or float64. Half types accumulate in float32.
	DType          tensor.DType
	TransA, TransB bool
	M, N, K, Batch int
	// Alpha and Beta are the scale factors; if Beta is 0, the content of C is ignored.
	Alpha, Beta float64
	// TF32 allows float32 operands to be rounded to TF32 before they are multiplied.
	TF32                      bool
	A, B, C                   *tensor.Tensor
	StrideA, StrideB, StrideC int
}

// Launch is a call of a device function.
type Launch struct {
	// Function is the function's name in the sources in kernels/cuda.
	Function string
	// Grid is the number of blocks and Block the number of threads in each, in three dimensions. A 0 counts as 1.
	Grid, Block [3]int
	// Shared is the number of bytes of dynamic shared memory per block.
	Shared int
	// Args are the parameters as the device lays them out: each is 8 bytes wide, and the 8-byte members of a struct follow one another.
	// Pointers come from Tensor.Address, doubles from Double.
	Args []uint64
}

// Double encodes a floating-point parameter, a double in the sources.
func Double(v float64) uint64 { return math.Float64bits(v) }

// AcceleratorOf returns the accelerator of a kernel whose row is for one.
func AcceleratorOf(d Device) Accelerator { return d.(Accelerator) }

// Peer is implemented by accelerators that can read each other's memory, which moves a tensor between them without going through the host.
type Peer interface {
	// Reaches reports whether the device with the given full name is an accelerator of this process that can Fetch from this one's memory.
	Reaches(device string) bool
	// Fetch returns a new tensor on this device with the elements of t, which is on a device that Reaches this one. The copy follows all
	// work that was queued on that device before, and retains t for as long as it needs it. Fetch is called like Upload.
	Fetch(ctx *Context, t *tensor.Tensor) (*tensor.Tensor, error)
}
