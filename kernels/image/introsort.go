package image

import (
	"math/bits"
	"slices"
)

// shortRun is the length of lists that are left to insertion sort.
const shortRun = 16

// introsort sorts like std::sort of GNU's C++ library, by quicksort and insertion sort, so that equal elements come out in the order of
// TensorFlow's results.
func introsort[T any](list []T, before func(a, b T) bool) {
	if len(list) > shortRun {
		quicksort(list, before, 2*(bits.Len(uint(len(list)))-1))
	}
	for i := 1; i < len(list); i++ {
		v, j := list[i], i
		for ; j > 0 && before(v, list[j-1]); j-- {
			list[j] = list[j-1]
		}
		list[j] = v
	}
}

// quicksort partitions a list until its runs are short. If the partitions are too unbalanced, it uses another algorithm.
func quicksort[T any](list []T, before func(a, b T) bool, depth int) {
	for ; len(list) > shortRun; depth-- {
		if depth == 0 {
			slices.SortStableFunc(list, func(a, b T) int {
				switch {
				case before(a, b):
					return -1
				case before(b, a):
					return 1
				}
				return 0
			})
			return
		}
		n := len(list)
		m := median(list, 1, n/2, n-1, before)
		list[0], list[m] = list[m], list[0]
		cut := partition(list, before)
		quicksort(list[cut:], before, depth-1)
		list = list[:cut]
	}
}

// median returns the index of the median of three elements.
func median[T any](list []T, a, b, c int, before func(a, b T) bool) int {
	if !before(list[a], list[b]) {
		a, b = b, a
	}
	switch {
	case before(list[b], list[c]):
		return b
	case before(list[a], list[c]):
		return c
	}
	return a
}

// partition moves what belongs before the first element to the front, and returns where the rest begins.
func partition[T any](list []T, before func(a, b T) bool) int {
	pivot, low, high := list[0], 1, len(list)
	for {
		for before(list[low], pivot) {
			low++
		}
		high--
		for before(pivot, list[high]) {
			high--
		}
		if low >= high {
			return low
		}
		list[low], list[high] = list[high], list[low]
		low++
	}
}
