// Package permute implements TensorFlow's pseudorandom permutation of a range of integers, which needs no memory.
package permute

import "math"

// blockCipher is the block cipher Simon (Beaulieu and others, 2013) with words of any width, which TensorFlow shuffles indices with. It
// serves as a permutation, not for secrecy.
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

// roundTime is the time in nanoseconds of a round.
const roundTime = 4

// Index returns the position of index in the permutation of 0 to most, inclusive, given by seed. after, if not nil, is called before each
// encryption with its time in nanoseconds, and its error is returned.
func Index(index, most uint64, seed [3]uint32, rounds int, after func(work int) error) (uint64, error) {
	if most == 0 {
		return 0, nil
	}
	bits := int(math.Ceil(math.Log2(float64(most))))
	bits = max(bits+bits%2, 16)
	c := newBlockCipher(bits/2, seed, rounds)
	for {
		if after != nil {
			if err := after(roundTime * rounds); err != nil {
				return 0, err
			}
		}
		// encrypt permutes the blocks; repeating it until the result is in range permutes the range.
		if index = c.encrypt(index); index <= most {
			return index, nil
		}
	}
}
