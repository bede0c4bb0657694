package containers

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
)

const (
	// pictureWait is how long a picture waits for the steps that have changed variables to end. Steps that come meanwhile wait as long.
	pictureWait = 100 * time.Millisecond
	// pictureTries is how often it waits, every pictureAgain, before it is taken in the middle of steps.
	pictureTries = 10
	pictureAgain = time.Second
	// pictureRetry is how soon a picture that could not be written is taken again, at the latest.
	pictureRetry = 10 * time.Second
	// pieceBytes is the size of the pieces in which values are written.
	pieceBytes = 16 << 20
	// mostStrings is the most bytes of a value of strings, which is written in one piece.
	mostStrings = 1 << 30
)

// Pictures keeps variables by pictures. A variable that changes at every step of a training is too large to be written at every step. So all
// variables that have changed are written at intervals: as they were at one moment between two steps. Steps go on while a picture is
// written; those that change a value meanwhile copy it first, as they do for every reader. All methods may be called concurrently.
type Pictures struct {
	store *durable.Store
	log   *slog.Logger
	life  context.Context
	die   context.CancelFunc
	work  sync.WaitGroup

	errs sync.Map // by time.Duration, why the last picture of a group could not be written

	taking sync.Mutex // held while a picture is taken and written: there is no hurry that would be worth two at once

	mu     sync.Mutex
	groups map[time.Duration]map[*Variable]struct{} // by their interval
	closed map[*Variable]*tensor.Tensor             // what variables had when they left their container, not written yet
}

// NewPictures returns a Pictures that writes to store. Its owner calls Stop before it closes the store.
func NewPictures(store *durable.Store, log *slog.Logger) *Pictures {
	p := &Pictures{store: store, log: log, groups: map[time.Duration]map[*Variable]struct{}{}, closed: map[*Variable]*tensor.Tensor{}}
	p.life, p.die = context.WithCancel(context.Background())
	return p
}

// Stop writes what has changed since the last pictures, and ends.
func (p *Pictures) Stop() error {
	p.die()
	p.work.Wait()
	p.taking.Lock()
	defer p.taking.Unlock()
	return p.write(p.collect(-1), true)
}

// add has pictures of a variable taken.
func (p *Pictures) add(v *Variable, every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	group := p.groups[every]
	if group == nil {
		group = map[*Variable]struct{}{}
		p.groups[every] = group
		p.work.Add(1)
		contain.Go(p.log, "The snapshots of variables", func() {
			defer p.work.Done()
			p.run(every)
		}, nil)
	}
	group[v] = struct{}{}
}

// remove ends the pictures of a variable that leaves its container. value is what was not written yet, or nil; Pictures takes it over.
func (p *Pictures) remove(v *Variable, every time.Duration, value *tensor.Tensor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.groups[every], v)
	if value != nil {
		p.closed[v] = value
	}
}

// run takes a picture of a group at each interval.
func (p *Pictures) run(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-p.life.Done():
			return
		case <-t.C:
		}
		was := p.failed(every)
		switch err := p.take(every); {
		case err != nil:
			p.log.Error("variables could not be kept, and do not change until they can be", "error", err)
			t.Reset(min(every, pictureRetry))
		case was != nil:
			t.Reset(every)
		}
	}
}

// tell notes how the last picture of a group has ended.
func (p *Pictures) tell(every time.Duration, err error) {
	if err == nil {
		p.errs.Delete(every)
		return
	}
	p.errs.Store(every, err)
}

// failed returns why the last picture of a group could not be written, or nil.
func (p *Pictures) failed(every time.Duration) error {
	err, _ := p.errs.Load(every)
	failed, _ := err.(error)
	return failed
}

// take takes a picture of a group and writes it, and notes how that ended.
func (p *Pictures) take(every time.Duration) (err error) {
	defer func() { p.tell(every, err) }()
	p.taking.Lock()
	defer p.taking.Unlock()
	open, ok := p.store.Gate().Close(pictureWait)
	for try := 1; !ok && try < pictureTries; try++ {
		select {
		case <-p.life.Done():
			return nil // Stop takes the last one
		case <-time.After(pictureAgain):
		}
		open, ok = p.store.Gate().Close(pictureWait)
	}
	if !ok {
		p.log.Info("variables are kept as they are in the middle of steps, which do not end", "tries", pictureTries)
		open = func() {}
	}
	values := p.collect(every)
	open()
	return p.write(values, false)
}

// collect returns the values of a group that have changed, or of all groups if every is negative, with a reference to each.
func (p *Pictures) collect(every time.Duration) map[*Variable]*tensor.Tensor {
	p.mu.Lock()
	defer p.mu.Unlock()
	values := p.closed
	p.closed = map[*Variable]*tensor.Tensor{}
	for e, group := range p.groups {
		if every >= 0 && e != every {
			continue
		}
		for v := range group {
			if t := v.unwritten(); t != nil {
				values[v] = t
			}
		}
	}
	return values
}

