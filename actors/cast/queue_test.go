package cast

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

func TestOverhead(t *testing.T) {
	if size := unsafe.Sizeof(item{}); size != Overhead {
		t.Errorf("an item takes %d bytes, Overhead is %d", size, Overhead)
	}
}

// TestQueue compares a queue with a slice, over random operations on two queues, one of which is appended to the other.
func TestQueue(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var q, other queue
		var want, wantOther []int
		number := 0
		push := func(q *queue, want *[]int) {
			for range random.IntN(3 * largePiece) {
				number++
				q.push(&item{size: number})
				*want = append(*want, number)
			}
		}
		for range 50 {
			switch random.IntN(5) {
			case 0:
				push(&q, &want)
			case 1:
				push(&other, &wantOther)
			case 2:
				q.append(&other)
				want, wantOther = append(want, wantOther...), nil
				if !other.empty() {
					t.Fatalf("seed %d: what was appended is still there", seed)
				}
			case 3:
				p := q.take()
				if (p == nil) != (len(want) == 0) {
					t.Fatalf("seed %d: %v was taken of %d items", seed, p, len(want))
				}
				if p == nil {
					continue
				}
				for _, i := range p.items {
					if i.size != want[0] {
						t.Fatalf("seed %d: item %d came, not %d", seed, i.size, want[0])
					}
					want = want[1:]
				}
				p.free()
			case 4:
				at := 0
				for i := range q.all {
					if at >= len(want) || i.size != want[at] {
						t.Fatalf("seed %d: item %d is at %d", seed, i.size, at)
					}
					at++
				}
				if at != len(want) || q.empty() != (at == 0) {
					t.Fatalf("seed %d: %d items of %d", seed, at, len(want))
				}
				if random.IntN(10) == 0 {
					q.clear()
					want = nil
				}
			}
		}
	}
}

// TestAppendedPiecesAreFew checks that many short queues become few pieces: they are taken one by one.
func TestAppendedPiecesAreFew(t *testing.T) {
	var q queue
	for range smallPiece + largePiece {
		var one queue
		one.push(&item{})
		q.append(&one)
	}
	var sizes []int
	for p := q.take(); p != nil; p = q.take() {
		sizes = append(sizes, len(p.items))
		p.free()
	}
	if want := []int{smallPiece, largePiece}; !slices.Equal(sizes, want) {
		t.Errorf("pieces of %v items, want %v", sizes, want)
	}
}
