package data

import (
	"time"

	optionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/dataset_options_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// Datasets that return the elements of their input unchanged: options, assertions, and the like.

// pass is a dataset equal to its input. Other code reads its settings.
type pass struct{ *Dataset }

func newPass(*settings) maker {
	return func(in *inputs) kind { return pass{in.dataset(0)} }
}

// inRange leaves the check of indices to the input.
func (pass) inRange(_, _ int64) error { return nil }

func (k pass) at(c *Call, i int64) (Element, error) { return k.Dataset.at(c, i) }

func (k pass) shufflable() error { return k.Dataset.shufflable() }

// options is a dataset with options set by a client.
type options struct {
	pass
	own *optionspb.Options // immutable
}

func (options) changesNothing() bool { return true }

func newOptions(s *settings) maker {
	text, own := []byte(s.Str("serialized_options")), &optionspb.Options{}
	// Discard unknown fields: merging would make them longer with each path to a dataset.
	if s.Err() == nil && (tensor.Unmarshal(text, own) != nil || proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, own) != nil) {
		s.Failf("Could not parse serialized_options as valid Options.")
	}
	return func(in *inputs) kind { return options{pass{in.dataset(0)}, own} }
}

// getOptions outputs the options of a dataset. Its own options take precedence over those of its inputs, and later inputs over earlier
// ones.
func getOptions(ctx *kernels.Context, p place) error {
	d, err := datasetIn(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(mergedOptions(d, map[*Dataset]*optionspb.Options{}))
	if err != nil {
		return status.Internalf("The options of a %s: %v", d.Op, err)
	}
	ctx.SetOutput(0, stringScalar(string(text)))
	return nil
}

// assertCardinality fails if its input has another number of elements.
type assertCardinality struct {
	input *Dataset
	want  int64
}

func newAssertCardinality(*settings) maker {
	return func(in *inputs) kind { return &assertCardinality{in.dataset(0), in.int(1, "cardinality")} }
}

func (k *assertCardinality) cardinality(*query) int64 { return k.want }

func (k *assertCardinality) inRange(_, i int64) error {
	switch {
	case i < 0:
		return status.Errorf(status.OutOfRange, "Dataset index %d must be non-negative", i)
	case k.want != infinite && i >= k.want:
		return status.Errorf(status.OutOfRange, "Index %d greater than dataset size %d", i, k.want)
	}
	return nil
}

func (k *assertCardinality) at(c *Call, i int64) (Element, error) {
	e, err := k.input.at(c, i)
	switch {
	case atEnd(err):
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s.", elements(k.want))
	case status.CodeOf(err) == status.OutOfRange:
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s but index %d could not be retrieved: %v", elements(k.want), i, err)
	}
	return e, err
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

// ignoreErrors skips elements that fail.
type ignoreErrors struct {
	input *Dataset
	logs  bool
}

func newIgnoreErrors(s *settings) maker {
	logs := s.Bool("log_warning")
	return func(in *inputs) kind { return &ignoreErrors{in.dataset(0), logs} }
}

func (k *ignoreErrors) cardinality(q *query) int64 {
	if k.input.cardinality(q) == infinite {
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

func (k *sleep) cardinality(q *query) int64 { return k.input.cardinality(q) }

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

// transient datasets cannot become graphs. Their iterators can be saved like others.
type transient struct{ pass }

func newTransient(*settings) maker {
	return func(in *inputs) kind { return transient{pass{in.dataset(0)}} }
}

func (transient) transient() bool { return true }

func (k transient) open(e *Env) (Iterator, error) {
	return openOver(e, k.Dataset, func(o over) Iterator { return &passing{o} })
}

// passing is the iterator of a dataset that returns the elements of its input.
type passing struct{ over }

func (it *passing) Next(c *Call) (Element, error) { return it.input.Next(c) }