// write writes values: first all of them in pieces, and then, as one change, that they are the variables' values. It releases them. The
// last ones may exceed the store's limit.
func (p *Pictures) write(values map[*Variable]*tensor.Tensor, last bool) (err error) {
	if len(values) == 0 {
		return nil
	}
	defer func() {
		for v, t := range values {
			if err != nil {
				v.missed()
			}
			t.Release()
		}
	}()
	heads := map[*Variable]head{}
	total, largest := 0, pieceBytes
	for v, t := range values {
		// Before the first piece: what a picture that fails later has written must not be taken for a part of the next one.
		if err := v.keepable(t, true); err != nil {
			return err
		}
		if total += t.ByteSize(); t.DType().Size() == 0 {
			largest = max(largest, t.ByteSize())
		}
	}
	need := durable.Adds(total) // beside those that are there, until all are written
	if last {
		need = durable.Replaces(total, total) // there is no other time for it, whatever the limit
	}
	if err := p.store.Admits(need.InPieces(largest)); err != nil {
		return err
	}
	for v, t := range values {
		h, err := p.pieces(v, t)
		if err != nil {
			return err
		}
		heads[v] = h
	}
	tx := p.store.Begin()
	for v, h := range heads {
		tx.Set(v.cell, headKey, h)
		for i := range v.written.Pieces {
			tx.Delete(v.cell, pieceKey(v.written.Number, i))
		}
		tx.Delete(v.cell, nil)
	}
	if err := wait(tx); err != nil {
		return err
	}
	for v, h := range heads {
		v.written = h
	}
	return nil
}

// pieces writes a value in pieces, one after the other, so that they take no more memory than one.
func (p *Pictures) pieces(v *Variable, t *tensor.Tensor) (head, error) {
	h := headOf(t, v.written.Number+1)
	for i := range h.Pieces {
		tx := p.store.Begin()
		tx.Set(v.cell, pieceKey(h.Number, i), pieceOf(t, i))
		if err := wait(tx); err != nil {
			return h, err
		}
	}
	return h, nil
}

// headOf returns the head of a value in pieces of that number. Strings are one piece.
func headOf(t *tensor.Tensor, number uint64) head {
	h := head{Number: number, Pieces: 1, DType: t.DType(), Shape: t.Shape()}
	if h.DType.Size() > 0 {
		h.Pieces = uint32(max((t.ByteSize()+pieceBytes-1)/pieceBytes, 1))
	}
	return h
}

// pieceOf returns a piece of a value, with a reference to it.
func pieceOf(t *tensor.Tensor, i uint32) durable.Value {
	if t.DType().Size() == 0 {
		return tuple.Tuple{t.Retain()}
	}
	lo := int(i) * pieceBytes
	return piece{t.Retain(), lo, min(lo+pieceBytes, t.ByteSize())}
}

// wait commits a transaction and waits until it is on disk.
func wait(tx *durable.Tx) error {
	done := make(chan error, 1)
	tx.End(func(err error) { done <- err })
	return <-done // the store answers, or fails
}

// head says where the value of a picture, or of a variable that moves, is: in pieces of that number.
type head struct {
	Number uint64
	Pieces uint32
	DType  tensor.DType
	Shape  tensor.Shape
}

var headKey = []byte{'h'}

func pieceKey(number uint64, i uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{'p'}, number), i)
}

// Append implements durable.Value.
func (h head) Append(b []byte) ([]byte, error) {
	text, err := json.Marshal(h)
	return append(b, text...), err
}

// Release implements durable.Value.
func (head) Release() {}

// piece is bytes lo to hi of a tensor.
type piece struct {
	t      *tensor.Tensor
	lo, hi int
}

// Append implements durable.Value.
func (p piece) Append(b []byte) ([]byte, error) { return append(b, p.t.Data()[p.lo:p.hi]...), nil }

// Release implements durable.Value.
func (p piece) Release() { p.t.Release() }

// Size returns the number of bytes.
func (p piece) Size() int { return p.hi - p.lo }

// shot is the value of a variable on disk, as it is read.
type shot struct {
	head
	pieces uint32
	value  *tensor.Tensor
	filled int      // bytes
	stale  [][]byte // the keys of pieces of other pictures, which were not written to their end
}

// read reads an entry of a picture. The entry headKey comes first. known is false for other entries.
func (s *shot) read(key, value []byte, memory *tensor.Pool) (known bool, err error) {
	switch {
	case len(key) == 1 && key[0] == headKey[0]:
		if err := json.Unmarshal(value, &s.head); err != nil {
			return true, err
		}
		if s.DType.Size() > 0 {
			s.value, err = tensor.New(memory, s.DType, s.Shape)
		}
		return true, err
	case len(key) != 1+8+4 || key[0] != 'p':
		return false, nil
	case s.Pieces == 0 || binary.BigEndian.Uint64(key[1:]) != s.Number:
		s.stale = append(s.stale, append([]byte(nil), key...))
		return true, nil
	}
	if s.pieces++; s.pieces > s.Pieces {
		return true, errPieces
	}
	if s.DType.Size() == 0 {
		t, err := tuple.Read(value, memory)
		if err != nil || len(t) != 1 {
			t.Release()
			return true, errors.Join(errPieces, err)
		}
		s.value = t[0]
		return true, nil
	}
	data := s.value.Data()
	if len(value) > len(data)-s.filled {
		return true, errPieces
	}
	s.filled += copy(data[s.filled:], value)
	return true, nil
}

// done returns the value, or nil if there is no picture.
func (s *shot) done() (*tensor.Tensor, error) {
	if s.pieces != s.Pieces || s.value != nil && s.DType.Size() > 0 && s.filled != len(s.value.Data()) {
		return nil, errPieces
	}
	return s.value, nil
}

var errPieces = status.Errorf(status.DataLoss, "the value is not complete")
