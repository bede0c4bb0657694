package nn

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/kernels/internal/element"
)

// rankKey is an element as an unsigned integer. The lower the key, the earlier the element comes in the order of TopK.
type rankKey interface{ uint32 | uint64 }

// ranked is an element of a row: its key and its index. Among equal elements, the first comes first.
type ranked[K rankKey] struct {
	key K
	at  uint32
}

// longestRanked is the length of the longest row whose indices a ranked can hold.
const longestRanked = math.MaxUint32

// wordsOf returns the size of n elements in words of 8 bytes.
func wordsOf[T any](n int) int {
	var zero T
	return (n*int(unsafe.Sizeof(zero)) + 7) / 8
}

// cut views the first words as n elements, and returns those and the remaining words.
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

// These functions compute the keys of a row. The key of an integer is its distance from the greatest integer.

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
		b := math.Float32bits(v + 0) // -0 + 0 is +0
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

// keysOfLeast orders the least number first and NaNs last.
func keysOfLeast(keys []uint32, row []float32) {
	keysOfFloats(keys, row)
	for i := range keys[:len(row)] {
		keys[i] = ^keys[i]
	}
}

// ranking finds the greatest elements of rows by their keys.
type ranking[T element.Ordered, K rankKey] struct {
	keys func(keys []K, row []T)
	// least is set if the keys put the least elements first. The list in topRows does not support that.
	least bool
}

// Rankings of the types of TopK.
var (
	rankFloats  = ranking[float32, uint32]{keys: keysOfFloats}
	rankDoubles = ranking[float64, uint64]{keys: keysOfDoubles}
	rankInt8    = ranking[int8, uint32]{keys: keysOfInts[int8, uint32]}
	rankInt16   = ranking[int16, uint32]{keys: keysOfInts[int16, uint32]}
	rankInt32   = ranking[int32, uint32]{keys: keysOfInts[int32, uint32]}
	rankInt64   = ranking[int64, uint64]{keys: keysOfInts[int64, uint64]}
	rankUint8   = ranking[uint8, uint32]{keys: keysOfUints[uint8, uint32]}
	rankUint16  = ranking[uint16, uint32]{keys: keysOfUints[uint16, uint32]}
	rankUint32  = ranking[uint32, uint32]{keys: keysOfUints[uint32, uint32]}
	rankLeast   = ranking[float32, uint32]{keys: keysOfLeast, least: true}
	rankUint64  = ranking[uint64, uint64]{keys: keysOfUints[uint64, uint64]}
)

// sortsAll reports whether a row is sorted as a whole, rather than sifted for the greatest elements.
func sortsAll(count, columns int) bool { return count > columns/8 }

// room returns the number of elements that top needs room for.
func (r ranking[T, K]) room(count, columns int) int {
	if sortsAll(count, columns) {
		return 2 * columns
	}
	return 2 * count
}

// words returns the memory that top needs for a row, in words of 8 bytes.
func (r ranking[T, K]) words(count, columns int) int {
	return wordsOf[K](element.BlockLen) + wordsOf[ranked[K]](r.room(count, columns))
}

// top returns the count greatest elements of row, in order. They are stored in work.
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

// sift collects elements in best, which has room for 2·count. Whenever best is full, sift keeps the first count elements of the order; from
// then on, only elements that precede the last of those matter.
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

// partition moves the first n elements of the order to the front, with the last of them at index n-1.
func partition[K rankKey](s []ranked[K], n int) {
	lo, hi := 0, len(s)-1
	for lo < hi {
		// A random pivot, so that no input is consistently bad.
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

// sortByKey sorts s by 8-bit digits, starting with the lowest. spare has the same length. It returns whichever of the two slices holds the
// result. The sort is stable.
func sortByKey[K rankKey](s, spare []ranked[K]) []ranked[K] {
	if len(s) < 128 { // counting would cost more
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
			continue // all elements share this digit
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
