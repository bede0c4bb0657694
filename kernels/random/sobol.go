package random

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// directions is Joe and Kuo's table new-joe-kuo-6 ("Constructing Sobol sequences with better two-dimensional projections", 2008),
// compressed. It has a line for each dimension but the first: the degree of a primitive polynomial, its inner coefficients, and the first
// direction numbers.
//
//go:embed directions.gz
var directions []byte

// sobolDims is the number of dimensions, the same as in TensorFlow.
const sobolDims = 21200

// sobolDigits is the number of binary digits.
const sobolDigits = 32

// sobolTable returns the direction numbers of each dimension, as fractions of 1<<sobolDigits.
var sobolTable = sync.OnceValue(func() *[sobolDims][sobolDigits]uint32 {
	table := &[sobolDims][sobolDigits]uint32{}
	for k := range table[0] {
		table[0][k] = 1 << (sobolDigits - 1 - k)
	}
	// An error in the table is a bug.
	lines, err := gzip.NewReader(bytes.NewReader(directions))
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(lines)
	if err != nil {
		panic(err)
	}
	dim := 0
	for line := range strings.Lines(string(text)) {
		dim++
		words := strings.Fields(line)
		numbers := make([]uint32, len(words))
		for i, w := range words {
			n, err := strconv.ParseUint(w, 10, 32)
			if err != nil {
				panic(err)
			}
			numbers[i] = uint32(n)
		}
		degree, coefficients := int(numbers[0]), numbers[1]
		v := &table[dim]
		for k, m := range numbers[2:] {
			v[k] = m << (sobolDigits - 1 - k)
		}
		for k := degree; k < sobolDigits; k++ {
			v[k] = v[k-degree] ^ v[k-degree]>>degree
			for i := 1; i < degree; i++ {
				v[k] ^= v[k-i] * (coefficients >> (degree - 1 - i) & 1)
			}
		}
	}
	return table
})

// sobolSample is SobolSample. It returns points of a low-discrepancy sequence in the unit cube, in the order of Antonov and Saleev.
func sobolSample[T float32 | float64](ctx *kernels.Context) error {
	var in [3]int
	for i, name := range []string{"dim", "num_results", "skip"} {
		v, err := args.ScalarInput32(ctx, i, name+" must be a scalar")
		if err != nil {
			return err
		}
		in[i] = v
	}
	dim, count, skip := in[0], in[1], in[2]
	switch {
	case dim < 1:
		return status.InvalidArgumentf("dim must be at least one")
	case dim > sobolDims:
		return status.InvalidArgumentf("dim must be at most %d", sobolDims)
	case count < 1:
		return status.InvalidArgumentf("num_results must be at least one")
	case skip < 0:
		return status.InvalidArgumentf("skip must be non-negative")
	case count >= math.MaxInt32-skip:
		return status.InvalidArgumentf("num_results+skip must be less than %d", math.MaxInt32)
	case count >= math.MaxInt32/dim:
		return status.InvalidArgumentf("num_results*dim must be less than %d", math.MaxInt32)
	}
	out, err := ctx.Allocate(0, element.DTypeOf[T](), tensor.Shape{int64(count), int64(dim)})
	if err != nil {
		return err
	}
	dst, table := tensor.Of[T](out), sobolTable()
	ctx.Parallel(count, element.BlockLen/dim+1, func(lo, hi int) {
		point := make([]uint32, dim)
		number := skip + lo + 1 // skip the zero point
		for gray := uint32(number) ^ uint32(number)>>1; gray != 0; gray &= gray - 1 {
			step(point, table, bits.TrailingZeros32(gray))
		}
		for i := lo; i < hi; i++ {
			for j, v := range point {
				dst[i*dim+j] = T(v) * (1.0 / (1 << sobolDigits))
			}
			// The Gray code of the next number differs in the bit of this number's lowest zero.
			step(point, table, bits.TrailingZeros32(^uint32(skip+i+1)))
		}
	})
	return nil
}

// step flips the digits of a point that direction k stands for.
func step(point []uint32, table *[sobolDims][sobolDigits]uint32, k int) {
	for j := range point {
		point[j] ^= table[j][k]
	}
}
