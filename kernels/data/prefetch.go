package data

import (
	"io"
	"sync"
)

// prefetch requests elements ahead.
type prefetch struct {
	input *Dataset
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

func newPrefetch(s *settings) maker {
	least := int64(firstPrefetch)
	if s.Has("buffer_size_min") {
		least = min(max(least, s.Int("buffer_size_min")), maxPrefetch)
	}
	return func(in *inputs) kind {
		k := &prefetch{input: in.dataset(0), size: in.int(1, "buffer_size")}
		if in.err == nil && k.size < 0 && k.size != autotune {
			in.failf("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")
		}
		if k.size == autotune {
			k.size, k.tuned = least, true
		}
		return k
	}
}

func (k *prefetch) changesNothing() bool { return k.size == 0 }

func (k *prefetch) cardinality(q *query) int64 { return k.input.cardinality(q) }

// inRange leaves the check of indices to the input.
func (k *prefetch) inRange(_, _ int64) error { return nil }

func (k *prefetch) at(c *Call, i int64) (Element, error) { return k.input.at(c, i) }

func (k *prefetch) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator {
		if k.size == 0 {
			return &o
		}
		return &prefetching{over: o, size: k.size, tuned: k.tuned, stage: e.stage}
	})
}

func (o *over) Next(c *Call) (Element, error) { return o.input.Next(c) }

// prefetching has one goroutine, which reads the input while there is room in the buffer. It starts with the first Next.
type prefetching struct {
	over
	stage *stage
	tuned bool // size may grow
	crew  *crew
	// ready, if not nil, receives a value after a change.
	ready chan struct{}

	asking sync.Mutex // held while the input is read
	mu     sync.Mutex
	size   int64
	full   bool  // since it last grew
	latest int64 // the bytes of the latest element
	buffer []outcome
	ended  bool          // the input's last outcome was its end
	news   chan struct{} // closed at the next change
}

// begin starts the goroutine.
func (it *prefetching) begin(c *Call) {
	if it.crew == nil {
		it.crew = newCrew(c.Env)
		it.news = make(chan struct{})
		it.stage.attach(it)
		it.crew.start(it.work)
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
func (it *prefetching) take() (o outcome, ok, ended bool) {
	it.mu.Lock()
	defer it.mu.Unlock()
	if len(it.buffer) == 0 {
		it.grow()
		return outcome{}, false, it.ended
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

// fill adds the buffer's contents.
func (it *prefetching) fill(s *StageStats) {
	it.mu.Lock()
	defer it.mu.Unlock()
	s.Buffered += int64(len(it.buffer))
	s.BufferSize = max(s.BufferSize, 0) + it.size
	s.Tuned = s.Tuned || it.tuned
	for _, o := range it.buffer {
		s.Bytes += o.bytes()
	}
}

// work fills the buffer until the input ends or the crew is closed.
func (it *prefetching) work() {
	for it.room() {
		it.asking.Lock()
		e, err := it.crew.next(it.input)
		it.mu.Lock()
		if atEnd(err) {
			it.ended = true
		} else {
			it.buffer = append(it.buffer, outcome{e, err})
			if it.tuned {
				it.latest = e.bytes()
				it.full = it.full || int64(len(it.buffer)) >= it.size
			}
		}
		ended := it.ended
		it.changed()
		it.mu.Unlock()
		it.asking.Unlock()
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
		end := it.stage.waitsForRoom()
		select {
		case <-news:
			end()
		case <-it.crew.Done:
			return false
		}
	}
}

func (it *prefetching) Next(c *Call) (Element, error) {
	it.begin(c)
	for {
		it.mu.Lock()
		news := it.news
		it.mu.Unlock()
		switch o, ok, ended := it.take(); {
		case ok:
			return o.Element, o.err
		case ended:
			return nil, io.EOF
		}
		end := it.stage.waitsForElement()
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
		it.crew.close()
	}
	it.stage.detach(it)
	it.mu.Lock()
	for _, o := range it.buffer {
		o.release()
	}
	it.buffer = nil
	it.mu.Unlock()
	it.over.Close()
}

func (it *prefetching) Save(c *Call, w *Writer) {
	it.asking.Lock()
	defer it.asking.Unlock()
	it.mu.Lock()
	defer it.mu.Unlock()
	w.Bool("ended", it.ended)
	saveOutcomes(w, "buffer", it.buffer)
	it.over.Save(c, w)
}

func (it *prefetching) Restore(c *Call, r *Reader) {
	it.ended = r.Bool("ended")
	it.buffer = restoreOutcomes(r, "buffer")
	it.over.Restore(c, r)
}
