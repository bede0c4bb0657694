package launch

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Threads is the block size of functions that work on elements one by one.
const Threads = 256

// PerElement returns a launch of a function whose threads stride over n elements. The grid has enough blocks to fill the card several
// times; more would only add their launch cost.
func PerElement(a kernels.Accelerator, function string, n int, args ...uint64) kernels.Launch {
	blocks := (n + Threads - 1) / Threads
	return kernels.Launch{Function: function, Grid: [3]int{min(blocks, 32*a.Card().Processors)}, Block: [3]int{Threads}, Args: args}
}

// Ops whose indices are in an accelerator's memory cannot check them beforehand. As in TensorFlow's GPU kernels, reading an index that is
// out of bounds yields zeros, and updating one is skipped. The callers have checked shapes.

// IndexKind encodes the integer type of indices for a device function.
func IndexKind(d tensor.DType) uint64 {
	if d == tensor.Int8 {
		return 0
	}
	return uint64(d.Size())
}

// PointWords returns the device's struct Point: the dimensions that rows of indices refer to.
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

// Divisor returns the two words of the device's struct Divisor, which divides indices up to largest by size.
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

// Widest returns the greatest element size, from size to 16 bytes, that divides all the given addresses and distances in bytes.
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

// CellFunction returns the name of the function for elements of a size.
func CellFunction(name string, size int) string { return name + cellSuffixes[size] }

var cellSuffixes = [...]string{1: "_1", 2: "_2", 4: "_4", 8: "_8", 16: "_16"}

// UploadInts copies a list to the device.
func UploadInts(ctx *kernels.Context, a kernels.Accelerator, list []int64) (*tensor.Tensor, error) {
	host, err := a.Pool().New(tensor.Int64, tensor.Shape{int64(len(list))})
	if err != nil {
		return nil, err
	}
	defer host.Release()
	copy(tensor.Of[int64](host), list)
	return a.Upload(ctx, host)
}
