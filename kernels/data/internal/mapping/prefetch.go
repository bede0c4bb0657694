package mapping

import (
	"io"
	"sync"

	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// prefetch requests elements ahead.
type prefetch struct {
	input *dataset.Dataset
	size  int64
	// tuned means that the buffer may grow beyond size.
	tuned bool
}

// autoPrefetch is the buffer size of a parallel interleave that leaves it to the server.
const autoPrefetch = 16

// A prefetch that leaves its size to the server has room for firstPrefetch elements. Whenever the reader empties a buffer that was full,
// the buffer doubles, up to maxPrefetch elements or maxPrefetchBytes.
const (
	firstPrefetch    = 4
	maxPrefetch      = 512
	maxPrefetchBytes = 64 << 20
)

func newPrefetch(s *dataset.Settings) dataset.Maker {
	least := int64(firstPrefetch)
	if s.Has("buffer_size_min") {
		least = min(max(least, s.Int("buffer_size_min")), maxPrefetch)
	}
	return func(in *dataset.Inputs) dataset.Kind {
		k := &prefetch{input: in.Dataset(0), size: in.Int(1, "buffer_size")}
		if in.Err == nil && k.size < 0 && k.size != dataset.Autotune {
			in.Failf("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")
		}
		if k.size == dataset.Autotune {
			k.size, k.tuned = least, true
		}
		return k
	}
}

// Prefetch returns the kind of a dataset that computes one element for each of the given calls ahead. See parallelCalls.
func Prefetch(in *dataset.Inputs, input *dataset.Dataset, calls int64) dataset.Kind {
	return &prefetch{input: input, size: parallelCalls(in, calls).calls}
}

func (k *prefetch) ChangesNothing() bool { return k.size == 0 }

func (k *prefetch) Cardinality(q *dataset.Query) int64 { return k.input.Cardinality(q) }

// InRange leaves the check of indices to the input.
func (k *prefetch) InRange(_, _ int64) error { return nil }

func (k *prefetch) At(c *dataset.Call, i int64) (dataset.Element, error) { return k.input.At(c, i) }

func (k *prefetch) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator {
		if k.size == 0 {
			return &o
		}
		return newPrefetching(e, o, k.size, k.tuned)
	})
}

// prefetching has one goroutine, which reads the input while there is room in the buffer. It starts with the first Next.
type prefetching struct {
	dataset.Over
	stage *dataset.Stage
	tuned bool // size may grow
	crew  *dataset.Crew
	// ready, if not nil, receives a value after a change.
	ready chan struct{}

	asking dataset.Turn // to read the input
	mu     sync.Mutex
	size   int64
	full   bool  // since it last grew
	latest int64 // the bytes of the latest element
	buffer []dataset.Outcome
	ended  bool          // the input's last outcome was its end
	news   chan struct{} // closed at the next change
}

func newPrefetching(e *dataset.Env, over dataset.Over, size int64, tuned bool) *prefetching {
	return &prefetching{Over: over, size: size, tuned: tuned, stage: e.Stage, asking: dataset.NewTurn()}
}

// begin starts the goroutine.
func (it *prefetching) begin(c *dataset.Call) {
	if it.crew == nil {
		it.crew = dataset.NewCrew(c.Env)
		it.news = make(chan struct{})
		it.stage.Attach(it)
		it.crew.Start(it.work)
	}
}

// changed wakes the waiters. The caller holds mu.
func (it *prefetching) changed() {
	close(it.news)
	it.news = make(chan struct{})
	if it.ready != nil {
		select {
		case it.ready <- struct{}{}:
		default: // a notification is already pending
		}
	}
}

// take removes an outcome, if there is one; ended means that none will follow.
func (it *prefetching) take() (o dataset.Outcome, ok, ended bool) {
	it.mu.Lock()
	defer it.mu.Unlock()
	if len(it.buffer) == 0 {
		it.grow()
		return dataset.Outcome{}, false, it.ended
	}
	o = it.buffer[0]
	it.buffer = it.buffer[1:]
	if it.crew != nil {
		it.changed()
	}
	return o, true, false
}

// grow doubles the buffer if it is empty after having been full. The caller holds mu.
func (it *prefetching) grow() {
	if it.tuned && it.full && it.size < maxPrefetch && 2*it.size*it.latest <= maxPrefetchBytes {
		it.size, it.full = 2*it.size, false
		if it.crew != nil {
			it.changed()
		}
	}
}

// Fill adds the buffer's contents.
func (it *prefetching) Fill(s *dataset.StageStats) {
	it.mu.Lock()
	defer it.mu.Unlock()
	s.Buffered += int64(len(it.buffer))
	s.BufferSize = max(s.BufferSize, 0) + it.size
	s.Tuned = s.Tuned || it.tuned
	for _, o := range it.buffer {
		s.Bytes += o.Bytes()
	}
}

// work fills the buffer until the input ends or the crew is closed.
func (it *prefetching) work() {
	for it.room() {
		if it.asking.Take(it.crew.Call) != nil {
			return
		}
		e, err := it.crew.Next(it.Input)
		it.mu.Lock()
		if dataset.AtEnd(err) {
			it.ended = true
		} else {
			it.buffer = append(it.buffer, dataset.Outcome{Element: e, Err: err})
			if it.tuned {
				it.latest = e.Bytes()
				it.full = it.full || int64(len(it.buffer)) >= it.size
			}
		}
		ended := it.ended
		it.changed()
		it.mu.Unlock()
		it.asking.Leave()
		if ended {
			return
		}
	}
}

// room waits for room in the buffer; false if the crew is closed, or nothing is left to request.
func (it *prefetching) room() bool {
	for {
		it.mu.Lock()
		room, news, ended := int64(len(it.buffer)) < it.size, it.news, it.ended
		it.mu.Unlock()
		if ended || it.crew.Cancellation.Err() != nil {
			return false
		}
		if room {
			return true
		}
		end := it.stage.WaitsForRoom()
		select {
		case <-news:
			end()
		case <-it.crew.Done:
			return false
		}
	}
}

func (it *prefetching) Next(c *dataset.Call) (dataset.Element, error) {
	it.begin(c)
	for {
		it.mu.Lock()
		news := it.news
		it.mu.Unlock()
		switch o, ok, ended := it.take(); {
		case ok:
			return o.Element, o.Err
		case ended:
			return nil, io.EOF
		}
		end := it.stage.WaitsForElement()
		select {
		case <-news:
			end()
		case <-c.Done:
			return nil, c.Err()
		case <-it.crew.Done:
			return nil, it.crew.Err()
		}
	}
}

func (it *prefetching) Close() {
	if it.crew != nil {
		it.crew.Close()
	}
	it.stage.Detach(it)
	it.mu.Lock()
	for _, o := range it.buffer {
		o.Release()
	}
	it.buffer = nil
	it.mu.Unlock()
	it.Over.Close()
}

func (it *prefetching) Save(c *dataset.Call, w *dataset.Writer) {
	if err := it.asking.Take(c); err != nil {
		w.Fail(err)
		return
	}
	defer it.asking.Leave()
	it.mu.Lock()
	defer it.mu.Unlock()
	w.Bool("ended", it.ended)
	dataset.SaveOutcomes(w, "buffer", it.buffer)
	it.Over.Save(c, w)
}

func (it *prefetching) Restore(c *dataset.Call, r *dataset.Reader) {
	it.ended = r.Bool("ended")
	it.buffer = dataset.RestoreOutcomes(r, "buffer")
	it.Over.Restore(c, r)
}
