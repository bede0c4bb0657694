//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// putMany enqueues numbers as one batch.
func (s sharer) putMany(values []int64) error {
	batch, err := tensor.FromSlice(tensor.Int64, tensor.Shape{int64(len(values))}, values)
	if err != nil {
		return err
	}
	defer batch.Release()
	_, err = s.Run(s.ctx, map[string]*tensor.Tensor{"x:0": batch}, nil, []string{"put_many"})
	return err
}

// getMany dequeues a batch with the given node.
func (s sharer) getMany(node string, n int) ([]int64, error) {
	count := tensor.Scalar(tensor.Int32, int32(n))
	defer count.Release()
	out, err := s.Run(s.ctx, map[string]*tensor.Tensor{"n:0": count}, []string{node + ":0"}, nil)
	if err != nil {
		return nil, err
	}
	defer out[0].Release()
	return slices.Clone(tensor.Of[int64](out[0])), nil
}

// TestBatchesThroughQueues checks that elements that clients enqueue in batches, in a queue of any kind, leave it in other batches, each
// element once.
func TestBatchesThroughQueues(t *testing.T) {
	t.Parallel()
	e := embed(t, "worker", 2)
	const producers, consumers, puts = 3, 4, 15
	for _, kind := range []string{"FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2"} {
		t.Run(kind, func(t *testing.T) {
			all := share(t, e, producers+consumers, queueNodes(kind, "batches"+kind, 12)...)
			var done sync.WaitGroup
			var mu sync.Mutex
			var in, out []int64
			var next, left atomic.Int64
			left.Store(producers)
			for _, s := range all {
				r := rand.New(rand.NewPCG(7, uint64(s.id)))
				done.Go(func() {
					if s.id >= producers {
						got, err := s.consume(r, kind == "PriorityQueueV2")
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						out = append(out, got...)
						return
					}
					for range puts {
						values := make([]int64, 1+r.IntN(20))
						for i := range values {
							values[i] = next.Add(1)
						}
						if err := s.putMany(values); err != nil {
							t.Error(err)
							break
						}
						mu.Lock()
						in = append(in, values...)
						mu.Unlock()
					}
					if left.Add(-1) == 0 {
						if a := s.run("", 0, "", "close"); a.code != status.OK {
							t.Error("closing:", a.code)
						}
					}
				})
			}
			done.Wait()
			slices.Sort(in)
			slices.Sort(out)
			if !slices.Equal(in, out) {
				t.Errorf("%d elements went in, %d came out: %s", len(in), len(out), difference(in, out))
			}
		})
	}
}

// consume dequeues batches until the queue is closed and empty, and checks that each is sorted if sorted is set.
func (s sharer) consume(r *rand.Rand, sorted bool) (all []int64, err error) {
	for {
		node, n := "get_many", 1+r.IntN(8)
		if r.IntN(2) == 0 {
			node = "get_up_to"
		}
		got, err := s.getMany(node, n)
		if status.CodeOf(err) == status.OutOfRange && (node == "get_up_to" || n == 1) {
			return all, nil
		}
		if err != nil && status.CodeOf(err) != status.OutOfRange {
			return all, err
		}
		if sorted && !slices.IsSorted(got) {
			return all, fmt.Errorf("a batch by priority is not sorted: %v", got)
		}
		all = append(all, got...)
	}
}

// difference describes the first difference between two sorted lists.
func difference(in, out []int64) string {
	for i := range min(len(in), len(out)) {
		if in[i] != out[i] {
			return fmt.Sprintf("%d went in where %d came out", in[i], out[i])
		}
	}
	return "one list begins the other"
}
