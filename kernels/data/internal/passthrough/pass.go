package passthrough

import (
	"time"

	optionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/dataset_options_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"google.golang.org/protobuf/proto"
)

// Datasets that return the elements of their input unchanged: options, assertions, and the like.

// pass is a dataset equal to its input. Other code reads its settings.
type pass struct{ *dataset.Dataset }

func newPass(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return pass{in.Dataset(0)} }
}

// InRange leaves the check of indices to the input.
func (pass) InRange(_, _ int64) error { return nil }

func (k pass) At(c *dataset.Call, i int64) (dataset.Element, error) { return k.Dataset.At(c, i) }

func (k pass) Shufflable() error { return k.Dataset.Shufflable() }

// options is a dataset with options set by a client.
type options struct {
	pass
	own *optionspb.Options // immutable
}

func (options) ChangesNothing() bool { return true }

func newOptions(s *dataset.Settings) dataset.Maker {
	text, own := []byte(s.Str("serialized_options")), &optionspb.Options{}
	// Discard unknown fields: merging would make them longer with each path to a dataset.
	if s.Err() == nil && (tensor.Unmarshal(text, own) != nil || proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, own) != nil) {
		s.Failf("Could not parse serialized_options as valid Options.")
	}
	return func(in *dataset.Inputs) dataset.Kind { return options{pass{in.Dataset(0)}, own} }
}

// getOptions outputs the options of a dataset. Its own options take precedence over those of its inputs, and later inputs over earlier
// ones.
func getOptions(ctx *kernels.Context, p dataset.Place) error {
	d, err := dataset.FromTensor(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(MergedOptions(d, map[*dataset.Dataset]*optionspb.Options{}))
	if err != nil {
		return status.Internalf("The options of a %s: %v", d.Op, err)
	}
	ctx.SetOutput(0, tensor.FromScalar(string(text)))
	return nil
}

// assertCardinality fails if its input has another number of elements.
type assertCardinality struct {
	input *dataset.Dataset
	want  int64
}

func newAssertCardinality(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		return &assertCardinality{in.Dataset(0), in.Int(1, "cardinality")}
	}
}

func (k *assertCardinality) Cardinality(*dataset.Query) int64 { return k.want }

func (k *assertCardinality) InRange(_, i int64) error {
	switch {
	case i < 0:
		return status.Errorf(status.OutOfRange, "Dataset index %d must be non-negative", i)
	case k.want != dataset.Infinite && i >= k.want:
		return status.Errorf(status.OutOfRange, "Index %d greater than dataset size %d", i, k.want)
	}
	return nil
}

func (k *assertCardinality) At(c *dataset.Call, i int64) (dataset.Element, error) {
	e, err := k.input.At(c, i)
	switch {
	case dataset.AtEnd(err):
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s.", dataset.CountText(k.want))
	case status.CodeOf(err) == status.OutOfRange:
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s but index %d could not be retrieved: %v", dataset.CountText(k.want), i, err)
	}
	return e, err
}

func (k *assertCardinality) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &asserting{Over: o, want: k.want} })
}

type asserting struct {
	dataset.Over
	want, got int64
}

func (it *asserting) Next(c *dataset.Call) (dataset.Element, error) {
	e, err := it.Input.Next(c)
	if err == nil {
		it.got++
	}
	switch {
	case dataset.AtEnd(err) && (it.want == dataset.Infinite || it.got < it.want):
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s but contained only %s.", dataset.CountText(it.want), dataset.CountText(it.got))
	case err == nil && it.want != dataset.Infinite && it.got > it.want:
		e.Release()
		return nil, status.Errorf(status.FailedPrecondition, "Input dataset was expected to contain %s but contained at least %s.", dataset.CountText(it.want), dataset.CountText(it.got))
	}
	return e, err
}

func (it *asserting) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("got", it.got)
	it.Over.Save(c, w)
}

func (it *asserting) Restore(c *dataset.Call, r *dataset.Reader) {
	it.got = r.Place("got")
	it.Over.Restore(c, r)
}

// ignoreErrors skips elements that fail.
type ignoreErrors struct {
	input *dataset.Dataset
	logs  bool
}

func newIgnoreErrors(s *dataset.Settings) dataset.Maker {
	logs := s.Bool("log_warning")
	return func(in *dataset.Inputs) dataset.Kind { return &ignoreErrors{in.Dataset(0), logs} }
}

func (k *ignoreErrors) Cardinality(q *dataset.Query) int64 {
	if k.input.Cardinality(q) == dataset.Infinite {
		return dataset.Infinite
	}
	return dataset.Unknown
}

func (k *ignoreErrors) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &ignoring{o, k.logs} })
}

type ignoring struct {
	dataset.Over
	logs bool
}

func (it *ignoring) Next(c *dataset.Call) (dataset.Element, error) {
	for {
		e, err := it.Input.Next(c)
		if err == nil || dataset.AtEnd(err) || c.Err() != nil {
			return e, err
		}
		if it.logs {
			c.Log.Warn("an element of a dataset was left out", "error", err)
		}
	}
}

// sleep waits before each element.
type sleep struct {
	input *dataset.Dataset
	pause time.Duration
}

func newSleep(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := &sleep{in.Dataset(0), 0}
		if us := in.Int(1, "sleep_microseconds"); us < 0 || us > int64(time.Hour/time.Microsecond) {
			in.Failf("sleep_microseconds must be from 0 to an hour, got %d", us)
		} else {
			k.pause = time.Duration(us) * time.Microsecond
		}
		return k
	}
}

func (k *sleep) Cardinality(q *dataset.Query) int64 { return k.input.Cardinality(q) }

func (k *sleep) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &sleeping{o, k.pause} })
}

type sleeping struct {
	dataset.Over
	pause time.Duration
}

func (it *sleeping) Next(c *dataset.Call) (dataset.Element, error) {
	t := time.NewTimer(it.pause)
	defer t.Stop()
	select {
	case <-t.C:
		return it.Input.Next(c)
	case <-c.Done:
		return nil, c.Err()
	}
}

// transient datasets cannot become graphs. Their iterators can be saved like others.
type transient struct{ pass }

func newTransient(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return transient{pass{in.Dataset(0)}} }
}

func (transient) Transient() bool { return true }

func (k transient) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.Dataset, func(o dataset.Over) dataset.Iterator { return &passing{o} })
}

// passing is the iterator of a dataset that returns the elements of its input.
type passing struct{ dataset.Over }

func (it *passing) Next(c *dataset.Call) (dataset.Element, error) { return it.Input.Next(c) }
