package launch

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Threads is the size of the blocks of functions that work on elements one by one.
const Threads = 256

// PerElement is a launch of a function whose threads stride over n elements. The blocks are
// enough to fill the card some times over, more of them would only cost their start.
func PerElement(a kernels.Accelerator, function string, n int, args ...uint64) kernels.Launch {
	blocks := (n + Threads - 1) / Threads
	return kernels.Launch{Function: function, Grid: [3]int{min(blocks, 32*a.Card().Processors)}, Block: [3]int{Threads}, Args: args}
}

// What ops with indices do when those lie in an accelerator's memory, where nobody looks at them
// before: as with TensorFlow's GPU kernels, those that point outside give zeros, and updates that
// they name are left out. The callers have checked shapes.

// IndexKind tells a device's function which integers the indices are.
func IndexKind(d tensor.DType) uint64 {
	if d == tensor.Int8 {
		return 0
	}
	return uint64(d.Size())
}

// PointWords is the struct Point: the dimensions that rows of indices name a place in.
func PointWords(dims tensor.Shape) ([]uint64, error) {
	if len(dims) > pointLimit {
		return nil, status.Unimplementedf("Indices of more than %d dimensions, here %d, are not supported on GPUs", pointLimit, len(dims))
	}
	words := make([]uint64, 1+pointLimit)
	words[0] = uint64(len(dims))
	for i, d := range dims {
		words[1+i] = uint64(d)
	}
	return words, nil
}

const pointLimit = 8

// Divisor is the two words of a Divisor, which divides indices up to largest by size.
func Divisor(size, largest int) [2]uint64 {
	if size <= 0 || largest >= 1<<31 || size > largest {
		return [2]uint64{uint64(max(size, 1)), 0}
	}
	shift := 0
	for 1<<shift < size {
		shift++
	}
	multiplier := ((1<<32)*(uint64(1)<<shift-uint64(size)))/uint64(size) + 1
	return [2]uint64{uint64(size), uint64(shift)<<32 | multiplier}
}

// Widest is the greatest size of elements, from size to 16 bytes, that divides all of the addresses
// and distances, in bytes.
func Widest(size int, bytes ...uint64) int {
	all := uint64(0)
	for _, b := range bytes {
		all |= b
	}
	for size < 16 && all%uint64(2*size) == 0 {
		size *= 2
	}
	return size
}

// CellFunction names the function for elements of a size.
func CellFunction(name string, size int) string { return name + cellSuffixes[size] }

var cellSuffixes = [...]string{1: "_1", 2: "_2", 4: "_4", 8: "_8", 16: "_16"}

// UploadInts brings a list to the device.
func UploadInts(ctx *kernels.Context, a kernels.Accelerator, list []int64) (*tensor.Tensor, error) {
	host, err := a.Pool().New(tensor.Int64, tensor.Shape{int64(len(list))})
	if err != nil {
		return nil, err
	}
	defer host.Release()
	copy(tensor.Of[int64](host), list)
	return a.Upload(ctx, host)
}
