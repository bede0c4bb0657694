package data

import (
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// Datasets that give the elements of their input as they are: options, assertions, and the like.

// pass is a dataset that is its input. What it says is for others to read.
type pass struct{ *Dataset }

func newPass(*settings) maker {
	return func(in *inputs) kind { return pass{in.dataset(0)} }
}

func (k pass) at(c *Call, i int64) (Element, error) { return k.Dataset.at(c, i) }

func (k pass) shufflable() error { return k.Dataset.shufflable() }

// options is a dataset with the options that a client set for it.
type options struct {
	pass
	serialized string
}

func (options) changesNothing() bool { return true }

func newOptions(s *settings) maker {
	text := s.str("serialized_options")
	return func(in *inputs) kind { return options{pass{in.dataset(0)}, text} }
}

// optionsOf gives the options that were set last in a pipeline, "" where none were.
func optionsOf(d *Dataset) string {
	for {
		if o, ok := d.kind.(options); ok {
			return o.serialized
		}
		if len(d.inputs) == 0 {
			return ""
		}
		d = d.inputs[0]
	}
}

func getOptions(ctx *kernels.Context, p place) error {
	d, err := datasetIn(p, ctx.Input(0))
	if err == nil {
		ctx.SetOutput(0, stringScalar(optionsOf(d)))
		d.Release()
	}
	return err
}

// assertCardinality fails where its input has another number of elements.
type assertCardinality struct {
	input *Dataset
	want  int64
}

func newAssertCardinality(*settings) maker {
	return func(in *inputs) kind { return &assertCardinality{in.dataset(0), in.int(1, "cardinality")} }
}

func (k *assertCardinality) cardinality() int64 { return k.want }

func (k *assertCardinality) at(c *Call, i int64) (Element, error) {
	e, err := k.input.kind.(indexed).at(c, i)
	if err != nil {
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s but index %d could not be retrieved: %v", elements(k.want), i, err)
	}
	return e, nil
}

func (k *assertCardinality) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator { return &asserting{over: o, want: k.want} })
}

type asserting struct {
	over
	want, got int64
}

func (it *asserting) Next(c *Call) (Element, error) {
	e, err := it.input.Next(c)
	if err == nil {
		it.got++
	}
	switch {
	case atEnd(err) && (it.want == infinite || it.got < it.want):
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s but contained only %s.", elements(it.want), elements(it.got))
	case err == nil && it.want != infinite && it.got > it.want:
		e.release()
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s but contained at least %s.", elements(it.want), elements(it.got))
	}
	return e, err
}

func (it *asserting) Save(c *Call, w *Writer) {
	w.Int("got", it.got)
	it.over.Save(c, w)
}

func (it *asserting) Restore(c *Call, r *Reader) {
	it.got = r.Place("got")
	it.over.Restore(c, r)
}

// ignoreErrors leaves out what fails.
type ignoreErrors struct {
	input *Dataset
	logs  bool
}

func newIgnoreErrors(s *settings) maker {
	logs := s.bool("log_warning")
	return func(in *inputs) kind { return &ignoreErrors{in.dataset(0), logs} }
}

func (k *ignoreErrors) cardinality() int64 {
	if k.input.cardinality() == infinite {
		return infinite
	}
	return unknown
}

func (k *ignoreErrors) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator { return &ignoring{o, k.logs} })
}

type ignoring struct {
	over
	logs bool
}

func (it *ignoring) Next(c *Call) (Element, error) {
	for {
		e, err := it.input.Next(c)
		if err == nil || atEnd(err) || c.Err() != nil {
			return e, err
		}
		if it.logs {
			c.log.Warn("an element of a dataset was left out", "error", err)
		}
	}
}

// sleep waits before each element.
type sleep struct {
	input *Dataset
	pause time.Duration
}

func newSleep(*settings) maker {
	return func(in *inputs) kind {
		k := &sleep{in.dataset(0), 0}
		if us := in.int(1, "sleep_microseconds"); us < 0 || us > int64(time.Hour/time.Microsecond) {
			in.failf("sleep_microseconds must be from 0 to an hour, got %d", us)
		} else {
			k.pause = time.Duration(us) * time.Microsecond
		}
		return k
	}
}

func (k *sleep) cardinality() int64 { return k.input.cardinality() }

func (k *sleep) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator { return &sleeping{o, k.pause} })
}

type sleeping struct {
	over
	pause time.Duration
}

func (it *sleeping) Next(c *Call) (Element, error) {
	t := time.NewTimer(it.pause)
	defer t.Stop()
	select {
	case <-t.C:
		return it.input.Next(c)
	case <-c.Done:
		return nil, c.Err()
	}
}

// transient datasets cannot be saved in the midst.
type transient struct{ pass }

func newTransient(*settings) maker {
	return func(in *inputs) kind { return transient{pass{in.dataset(0)}} }
}

func (k transient) open(e *Env) (Iterator, error) {
	return openOver(e, k.Dataset, func(o over) Iterator { return &unsaved{o} })
}

type unsaved struct{ over }

func (it *unsaved) Save(_ *Call, w *Writer) {
	w.Fail(status.Unimplementedf("NonSerializableDataset does not support saving its iterator"))
}
