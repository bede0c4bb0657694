package array

import (
	"math/rand/v2"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// numbering numbers elements by first appearance.
type numbering struct {
	number []int32 // the number of each element
	first  []int64 // the first element with each number
	meter  *kernels.Meter
}

// appear assigns the next number to element i.
func (n *numbering) appear(i int) error {
	if len(n.first) == cap(n.first) {
		longer, err := kernels.Scratch[int64](n.meter, max(64, 2*len(n.first)))
		if err != nil {
			return err
		}
		n.first = longer[:copy(longer, n.first)]
	}
	n.number[i] = int32(len(n.first))
	n.first = append(n.first, int64(i))
	return nil
}

// cell is the bits of an element.
type cell interface {
	uint8 | uint16 | uint32 | uint64
}

// slot is an entry of a cell table: a cell and its number plus one, or 0 for a free slot.
type slot[K cell] struct {
	key    K
	number int32
}

// cellTable maps cells to numbers by open addressing: a cell is in the first free slot after the one that its hash selects. The table is at
// most half full.
type cellTable[K cell] struct {
	slots []slot[K]
	shift int // the hash is the upper bits of a product
	used  int
}

// hashFactor is odd and differs between processes, so that clients cannot construct elements that all collide.
var hashFactor = rand.Uint64() | 1

// leastSlots is the size of a new table, moreSlots the factor by which a half-full table grows. Both are exponents of 2.
const leastSlots, moreSlots = 10, 2

// grow enlarges the table to 2^bits slots.
func (t *cellTable[K]) grow(m *kernels.Meter, bits int) error {
	slots, err := kernels.Scratch[slot[K]](m, 1<<bits)
	if err != nil {
		return err
	}
	old := t.slots
	t.slots, t.shift = slots, 64-bits
	for _, s := range old {
		if s.number != 0 {
			*t.find(s.key) = s
		}
	}
	return nil
}

// find returns the slot that holds key, or else the free slot for it.
func (t *cellTable[K]) find(key K) *slot[K] {
	slots := t.slots
	mask := len(slots) - 1
	at := int(uint64(key)*hashFactor>>t.shift) & mask
	for slots[at].number != 0 && slots[at].key != key {
		at = (at + 1) & mask
	}
	return &slots[at]
}

// floatCells identifies the zeros and NaNs among the cells of a float type.
type floatCells[K cell] struct{ sign, infinity K }

// numberCells numbers cells. For floats, zeros are equal whatever their sign, and each NaN is distinct, as in TensorFlow's hash maps.
func numberCells[K cell](n *numbering, cells []K, float floatCells[K]) error {
	var t cellTable[K]
	if err := t.grow(n.meter, leastSlots); err != nil {
		return err
	}
	for i, key := range cells {
		if float.sign != 0 {
			size := key &^ float.sign
			if size > float.infinity {
				if err := n.appear(i); err != nil {
					return err
				}
				continue
			}
			if size == 0 {
				key = 0
			}
		}
		s := t.find(key)
		if s.number != 0 {
			n.number[i] = s.number - 1
			continue
		}
		if err := n.appear(i); err != nil {
			return err
		}
		*s = slot[K]{key, n.number[i] + 1}
		if t.used++; 2*t.used > len(t.slots) {
			if err := t.grow(n.meter, 64-t.shift+moreSlots); err != nil {
				return err
			}
		}
	}
	return nil
}

func cellNumberer[K cell](float floatCells[K]) func(*numbering, *tensor.Tensor) error {
	return func(n *numbering, t *tensor.Tensor) error { return numberCells(n, element.Cells[K](t.Data()), float) }
}

// numberStrings numbers strings. The map keeps their headers, not copies.
func numberStrings(n *numbering, t *tensor.Tensor) error {
	return numberKeys(n, func(i int) (string, bool) { return t.Strings()[i], false })
}

// mapEntry is the memory charged for an entry of a map of strings.
const mapEntry = 64

// numberKeys numbers elements by their keys.
func numberKeys(n *numbering, key sliceKey) error {
	seen := map[string]int32{}
	for i := range n.number {
		k, lone := key(i)
		if lone {
			if err := n.appear(i); err != nil {
				return err
			}
			continue
		}
		id, ok := seen[k]
		if ok {
			n.number[i] = id
			continue
		}
		if err := n.meter.Take(mapEntry + len(k)); err != nil {
			return err
		}
		if err := n.appear(i); err != nil {
			return err
		}
		seen[k] = n.number[i]
	}
	return nil
}

// numberers number elements of a type. Other types are distinguished by their bits.
var numberers = map[tensor.DType]func(*numbering, *tensor.Tensor) error{
	tensor.Float32: cellNumberer(floatCells[uint32]{1 << 31, 0x7f800000}),
	tensor.Float64: cellNumberer(floatCells[uint64]{1 << 63, 0x7ff << 52}),
	tensor.String:  numberStrings,
}

// numberersOfSize holds the numberers of other types, by element size.
var numberersOfSize = map[int]func(*numbering, *tensor.Tensor) error{
	1: cellNumberer(floatCells[uint8]{}), 2: cellNumberer(floatCells[uint16]{}),
	4: cellNumberer(floatCells[uint32]{}), 8: cellNumberer(floatCells[uint64]{}),
}
