package reader

import (
	"errors"
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/queues"
)

// maxRecords bounds what one operation may read.
const maxRecords = 1 << 26

// reading is an operation that reads records.
type reading struct {
	*Reader
	operation
	fsys    files.FS
	work    Work
	most    int64 // 0 means one
	records []Record
	done    func([]Record, error)
}

// Read reads one record for a step. At the end of each unit of work it requests a new one from work. files are those that the caller may
// use. The reader does not keep them: it serves all sessions that know its name, and must not read for one session what only another may
// read.
func (r *Reader) Read(step queues.Step, by queues.Origin, fsys files.FS, work Work, done func(Record, error)) (cancel func(error)) {
	return r.read(step, by, fsys, work, 0, func(records []Record, err error) {
		if err != nil {
			done(Record{}, err)
			return
		}
		done(records[0], nil)
	})
}

// ReadUpTo reads n records, or the rest of a unit of work if that is at least one. A negative n is INVALID_ARGUMENT.
func (r *Reader) ReadUpTo(step queues.Step, by queues.Origin, fsys files.FS, work Work, n int64, done func([]Record, error)) (cancel func(error)) {
	switch {
	case n < 0:
		done(nil, status.InvalidArgumentf("num_records must be >= 0 not %d", n))
	case n == 0:
		done(nil, nil)
	default:
		return r.read(step, by, fsys, work, n, done)
	}
	return func(error) {}
}

func (r *Reader) read(step queues.Step, by queues.Origin, fsys files.FS, work Work, most int64, done func([]Record, error)) (cancel func(error)) {
	o := &reading{Reader: r, fsys: fsys, work: work, most: most, done: done}
	o.step, o.by, o.run = step, by, o.goOn
	o.fail = func(err error) { done(nil, err) }
	return r.enter(&o.operation)
}

// finish ends the operation.
func (o *reading) finish(err error) {
	records := o.records
	if err != nil {
		records = nil
	}
	o.endTurn()
	o.done(records, err)
}

// goOn reads until the operation is complete, or must wait for the name of a unit of work.
func (o *reading) goOn() {
	for {
		if err := o.gaveUp(&o.operation); err != nil {
			o.finish(err)
			return
		}
		if o.finished.Load() >= o.started.Load() {
			o.await()
			return
		}
		if o.opener != o.fsys {
			if err := o.source.Admit(o.fsys); err != nil {
				o.finish(err)
				return
			}
			o.opener = o.fsys
		}
		enough, err := o.one()
		if enough || err != nil {
			o.finish(err)
			return
		}
	}
}

// one reads one record, if the unit of work has one, and reports whether the operation is complete.
func (o *reading) one() (enough bool, err error) {
	record, last, err := o.source.Next()
	end := errors.Is(err, io.EOF)
	if err != nil && !end {
		return false, err
	}
	if !end {
		if len(o.records) == maxRecords {
			return false, status.Errorf(status.ResourceExhausted, "%s reads more than %d records at once", o.title(), maxRecords)
		}
		o.records = append(o.records, record)
		o.produced.Add(1)
	}
	if last || end {
		o.source.Close()
		o.finished.Store(o.started.Load())
	}
	return int64(len(o.records)) >= max(o.most, 1) || (last || end) && len(o.records) > 0, nil
}

// await requests the name of a unit of work, and gives up the goroutine.
func (o *reading) await() {
	o.mu.Lock()
	o.waits++
	turn := o.waits
	o.asks = true
	o.mu.Unlock()
	cancel := o.work(func(name string, err error) { o.start(&o.operation, func() { o.begin(name, err) }) })
	o.mu.Lock()
	if o.waits == turn { // otherwise the name has already arrived
		o.wait = cancel
	}
	cancelled := o.cancelled
	o.mu.Unlock()
	if cancelled != nil {
		cancel(cancelled)
	}
}

// begin continues with a unit of work.
func (o *reading) begin(name string, err error) {
	o.mu.Lock()
	o.waits++
	o.wait, o.asks = nil, false
	if o.deleted && err != nil {
		err = o.gone()
	}
	o.mu.Unlock()
	if err == nil {
		o.begins(name)
		o.opener = o.fsys
		if err = o.source.Open(o.fsys, name); err == nil {
			o.started.Add(1)
		} else {
			o.source.Close()
		}
	}
	if err != nil {
		o.finish(err)
		return
	}
	o.goOn()
}
