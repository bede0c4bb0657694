package nn

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/kernels/internal/element"
)

// rankKey is an element as an unsigned integer: the less, the earlier it stands in the order of TopK.
type rankKey interface{ uint32 | uint64 }

// ranked is an element of a row: its key, and where it stands. Of equal elements the first one comes first.
type ranked[K rankKey] struct {
	key K
	at  uint32
}

// longestRanked is the length of the longest row whose places a ranked can hold.
const longestRanked = math.MaxUint32

// wordsOf is the memory of n elements, in words of 8 bytes.
func wordsOf[T any](n int) int {
	var zero T
	return (n*int(unsafe.Sizeof(zero)) + 7) / 8
}

// cut views the first words as n elements, and gives the words after them.
func cut[T any](words []uint64, n int) (elements []T, rest []uint64) {
	size := wordsOf[T](n)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(words[:size]))), n), words[size:]
}

func compareRanked[K rankKey](a, b ranked[K]) int {
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c
	}
	return cmp.Compare(a.at, b.at)
}

// The functions that make keys of a row: of integers by their distance from the greatest one.

func keysOfInts[T element.SignedInt, K rankKey](keys []K, row []T) {
	keys = keys[:len(row)]
	for i, v := range row {
		keys[i] = ^(K(v) ^ ^(^K(0) >> 1))
	}
}

func keysOfUints[T element.Integer, K rankKey](keys []K, row []T) {
	keys = keys[:len(row)]
	for i, v := range row {
		keys[i] = ^K(v)
	}
}

// Zeros are equal whatever their sign. NaNs are equal, and greater than all numbers.

func keysOfFloats(keys []uint32, row []float32) {
	keys = keys[:len(row)]
	for i, v := range row {
		b := math.Float32bits(v + 0) // the sum of zeros is the positive one
		b = ^b&^uint32(int32(b)>>31)&^(1<<31) | b&uint32(int32(b)>>31)
		if v != v {
			b = 0
		}
		keys[i] = b
	}
}

func keysOfDoubles(keys []uint64, row []float64) {
	keys = keys[:len(row)]
	for i, v := range row {
		b := math.Float64bits(v + 0)
		b = ^b&^uint64(int64(b)>>63)&^(1<<63) | b&uint64(int64(b)>>63)
		if v != v {
			b = 0
		}
		keys[i] = b
	}
}

// ranking finds the greatest elements of rows by their keys.
type ranking[T element.Ordered, K rankKey] struct{ keys func(keys []K, row []T) }

// The rankings of the types of TopK.
var (
	rankFloats  = ranking[float32, uint32]{keysOfFloats}
	rankDoubles = ranking[float64, uint64]{keysOfDoubles}
	rankInt8    = ranking[int8, uint32]{keysOfInts[int8, uint32]}
	rankInt16   = ranking[int16, uint32]{keysOfInts[int16, uint32]}
	rankInt32   = ranking[int32, uint32]{keysOfInts[int32, uint32]}
	rankInt64   = ranking[int64, uint64]{keysOfInts[int64, uint64]}
	rankUint8   = ranking[uint8, uint32]{keysOfUints[uint8, uint32]}
	rankUint16  = ranking[uint16, uint32]{keysOfUints[uint16, uint32]}
	rankUint32  = ranking[uint32, uint32]{keysOfUints[uint32, uint32]}
	rankUint64  = ranking[uint64, uint64]{keysOfUints[uint64, uint64]}
)

// sortsAll tells whether a row is sorted as a whole, rather than sifted for the greatest.
func sortsAll(count, columns int) bool { return count > columns/8 }

// room is how many elements top needs room for.
func (r ranking[T, K]) room(count, columns int) int {
	if sortsAll(count, columns) {
		return 2 * columns
	}
	return 2 * count
}

// words is the memory that top needs for a row, in words of 8 bytes.
func (r ranking[T, K]) words(count, columns int) int {
	return wordsOf[K](element.BlockLen) + wordsOf[ranked[K]](r.room(count, columns))
}

// top gives the count greatest elements of row, in order. They lie in work.
func (r ranking[T, K]) top(work []uint64, row []T, count int) []ranked[K] {
	keys, work := cut[K](work, element.BlockLen)
	best, _ := cut[ranked[K]](work, r.room(count, len(row)))
	if !sortsAll(count, len(row)) {
		return r.sift(best, keys, row, count)
	}
	for from := 0; from < len(row); from += len(keys) {
		block := row[from:min(from+len(keys), len(row))]
		r.keys(keys, block)
		for i, key := range keys[:len(block)] {
			best[from+i] = ranked[K]{key, uint32(from + i)}
		}
	}
	return sortByKey(best[:len(row)], best[len(row):])[:count]
}

// sift collects elements in best, which has room for twice as many as are wanted, and whenever it is full keeps the wanted ones:
// from then on only what comes before the last of them is of interest.
func (r ranking[T, K]) sift(best []ranked[K], keys []K, row []T, count int) []ranked[K] {
	n, limit, limited := 0, K(0), false
	for from := 0; from < len(row); from += len(keys) {
		block := row[from:min(from+len(keys), len(row))]
		r.keys(keys, block)
		for i, key := range keys[:len(block)] {
			if limited && key >= limit {
				continue
			}
			best[n] = ranked[K]{key, uint32(from + i)}
			if n++; n == len(best) {
				partition(best, count)
				n, limit, limited = count, best[count-1].key, true
			}
		}
	}
	best = best[:n]
	slices.SortFunc(best, compareRanked)
	return best[:count]
}

// partition brings the n first of the order to the front, and the last of those to their end.
func partition[K rankKey](s []ranked[K], n int) {
	lo, hi := 0, len(s)-1
	for lo < hi {
		// A pivot by chance, so that no input is a bad one each time.
		pivot := s[lo+rand.IntN(hi-lo+1)]
		i, j := lo, hi
		for i <= j {
			for compareRanked(s[i], pivot) < 0 {
				i++
			}
			for compareRanked(s[j], pivot) > 0 {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case n-1 <= j:
			hi = j
		case n-1 >= i:
			lo = i
		default:
			return
		}
	}
}

// sortByKey sorts s by digits of 8 bits from the last on, with spare as room for as many, and gives the one of the two that
// the result is in. Elements with one key stay in their order.
func sortByKey[K rankKey](s, spare []ranked[K]) []ranked[K] {
	if len(s) < 128 { // the counts would cost more
		slices.SortFunc(s, compareRanked)
		return s
	}
	var counts [8][256]uint32
	digits := int(unsafe.Sizeof(K(0)))
	for _, e := range s {
		for d := range digits {
			counts[d][uint8(e.key>>(8*d))]++
		}
	}
	for d := range digits {
		count := &counts[d]
		if int(count[uint8(s[0].key>>(8*d))]) == len(s) {
			continue // all have this digit in common
		}
		sum := uint32(0)
		for i, n := range count {
			count[i] = sum
			sum += n
		}
		for _, e := range s {
			to := &count[uint8(e.key>>(8*d))]
			spare[*to] = e
			*to++
		}
		s, spare = spare, s
	}
	return s
}
