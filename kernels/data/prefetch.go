package data

import (
	"io"
	"sync"
)

// prefetch asks for elements before they are asked for.
type prefetch struct {
	input *Dataset
	size  int64
}

// autoPrefetch is the elements in the buffer where its size is left to the server.
const autoPrefetch = 16

func newPrefetch(*settings) maker {
	return func(in *inputs) kind {
		k := &prefetch{in.dataset(0), in.int(1, "buffer_size")}
		if in.err == nil && k.size < 0 && k.size != autotune {
			in.failf("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")
		}
		if k.size == autotune {
			k.size = autoPrefetch
		}
		return k
	}
}

func (k *prefetch) cardinality() int64 { return k.input.cardinality() }

func (k *prefetch) at(c *Call, i int64) (Element, error) { return k.input.at(c, i) }

func (k *prefetch) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator {
		if k.size == 0 {
			return &o
		}
		return &prefetching{over: o, size: k.size}
	})
}

func (o *over) Next(c *Call) (Element, error) { return o.input.Next(c) }

// prefetching has one goroutine, which asks the input while there is room in the buffer. It begins with the first Next.
type prefetching struct {
	over
	size int64
	crew *crew
	// ready, if not nil, gets an element at a change.
	ready chan struct{}

	asking sync.Mutex // held while the input is asked
	mu     sync.Mutex
	buffer []outcome
	ended  bool          // the last outcome of the input was the end
	news   chan struct{} // closed at a change that somebody waits for
}

// begin starts the goroutine.
func (it *prefetching) begin(c *Call) {
	if it.crew == nil {
		it.crew = newCrew(c.Env)
		it.news = make(chan struct{})
		it.crew.start(it.work)
	}
}

// changed tells who waits. The caller holds mu.
func (it *prefetching) changed() {
	close(it.news)
	it.news = make(chan struct{})
	if it.ready != nil {
		select {
		case it.ready <- struct{}{}:
		default: // whoever waits will be told
		}
	}
}

// take takes off an outcome, if there is one; ended tells that there will be none.
func (it *prefetching) take() (o outcome, ok, ended bool) {
	it.mu.Lock()
	defer it.mu.Unlock()
	if len(it.buffer) == 0 {
		return outcome{}, false, it.ended
	}
	o = it.buffer[0]
	it.buffer = it.buffer[1:]
	if it.crew != nil {
		it.changed()
	}
	return o, true, false
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

// room waits until there is room in the buffer; false when the crew is closed, or there is nothing left to ask for.
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
		select {
		case <-news:
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
		select {
		case <-news:
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
	for _, o := range it.buffer {
		o.release()
	}
	it.buffer = nil
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
