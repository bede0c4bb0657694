package random

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// blockCipher is the block cipher Simon (Beaulieu and others, 2013) with words of any width: what
// TensorFlow shuffles indices with. It hides nothing; it is a permutation.
type blockCipher struct {
	width int // bits of a word; a block has two
	keys  []uint64
}

func (c *blockCipher) mask() uint64 { return 1<<c.width - 1 }

func (c *blockCipher) rotate(x uint64, by int) uint64 {
	return (x<<by | x>>(c.width-by)) & c.mask()
}

// newBlockCipher derives the rounds' keys from the seed.
func newBlockCipher(width int, seed [3]uint32, rounds int) *blockCipher {
	c := &blockCipher{width: width}
	for _, s := range seed {
		c.keys = append(c.keys, uint64(s)&c.mask())
	}
	constant, sequence := uint64(0xfffffffc)&c.mask(), uint64(0x7369f885192c0ef5)&c.mask()
	for i := 3; i < rounds; i++ {
		last := c.keys[i-1]
		c.keys = append(c.keys, constant^sequence&1^c.keys[i-3]^c.rotate(last, c.width-3)^c.rotate(last, c.width-4))
		sequence >>= 1
	}
	return c
}

func (c *blockCipher) mix(x uint64) uint64 { return c.rotate(x, 1)&c.rotate(x, 8) ^ c.rotate(x, 2) }

func (c *blockCipher) encrypt(v uint64) uint64 {
	left, right := v>>c.width&c.mask(), v&c.mask()
	for i := 0; i+1 < len(c.keys); i += 2 {
		left ^= c.mix(right) ^ c.keys[i]
		right ^= c.mix(left) ^ c.keys[i+1]
	}
	return left<<c.width | right
}

// shuffledIndex is where index goes in the permutation of 0 to most that the seed gives.
func shuffledIndex(index, most uint64, seed [3]uint32, rounds int) uint64 {
	if most == 0 {
		return 0
	}
	bits := int(math.Ceil(math.Log2(float64(most))))
	bits = max(bits+bits%2, 16)
	c := newBlockCipher(bits/2, seed, rounds)
	for {
		// A permutation of the blocks; walking on to the next one in range makes one of the range.
		if index = c.encrypt(index); index <= most {
			return index
		}
	}
}

// newIndexShuffle makes the kernel of RandomIndexShuffle.
func newIndexShuffle[T int32 | int64 | uint32 | uint64](c *kernels.Construction) (any, error) {
	rounds, err := c.Attrs().Int("rounds")
	if err != nil {
		return nil, err
	}
	if rounds < 4 || rounds%2 != 0 || rounds > 1<<16 {
		return nil, status.InvalidArgumentf("rounds must be even and at least 4, got %d", rounds)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		index, seed, most := ctx.Input(0), ctx.Input(1), ctx.Input(2)
		if err := args.FirstError(args.CheckType(ctx, 0, element.DTypeOf[T]()), args.CheckType(ctx, 2, element.DTypeOf[T]())); err != nil {
			return err
		}
		n := max(index.Len(), most.Len(), seed.Len()/3)
		if index.Rank() != 0 && (index.Rank() != 1 || index.Len() != n) {
			return status.InvalidArgumentf("Index bust be a scalar or vector.")
		}
		if !(seed.Rank() == 1 && seed.Len() == 3) && !(seed.Rank() == 2 && seed.Dim(0) == n && seed.Dim(1) == 3) {
			return status.InvalidArgumentf("Seed must be a vector of size [3] or a matrix of size [%d, 3] but got %v.", n, seed.Shape())
		}
		if most.Rank() != 0 && (most.Rank() != 1 || most.Len() != n) {
			return status.InvalidArgumentf("Maxval must be a scalar or a vector of the same size as index but got %v", most.Shape())
		}
		shape := tensor.Shape{int64(n)}
		if index.Rank() == 0 && seed.Rank() == 1 && most.Rank() == 0 {
			shape = nil
		}
		out, err := ctx.Allocate(0, element.DTypeOf[T](), shape)
		if err != nil {
			return err
		}
		words, ok := seedWords[seed.DType()]
		for i := range element.ViewOf[T](out) {
			at, limit := element.ViewOf[T](index)[min(i, index.Len()-1)], element.ViewOf[T](most)[min(i, most.Len()-1)]
			switch {
			case at < 0:
				return status.InvalidArgumentf("index must be >= 0 but was %d", at)
			case limit < 0:
				return status.InvalidArgumentf("max_index must be >= 0 but was %d", limit)
			case limit < at:
				return status.InvalidArgumentf("max_index must be >= index, but %d < %d", limit, at)
			}
			if !ok {
				return status.InvalidArgumentf("Invalid seed type: %v", seed.DType())
			}
			key := words(seed, i*(seed.Rank()-1))
			element.ViewOf[T](out)[i] = T(shuffledIndex(uint64(at), uint64(limit), key, int(rounds)))
		}
		return nil
	}), nil
}

// seedWords read three numbers from row r of a seed.
var seedWords = map[tensor.DType]func(seed *tensor.Tensor, r int) [3]uint32{
	tensor.Int32: seedOf[uint32], tensor.Uint32: seedOf[uint32], tensor.Int64: seedOf[uint64], tensor.Uint64: seedOf[uint64],
}

func seedOf[T uint32 | uint64](seed *tensor.Tensor, r int) [3]uint32 {
	row := tensor.Of[T](seed)[3*r:][:3]
	return [3]uint32{uint32(row[0]), uint32(row[1]), uint32(row[2])}
}
